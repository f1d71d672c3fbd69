package demo

import "golang.org/x/sys/windows"

func now() moment { return moment(windows.DurationSinceBoot()) }
