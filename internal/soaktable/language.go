package main

import "cmp"

// A language has the words of the table.
type language struct {
	head     []string          // of the first columns
	titles   map[string]string // of the columns of faults, by their English title, which is the default
	lost     string            // the head of the last column
	legend   string
	colon    string
	commands string // the head of the second table
}

// title returns the title of a column.
func (l language) title(c column) string { return cmp.Or(l.titles[c.title], c.title) }

var english = language{
	head: []string{"store", "time", "operations", "violations"},
	lost: "updates lost without a fence / behind it",
	legend: "A cell has how often the faults of its column were injected, and the violations that were found " +
		"after them. To\nrepeat a cell, add `--faults` to the command of its row, with the names of its column that " +
		"the row has:",
	colon:    ": ",
	commands: "| store | run on | faults | command |",
}

var chinese = language{
	head: []string{"存储", "时长", "操作数", "违例"},
	titles: map[string]string{
		"paused": "暂停", "killed": "杀死", "starved": "饥饿", "cut off": "切断", "delayed": "延迟",
		"server killed": "服务器被杀死", "server stopped": "服务器被挂起", "data lost": "数据丢失", "failover": "故障转移",
		"connections ended": "连接被终止", "clock set": "时钟被设置",
	},
	lost: "无栅栏 / 有栅栏时丢失的更新",
	legend: "每个格子是所在列的故障发生的次数，以及其后发现的违例数。要重复某个格子，" +
		"请给该行的命令加上 `--faults`，\n取该列的名称中该行所具有的那些：",
	colon:    "：",
	commands: "| 存储 | 运行日期 | 故障 | 命令 |",
}
