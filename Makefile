# Everything that people and CI run. The scripts do the same without make.
GOLANGCI_LINT_VERSION := v2.15.0
GOFUMPT_VERSION := v0.12.0
BUF_VERSION := v1.75.0
BUF := bin/buf-$(BUF_VERSION)/buf
LINT := bin/golangci-lint-$(GOLANGCI_LINT_VERSION)/golangci-lint
MODULES = $(shell find deploy examples internal -name go.mod -printf '%h\n')
RELEASED_PROTO := proto/released.json
FUZZTIME ?= 30s
BENCHTIME ?= 1x

.PHONY: help
help: ## List the targets.
	@sed -n 's/^\([a-z0-9-]*\):.*## /\1\t/p' Makefile | expand -t 16

.PHONY: quick
quick: $(LINT) ## At each save: vet, lint of what changed since main, all tests without a server. Leaves out all that needs one.
	go vet ./...
	$(LINT) run --allow-serial-runners --new-from-merge-base main ./...
	go test -short ./...

.PHONY: check
check: commits lint test-check model-quick release-build vuln-if-reachable ## What CI runs: commit subjects, lint, tests, SQL on MySQL 8 and MariaDB, the model, one build of a release, known vulnerabilities.

.PHONY: nightly
nightly: ## All of check and more, for hours: each SQL server, pages, clusters, alerts, the drill, faults; a release wants it.
	scripts/nightly

.PHONY: commits
commits: ## Check the subjects of commits.
	scripts/commits

.PHONY: test
test: ## Run what holds a promise, with the race detector, on real servers, installing what is missing.
	scripts/test

.PHONY: test-check
test-check: ## The same, and the packages that speak SQL on MySQL 8 and MariaDB too.
	scripts/test check

.PHONY: test-cluster
test-cluster: ## Run the tests on a Redis Cluster and a ZooKeeper of three nodes.
	scripts/test-cluster

.PHONY: test-alerts
test-alerts: ## Check rules and dashboard by Prometheus's own code, and make each alert's fault in a real deployment.
	cd deploy/prometheus && go test -count=1 -timeout 20m ./...

.PHONY: drill
drill: ## Try the runbooks on what make up runs: make each fault, wait for its alert, type the page's commands.
	scripts/drill

.PHONY: microbench
microbench: ## Run every benchmark once, to see that it still works; for figures give BENCHTIME=1s.
	go test -run '^$$' -bench . -benchtime $(BENCHTIME) $$(grep -rl --include=*_test.go '^func Benchmark' internal pkg | xargs -n1 dirname | sort -u | sed 's|^|./|')

.PHONY: chaos
chaos: ## Break everything that can break while the game is played (ROWS=1,7,12 picks some); writes docs/FAULTS.md.
	scripts/chaos rows $(or $(ROWS),all)

.PHONY: soak
soak: ## Play faults at random for DURATION (60m); writes docs/FAULTS.md.
	scripts/chaos soak $(or $(DURATION),60m)

.PHONY: chaos-selftest
chaos-selftest: ## Take the product's rules away, one by one, in a copy: the fault suite must see it.
	scripts/chaos selftest

.PHONY: guards
guards: ## Take sixty guards of the failure tables away, one at a time: the tests must turn red (GUARDS=worker picks some).
	scripts/install
	DUETIME_GUARDS=all go test -count=1 -v -timeout 3h -run '^TestGuards$$' ./internal/test/guards

.PHONY: model
model: ## Check the model of the protocol exhaustively, and that its broken variants fail.
	scripts/model all

.PHONY: model-quick
model-quick: ## The same, bounded, as CI runs it.
	scripts/model quick

.PHONY: bench
bench: ## Measure duetime beside its peers, the alternatives and the raw limits, in about an hour; writes docs/BENCHMARKS.md.
	bench/run all

.PHONY: bench-quick
bench-quick: ## The main rows of it, within five minutes.
	bench/run quick

.PHONY: lint
lint: $(LINT) proto-check ## Run golangci-lint, gosec and the import rules included, on every module; check the API's files.
	$(LINT) run --allow-serial-runners --build-tags cluster ./...
	for module in bench proto/tools $(MODULES); do (cd $$module && $(CURDIR)/$(LINT) run --allow-serial-runners ./...) || exit; done

.PHONY: proto
proto: $(BUF) ## Make pkg/duetimev1 and proto/openapi.yaml of proto/duetime/v1.
	$(BUF) generate

.PHONY: proto-check
proto-check: $(BUF) ## Check proto/duetime/v1: its form, that it breaks no client of the last release, and that what is made of it is committed.
	$(BUF) format --diff --exit-code
	$(BUF) lint
	$(BUF) breaking --against $(RELEASED_PROTO)
	scripts/proto $(CURDIR)/$(BUF)

.PHONY: proto-release
proto-release: $(BUF) ## Keep proto/duetime/v1 as what later versions must not break; run it with each release.
	$(BUF) build --exclude-source-info -o $(RELEASED_PROTO)

.PHONY: buf
buf: $(BUF) ## Install buf, and print where it is.
	@echo $(BUF)

$(BUF):
	GOBIN=$(CURDIR)/$(@D) go install github.com/bufbuild/buf/cmd/buf@$(BUF_VERSION)

.PHONY: vuln
vuln: ## Look for known vulnerabilities in what our code calls; fails without their database (VULNDB=file:///a/copy names another).
	scripts/vuln

.PHONY: vuln-if-reachable
vuln-if-reachable: ## The same, but where the database can't be reached it says so and goes on.
	scripts/vuln --if-reachable

$(LINT):
	GOBIN=$(CURDIR)/$(@D) go install github.com/golangci/golangci-lint/v2/cmd/golangci-lint@$(GOLANGCI_LINT_VERSION)

.PHONY: fmt
fmt: ## Format all Go files.
	go run mvdan.cc/gofumpt@$(GOFUMPT_VERSION) -w .

.PHONY: build
build: ## Build all commands into bin/.
	CGO_ENABLED=0 go build -trimpath -o bin/ ./cmd/...

.PHONY: release
release: proto-release ## Build VERSION=v0.1.0 into bin/release, twice with the same bytes: archives, lists of parts, checksums; tag it. Pushes nothing.
	scripts/release $(or $(VERSION),$(error say which: make release VERSION=v0.1.0))

.PHONY: release-build
release-build: ## Build a release of this platform once.
	scripts/release --build

.PHONY: release-check
release-check: ## Build a release of this platform twice and compare, install the tool as from a module proxy, and play the demo on it.
	scripts/release --check

.PHONY: demo
demo: ## Run the whole pipeline in one process for half a minute; needs only Go.
	go run ./cmd/duetime demo

.PHONY: up
up: build ## Start real servers and all processes on this machine and print their URLs.
	scripts/up

.PHONY: down
down: ## Stop what up started.
	scripts/down

.PHONY: fuzz
fuzz: ## Run every fuzz target for FUZZTIME (30s).
	scripts/fuzz $(FUZZTIME)
