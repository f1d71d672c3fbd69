# Type `make` for what there is. Settings can be given on the command line,
# such as `make soak FUZZTIME=1h`.

SHELL := /bin/sh
.DEFAULT_GOAL := help
# The steps of `test` come one after the other, also under `make -j`.
.NOTPARALLEL:

# Without paths in what is compiled, all clones share what is in the build cache.
export GOFLAGS := $(strip $(shell go env GOFLAGS 2>/dev/null) -trimpath)

# How long `go test` may take for one package.
TEST_TIMEOUT ?= 20m
# Whose tests run beside those that need no server, as in STORES="redis etcd"; without it, all. Servers of other stores
# are not needed then.
STORES ?=
export HOLDFAST_STORES := $(STORES)
# Which benchmarks run, and how often each.
BENCH ?= .
COUNT ?= 1
# Flags of the comparison with other locks.
PEERS ?=
# How long each fuzz target runs.
FUZZTIME ?= 5m
# How long holdfast verify breaks each store in a soak, with which seed, and which stores: a file, and servers of its own.
SOAKTIME ?= 3m
SOAKSEED ?= 1
SOAKSTORES ?= sqlite redis redis-aof sentinel cluster redlock etcd postgres mariadb zookeeper consul

# The linter is built once into a cache outside the checkout. Its name holds its
# version and that of Go, since a linter cannot read what a newer Go compiled.
LINT_PKG := github.com/golangci/golangci-lint/v2
LINT_VERSION := $(shell awk '$$1 == "$(LINT_PKG)" { print $$2 }' tools/go.mod)
TOOLS_DIR := $${XDG_CACHE_HOME:-$$HOME/.cache}/holdfast/tools
LINT := $(TOOLS_DIR)/golangci-lint-$(LINT_VERSION)-$(shell go env GOVERSION 2>/dev/null)

# The etcd and the Consul that tests run against are built once too, since what systems come with is old or missing.
# Tests find them by name and version.
ETCD_PKG := go.etcd.io/etcd/server/v3
CONSUL_PKG := github.com/hashicorp/consul
SERVERS_DIR := $${XDG_CACHE_HOME:-$$HOME/.cache}/holdfast/servers

# Modules of their own within the checkout, whose dependencies Holdfast does not require.
ADAPTERS := adapters/gooselock adapters/migratelock
MODULES := bench $(ADAPTERS)

.PHONY: help
help: ## Show this list
	@echo "Holdfast. Targets:"
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  %-11s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: setup
setup: need modules linter servers ## Fetch modules, build the linter, install servers; test does this first

.PHONY: demo
demo: ## Sell one stock from many processes: without a lock, with a naive one, with Holdfast
	go run ./cmd/holdfast demo

.PHONY: test
test: setup lint cross race plain bench-check ## Run all checks and tests, as continuous integration does (STORES="redis etcd")
	@echo "==> all checks and tests passed"

.PHONY: lint
lint: linter ## Check format, go vet and golangci-lint
	@echo "==> gofmt"
	@bad=$$(gofmt -l .); test -z "$$bad" || { echo "not formatted, run gofmt -w:"; echo "$$bad"; exit 1; }
	@echo "==> go vet"
	@go vet ./...
	@set -e; for module in $(MODULES); do go -C $$module vet ./...; done
	@echo "==> golangci-lint $(LINT_VERSION)"
	@"$(LINT)" run ./...
	@set -e; for module in $(MODULES); do (cd $$module && "$(LINT)" run ./...); done

.PHONY: bench
bench: ## Run the benchmarks (BENCH=regexp, COUNT=n)
	go test -run '^$$' -bench '$(BENCH)' -benchmem -count $(COUNT) -timeout 0 ./...

# Counts, not times: allocations, commands, waits for another goroutine, and scripts for a hand-over, against what is recorded
# in the tests.
.PHONY: bench-check
bench-check: ## Check what a lock costs against recorded counts
	@echo "==> costs against recorded counts"
	@HOLDFAST_REQUIRE_SERVERS=1 go test -count 1 -run '^TestAllocations$$' .
	$(if $(call needs,redis),@HOLDFAST_REQUIRE_SERVERS=1 go test -count 1 \
		-run '^(TestRecordedCosts|TestOneCommandEach|TestHandOverCost|TestKeepInShortScripts)$$' ./redisstore)

.PHONY: peers
peers: ## Measure Holdfast beside other locks on Redis (PEERS=--quick for a short run)
	go -C bench run . $(PEERS)

.PHONY: charts
charts: ## Draw the charts of docs/benchmarks.md again, from the recorded results
	go -C bench run . --from results/redis.json --charts ../docs/img

.PHONY: soak
soak: fuzz verify ## Fuzz for long (FUZZTIME=5m each), play a million schedules of Redlock, verify stores (SOAKTIME=3m each)

.PHONY: fuzz
fuzz:
	@set -e; targets=$$(go list -f '{{.ImportPath}} {{.Dir}}' ./... | while read -r pkg dir; do \
		cat "$$dir"/*_test.go 2>/dev/null | \
			sed -n "s|^func \(Fuzz[A-Za-z0-9_]*\)(.*|$$pkg \1|p"; \
	done); \
	test -n "$$targets" || { echo "no fuzz targets found"; exit 1; }; \
	echo "$$targets" | while read -r pkg target; do \
		echo "==> $$target in $$pkg, for $(FUZZTIME)"; \
		go test -run '^$$' -fuzz "^$$target\$$" -fuzztime $(FUZZTIME) -timeout 0 "$$pkg" </dev/null; \
	done
	@echo "==> all fuzz targets ran without a finding"
	@echo "==> a lease that two processes pass on 10,000 times"
	HOLDFAST_SOAK=1 go test -run '^TestRelay$$' -v -timeout 0 ./lab/contend
	@echo "==> a million schedules of Redlock"
	HOLDFAST_SOAK=1 go test -run '^TestSchedules$$' -v -timeout 0 ./redlock/internal/sim

# The table is written also if a lock did not hold, and the target fails then.
.PHONY: verify
verify:
	@set -e; dir=$$(mktemp -d); trap 'rm -rf "$$dir"' EXIT; broken=0; \
	go build -o "$$dir/holdfast" ./cmd/holdfast; \
	for store in $(SOAKSTORES); do \
		echo "==> holdfast verify on $$store, for $(SOAKTIME)"; \
		case $$store in \
			sqlite) on="--store sqlite:locks.db";; \
			*) on="--own-servers $$store";; \
		esac; \
		(cd "$$dir" && ./holdfast verify $$on --time $(SOAKTIME) --seed $(SOAKSEED) --report "$$store.json") || broken=$$?; \
		test $$broken -eq 0 || test $$broken -eq 80 || exit $$broken; \
	done; \
	go run ./internal/soaktable docs/guarantees.md "$$dir"/*.json; \
	exit $$broken

.PHONY: dist
dist: ## Build for all systems as a release does, and write man pages, completions and licences into build
	HOLDFAST_DIST=1 go test -count 1 -run '^TestTargets$$' -timeout 0 ./internal/packaging
	go run ./internal/packaging -version "$$(git describe --tags --always --dirty)" build

.PHONY: outdated
outdated: ## List the modules, tools and servers that have newer releases
	@tools/outdated

# The steps of the targets above.

.PHONY: need
need:
	@echo "==> setup: needs Go and a C compiler, fetches Go modules, builds the linter, etcd and Consul into a cache,"
	@echo "    and installs the other servers that tests run against and Chromium, if they are missing"
	@command -v go >/dev/null || { echo "Go is missing: see https://go.dev/dl/"; exit 1; }
	@tools/packages $(STORES) >/dev/null
	@cc=$$(go env CC); command -v "$${cc%% *}" >/dev/null || \
		{ echo "The C compiler $$cc is missing. The race detector needs one."; exit 1; }

.PHONY: modules
modules:
	@echo "==> setup: Go modules"
	@go mod download
	@set -e; for module in $(MODULES); do go -C $$module mod download; done

.PHONY: linter
linter:
	@test -n "$(LINT_VERSION)" || { echo "tools/go.mod names no golangci-lint"; exit 1; }
	@set -e; test -x "$(LINT)" || { \
		echo "==> setup: building golangci-lint $(LINT_VERSION); the first time takes minutes"; \
		mkdir -p "$(TOOLS_DIR)"; \
		GOWORK=off go -C tools build -o "$(LINT).$$$$" $(LINT_PKG)/cmd/golangci-lint; \
		mv "$(LINT).$$$$" "$(LINT)"; \
	}

# needs tells whether the tests of one of these stores run.
needs = $(if $(strip $(STORES)),$(filter $(1),$(STORES)),all)
# The servers that come from elsewhere than Debian, and those of them that STORES leaves out.
CACHED := $(if $(call needs,etcd),etcd) $(if $(call needs,consul),consul) $(if $(call needs,redis redlock),valkey)
LEFT_OUT := $(filter-out $(CACHED),etcd consul valkey)

.PHONY: servers
servers: packages $(CACHED)
	@test -z "$(LEFT_OUT)" || echo "==> setup: left out, since none of the stores $(STORES) needs it: $(LEFT_OUT)"

.PHONY: packages
packages:
	@tools/install-servers $(STORES)

.PHONY: valkey
valkey:
	@tools/install-valkey

# build_server builds the package $(2) as the server $(1), at the version in its own module.
define build_server
@version=$$(awk '$$1 == "$(2)" { print $$2 }' tools/$(1)/go.mod); \
	test -n "$$version" || { echo "tools/$(1)/go.mod names no $(1)"; exit 1; }; \
	set -e; program="$(SERVERS_DIR)/$(1)-$$version"; test -x "$$program" || { \
		echo "==> setup: building $(1) $$version, package by package; the first time takes minutes"; \
		mkdir -p "$(SERVERS_DIR)"; \
		GOWORK=off go -C tools/$(1) build -v -o "$$program.$$$$" $(2); \
		mv "$$program.$$$$" "$$program"; \
	}
endef

.PHONY: etcd
etcd:
	$(call build_server,etcd,$(ETCD_PKG))

.PHONY: consul
consul:
	$(call build_server,consul,$(CONSUL_PKG))

.PHONY: cross
cross:
	@echo "==> go build for darwin"
	@set -e; for module in . $(ADAPTERS); do GOOS=darwin go -C $$module build ./...; done
	@echo "==> go build for windows"
	@set -e; for module in . $(ADAPTERS); do GOOS=windows go -C $$module build ./...; done

# A program with the race detector sleeps for a second before it exits, unless it is told not to. Programs without DWARF
# are linked in two thirds of the time.
.PHONY: race
race: export GORACE := atexit_sleep_ms=0
race:
	@echo "==> go test -race, up to $(TEST_TIMEOUT) for each package"
	@packages=$$(tools/packages $(STORES) | grep -v /sim$$) && \
		HOLDFAST_REQUIRE_SERVERS=1 go test -race -ldflags=-w -timeout $(TEST_TIMEOUT) $$packages
	@set -e; for module in $(ADAPTERS); do go -C $$module test -race -timeout $(TEST_TIMEOUT) ./...; done

# What the race detector would distort or slow down too much: allocations, and the long random tests. They are in these
# packages; all others have run as a whole with it. Each schedule of the simulator is one
# goroutine, and has nothing to race with.
PLAIN := . ./internal/knot ./redlock/internal/sim

.PHONY: plain
plain:
	@echo "==> go test without the race detector, up to $(TEST_TIMEOUT) for each package"
	@HOLDFAST_REQUIRE_SERVERS=1 go test -timeout $(TEST_TIMEOUT) $(PLAIN)
	@go -C bench test -parallel 4 -timeout $(TEST_TIMEOUT) ./...
