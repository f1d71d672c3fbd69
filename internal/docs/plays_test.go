//go:build unix

package docs_test

// A play is how a line of a page is played, if it is not just run, with the exit code 0.
type play struct {
	// Only has the reason why the line is not run. Each call of holdfast in it is parsed.
	only string
	// Instead is run in place of the line, whose calls of holdfast are parsed.
	instead string
	// Before is run before the line.
	before string
	// Ready is a pattern: the line runs until the block ends, and the next line comes when its output has this.
	ready string
	// Exits is the exit code.
	exits int
}

const (
	long    = "it takes half a minute or more; internal/newcomer runs a short one"
	rungs   = "it needs a server; lab plays every rung in its tests"
	foreign = "it is a command of another program"
)

// plays has the lines of all pages that are not just run, without their comments.
var plays = map[string]play{
	// docs/cli.md
	"holdfast break backup": {before: "hold backup", exits: 64}, // no terminal confirms it
	"holdfast break --yes --token 459448822727425280 backup": {
		before:  `token=$(holdfast show --json backup | sed -n 's/.*"token": "\(.*\)".*/\1/p')`,
		instead: `holdfast break --yes --token "$token" backup`,
	},
	"holdfast doctor --store redis://127.0.0.1:6379": {
		before: "redis-cli CONFIG SET maxmemory 100mb maxmemory-policy allkeys-lru", exits: 69,
	},
	"holdfast exporter --store redis://10.0.0.5:6379": {
		instead: "holdfast exporter --store redis://10.0.0.5:6379 --listen 127.0.0.1:0", ready: "http://",
	},
	"curl -s http://127.0.0.1:9646/metrics": {
		instead: `curl -s "$(grep -o 'http://.*/metrics' served)" | grep '^holdfast_store_up'`,
	},
	"holdfast lab run late-write zk-session --seed 7":                        {only: rungs},
	"holdfast lab run redlock-restart --report restart.html":                 {only: rungs},
	"holdfast lab run --all --json | jq '.rungs[] | {name, caught, passed}'": {only: rungs},
	"holdfast redlock status redlock://h1,h2,h3":                             {only: "it needs three servers"},
	"holdfast run NAME [NAME...] [flags] -- COMMAND [ARGUMENT...]":           {only: "it is a synopsis"},
	"holdfast show backup": {before: "hold backup"},
	"holdfast ui":          {ready: "^http://"},
	"holdfast ui --store redis://127.0.0.1:6379 --allow-break": {ready: "^http://"},
	"holdfast verify": {only: long},
	"holdfast verify --store redis://127.0.0.1:6379 --time 2m --report run.html":           {only: long},
	"holdfast verify --store postgres://localhost/app --seed 7 --faults pause,kill --json": {only: long},
	"holdfast verify --own-servers etcd --time 3m":                                         {only: long},
	"holdfast wait --held --timeout 30 leader":                                             {before: "hold leader"},

	// docs/migrating.md
	"holdfast --store 'redis://127.0.0.1:6379/0?mode=plain&prefix=lock:' show invoice:42": {
		before: "hold --store 'redis://127.0.0.1:6379/0?mode=plain&prefix=lock:' invoice:42",
	},
	"consul lock jobs/report make-report": {only: foreign},
	"holdfast run --store 'consul://127.0.0.1:8500?mode=plain' jobs/report/.lock -- make-report": {
		only: "it needs Consul",
	},

	// docs/operations.md
	"holdfast redlock init 'redlock://H1,H2,H3,H4,H5?max-ttl=60s'":                  {only: "it needs five servers"},
	"etcdctl role add holdfast":                                                     {only: foreign},
	"etcdctl role grant-permission holdfast --prefix=true readwrite holdfast/shop/": {only: foreign},
	`curl -X PUT -d '{"Node":"holdfast","Address":"127.0.0.1"}' http://127.0.0.1:8500/v1/catalog/register`: {
		only: "it needs Consul",
	},

	// docs/packaging.md
	"sha256sum --check --ignore-missing holdfast_VERSION_SHA256SUMS": {only: "it needs a download"},

	// docs/recipes.md
	`curl --fail -X POST -H "Fencing-Token: $HOLDFAST_TOKEN" https://stock.internal/sell`: {
		only: "it needs a service",
	},

	// docs/why-locks-are-hard.md
	"holdfast lab run blind-delete": {only: rungs},
	"holdfast lab run --all":        {only: rungs},
}

// stubs are the programs that do nothing here but read their input. Scripts that a block names by a path, such as
// ./deploy.sh, are made likewise.
var stubs = []string{
	"psql", // TestRecipeToken runs the recipe with the real one
	"rsync",
}

// tools are the programs of this machine that blocks may call. All others are missing when a block runs.
var tools = []string{"cat", "curl", "date", "flock", "grep", "sed", "sh", "sleep"}
