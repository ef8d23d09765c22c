# make run   fetch what is missing, build, start a relay with nothing else installed
# make test  everything that decides whether a change may land; make check is the quick part of it
SHELL := /bin/bash

# The commit is appended to VERSION in builds that are no release. Git says nothing of a clone of another user (root in
# a container, for example) unless it is declared safe; make runs what is in the clone anyway.
COMMIT := $(shell git -c safe.directory='*' describe --always --dirty --exclude '*' 2>/dev/null)
LDFLAGS := -X main.commit=$(COMMIT)

# Without -trimpath the build cache is keyed by the directory of the clone: another clone would compile everything again.
export GOFLAGS := $(shell go env GOFLAGS 2>/dev/null) -trimpath

.PHONY: build generate run test check core fuzz bench bench-compare bench-go torture screenshots lint vuln vendors engines image release site secrets need-go need-npm

build: need-go need-npm
	@tools/chdb/fetch.sh
	@tools/sdk/build.sh
	@echo "relay: building bin/relay and bin/relay-bench (the first build takes a minute or two)"
	@CGO_ENABLED=0 go build -ldflags '$(LDFLAGS)' -o bin/relay .
	@CGO_ENABLED=0 go build -C tools/bench -o ../../bin/relay-bench ./relay-bench
	@echo "relay: built bin/relay, version $$(bin/relay version), and bin/relay-bench"

run: build
	@exec bin/relay dev

# Go tests, the suites on real engines where available, the race detector, the linters.
test: need-go need-npm
	@test/run.sh

# The quick loop, at most 90 s of tests: formatting, linters and short tests of the packages that a change concerns.
check: need-go
	@test/check.sh

# The core without any feature: builds it, and delivers, retries and replays with it.
core: build
	@CGO_ENABLED=0 go test ./test/e2e -run TestCoreWithoutFeatures -count=1

# The vendors' own signature libraries, with which tests compare ours.
vendors:
	@test/vendors.sh

# Apache Kafka for the suites on real engines; install redis-server with the system's package manager.
engines:
	@test/engines/fetch.sh

# The same engines as a Docker image, from the system's packages (root, debootstrap).
image:
	@test/engines/image.sh

# Binaries, bill of materials, licences, Helm chart and checksums of the current commit, in dist.
release: need-go need-npm
	@tools/release/release.sh

# The documents as static files, in dist/site, with relative links and without the search. Needs wget.
site: build
	@tools/site/site.sh

# Random secrets for docker-compose.yml, in secrets; docker compose up does it too.
secrets:
	@deploy/compose/secrets.sh secrets

fuzz:
	@test/fuzz.sh

# Long forms of tests, by hand, in parts: make torture PART=kills; PART=list names them. Hours add up in test/torture.md.
torture: build engines
	@test/torture.sh $(PART)

# Pictures of the dashboard: those of the documents in docs/pictures, with a quarter of an hour of traffic, and unless
# PART=documents is given, all pages in bin/screenshots.
screenshots: build
	sdk/test.sh install
	RELAY_TEST_BROWSER=$$(sdk/test.sh browser) node sdk/screenshots.mjs $(PART)

# Runs every scenario of relay-bench for some seconds.
bench: build
	@tools/bench/run.sh

# Compares the working tree with another revision, in alternating runs: make bench-compare BASE=main~5
bench-compare: build
	@BASE='$(BASE)' tools/bench/compare.sh

# Go benchmarks of single functions.
bench-go:
	go test -run '^$$' -bench . -benchtime 1s ./pkg/... ./ingest/... ./dispatcher/... ./store/... ./api/...

# Writes what is made from the code: the table of metrics, the capacity table, the dashboards for Grafana, the diagrams and
# plots of the documents, the rules of the SDK; version, alert rules and settings of the Helm chart; the clients in sdk, from
# the OpenAPI document of bin/relay (needs npm and Python 3.11).
generate: need-go build
	@CGO_ENABLED=0 go test ./node -count=1 -run '^TestMetricsTable$$' -update
	@CGO_ENABLED=0 go test ./features/plan -count=1 -run '^TestCapacityTable$$' -update
	@CGO_ENABLED=0 go run -C tools ./grafana ../deploy/grafana/dashboards
	@CGO_ENABLED=0 go run -C tools ./pictures ../docs/pictures ../tools/bench/delivery.md
	@CGO_ENABLED=0 go test ./pkg/secrets -count=1 -run '^TestScriptRulesAreCurrent$$' -update
	@CGO_ENABLED=0 go test ./test/chart -count=1 -update
	@sdk/clients.sh generate

# The linters include go vet.
lint: need-go
	@for module in . tools/bench tools sdk/go sdk/terraform; do \
		(cd $$module && go tool -modfile=$(CURDIR)/tools/go.mod golangci-lint run -c $(CURDIR)/tools/golangci.yml ./...) || exit 1; \
	done

# Needs access to the vulnerability database.
vuln: need-go
	@go run golang.org/x/vuln/cmd/govulncheck@v1.1.4 ./...

need-go:
	@command -v go >/dev/null || { echo "Go 1.26 is missing: install it, then run make again" >&2; exit 1; }

need-npm:
	@command -v npm >/dev/null || { echo "Node.js with npm is missing: install it, then run make again" >&2; exit 1; }
