#!/usr/bin/env bash
# The README's test command: sets up what the tests need, runs them step by step, prints what each step
# took and what was left out.
set -euo pipefail
cd "$(dirname "$0")/.."

required=${RELAY_TEST_ENGINES:-}
left_out=()
containers=
started=$SECONDS

step() {
	local name=$1 from=$SECONDS
	shift
	printf '\n== %s\n' "$name"
	"$@"
	printf '== %s: %d min %02d s\n' "$name" $(((SECONDS - from) / 60)) $(((SECONDS - from) % 60))
}

# try runs a set-up step that some machines cannot do; the tests that need it say so when they are left out.
try() {
	local what=$1
	shift
	"$@" && return
	[ "$required" = required ] && { echo "$what is required here" >&2; exit 1; }
	left_out+=("$what")
}

setup() {
	make --no-print-directory build
	try "Apache Kafka (needs Maven and Java 17)" deploy/engines/fetch.sh
	images
	try "the vendors' signature libraries (need npm and Python)" deploy/vendors.sh
	try "schemathesis (needs Python 3.11 and its package index)" deploy/contract/schemathesis.sh install
	javascript_setup
	command -v redis-server >/dev/null || try "redis-server (the system's package)" false
}

# What sdk/test.sh finds it runs; here it is said what it does not find.
javascript_setup() {
	local version
	try "JavaScript tests (need npm and Node.js 20)" sdk/test.sh install
	for version in 18 22 24; do
		[ -x sdk/node_modules/node$version/bin/node ] || try "JavaScript tests on Node.js $version (there is one for Linux on x86-64)" false
	done
	sdk/test.sh browser >/dev/null || try "pages in a browser (need Chromium)" false
}

# The same suites run on engines as containers or as processes; these take containers where they can.
contained='^(TestServe|TestRedis|TestKafkaCluster)$'

# memory puts what the tests write into memory where there is room: one test waits for the disk of a shared machine
# for seconds, and kill -9 loses no more there than on a disk. RELAY_TEST_DIR=/var/tmp, say, tries a disk.
memory() {
	local dir=/dev/shm free
	export GOTMPDIR=${GOTMPDIR:-${TMPDIR:-/tmp}} # the compiler's files may lie on a disk
	if [ -z "${RELAY_TEST_DIR:-}" ]; then
		free=$(df --output=avail -BG $dir 2>/dev/null | tail -n 1 | tr -dc 0-9)
		if [ "${free:-0}" -lt 8 ] || [ "$(awk '/^MemAvailable/ {print int($2 / 1048576)}' /proc/meminfo)" -lt 12 ]; then
			left_out+=("tests in memory (need 12 GB of it, 8 of them at $dir): they wrote to the disk")
			return 0
		fi
	fi
	TMPDIR=$(mktemp -d "${RELAY_TEST_DIR:-$dir}/relay-test.XXXXXX")
	export TMPDIR
	trap 'rm -rf "$TMPDIR"' EXIT
	echo "tests write to $TMPDIR"
}

# images makes containers possible: a Docker engine, and images that the environment names or that are
# built here.
images() {
	if ! docker info >/dev/null 2>&1; then
		left_out+=("engines as containers (need a Docker engine): they ran as processes")
		return 0
	fi
	containers=yes
	[ -n "${RELAY_TEST_KAFKA_IMAGE:-}" ] && [ -n "${RELAY_TEST_REDIS_IMAGE:-}" ] && return
	deploy/engines/image.sh || { containers=; left_out+=("engines as containers (no image can be built): they ran as processes"); }
}

# packages are all, those that take longest first: in the order of their names they would be last, alone, on half of the machine.
packages() {
	local module
	module=$(go list -m)
	echo "$module/store/read" "$module/test/e2e" "$module/store/write" "$module/store/schema"
	go list ./... | grep -Ev "^$module/(store/(read|write|schema)|test/e2e)\$"
}

unit() {
	local all
	all=$(packages)
	if [ -z "$containers" ]; then
		CGO_ENABLED=0 RELAY_TEST_WITH=processes go test -timeout 70m $all
		return
	fi
	CGO_ENABLED=0 RELAY_TEST_WITH=processes go test -timeout 70m -skip "$contained" $all
	echo "on engines as containers:"
	CGO_ENABLED=0 RELAY_TEST_WITH=containers go test -timeout 30m -run "$contained" ./test/e2e ./test/kit
}

# A build with crash points, which the release does not have.
faults() {
	go vet -tags faults ./node ./dispatcher
	CGO_ENABLED=0 go test -tags faults -run 'Crash|Faults' ./dispatcher
}

# Left out under the race detector: tests of the store that keep ClickHouse busy and start no goroutine that others do not start
# (many rounds of the same, statements, the schema), and one that compares processor time with that of uninstrumented code. All
# others are run under it, and so is whatever is added.
repeats='^Test(BodiesCostByTheirLength|ReadAfterWrite|RedoChangesNothing|UsageSurvivesKills|SearchReadsStrangeBodies|BatchOfManyDays|Paging.*|ListsAgreeWithModel'
repeats+='|SearchAgreesWithModel|SelectionAgreesWithModel|ServerFaultIsNotTheRows|ValuesAreNeverText|MigrateIs.*|MigrateKnows.*'
repeats+='|MigrateBeside.*|MigrateRunsAgain|Migration.*|.*Baseline.*|ClusterDDL.*|Plans|TextIndex.*|ErasedPayloadOfTheTextIndex'
repeats+='|SearchTakesWhatAURLHolds)$'

# Whole processes under the race detector: one with all in it, killed, under attack; nodes that share the work, one of them killed, all
# restarted. Their goroutines begin in the packages, whose own tests run under it too.
whole='^Test(DevPipeline|KillEverything|HostileClients|Serve)$'

# Every package that starts goroutines. -race needs a C compiler.
race() {
	if ! command -v gcc >/dev/null; then
		try "the race detector (needs a C compiler)" false
		return 0
	fi
	local each
	each=$(packages | tr ' ' '\n' | grep -Ev '/(egress|event|id|secrets|sign|verify|web|test/e2e)$')
	CGO_ENABLED=1 go test -race -short -timeout 50m -skip "$repeats" $each
	echo "whole processes ($whole):"
	CGO_ENABLED=1 go test -race -short -timeout 30m -run "$whole" ./test/e2e
}

lint() {
	local unformatted
	unformatted=$(gofmt -l .)
	[ -z "$unformatted" ] || { printf 'gofmt would change:\n%s\n' "$unformatted"; exit 1; }
	make --no-print-directory lint
}

step "set-up" setup
step "formatting, vet, linters" lint
memory
step "tests" unit
[ -d sdk/node_modules ] && step "JavaScript" sdk/test.sh
step "a client generated from the API's document" deploy/contract/client.sh
[ -x bin/contract/schemathesis/bin/schemathesis ] && step "schemathesis" deploy/contract/schemathesis.sh
step "crash points" faults
step "tests under the race detector" race

printf '\nran on %s, %s, %d cores' "$(go env GOOS)/$(go env GOARCH)" "$(go version | cut -d' ' -f3)" "$(nproc)"
[ -f bin/engines/kafka/pom.sum ] && printf ', Apache Kafka 4.1'
command -v redis-server >/dev/null && printf ', Redis %s' "$(redis-server --version | sed 's/.*v=\([0-9.]*\).*/\1/')"
printf ', embedded engines\n'
for what in "${left_out[@]:+${left_out[@]}}"; do
	echo "left out: $what"
done
printf 'all passed in %d min %02d s\n' $(((SECONDS - started) / 60)) $(((SECONDS - started) % 60))
