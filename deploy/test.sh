#!/usr/bin/env bash
# Runs all tests (make test): installs what they need, runs them in two parallel lists of steps, and prints how long
# each step took and which tests were skipped for lack of a tool.
set -euo pipefail
cd "$(dirname "$0")/.."

required=${RELAY_TEST_ENGINES:-}
left_out=()
containers=
# The race detector waits a second at the end of each process for reports of others, which tests do not leave running.
export GORACE="atexit_sleep_ms=10 ${GORACE:-}"
started=$SECONDS

# step NAME COMMAND... runs a command and prints its output when it has ended, because two steps run at a time. After a
# failure no other step starts.
step() {
	local name=$1 from=$SECONDS status=0 out
	shift
	[ ! -e "$scratch/failed" ] || return 1
	out=$(mktemp)
	printf '== %s ...\n' "$name"
	# In the background, because set -e is off inside a condition.
	"$@" >"$out" 2>&1 &
	wait $! || status=$?
	flock "$lock" bash -c 'printf "\n== %s\n" "$1"; cat "$2"; printf "== %s: %d min %02d s\n" "$1" $(($3 / 60)) $(($3 % 60))' \
		- "$name" "$out" $((SECONDS - from))
	rm -f "$out"
	[ $status = 0 ] || touch "$scratch/failed"
	return $status
}

# try WHAT COMMAND... runs a set-up step that some machines cannot do. The tests that need it are then skipped, and the
# summary says so. With RELAY_TEST_ENGINES=required a failure ends the run.
try() {
	local what=$1
	shift
	"$@" && return
	[ "$required" = required ] && { echo "$what is required here" >&2; exit 1; }
	left_out+=("$what")
}

setup() {
	printf '\n== set-up\n'
	local image=
	try "Apache Kafka (needs Maven and Java 17)" deploy/engines/fetch.sh
	images
	make --no-print-directory build
	try "the vendors' signature libraries (need npm and Python)" deploy/vendors.sh
	try "schemathesis (needs Python 3.11 and its package index)" deploy/contract/schemathesis.sh install
	javascript_setup
	command -v redis-server >/dev/null || try "redis-server (the system's package)" false
	command -v gcc >/dev/null || try "the race detector (needs a C compiler)" false
	if [ -n "$image" ] && ! wait "$image"; then
		containers=
		left_out+=("engines as containers (no image can be built): they ran as processes")
	fi
	printf '== set-up: %d min %02d s\n' $(((SECONDS - started) / 60)) $(((SECONDS - started) % 60))
}

# sdk/test.sh uses the Node.js versions and the browser that it finds; this reports the missing ones.
javascript_setup() {
	local version
	try "JavaScript tests (need npm and Node.js 20)" sdk/test.sh install
	for version in 18 22 24; do
		[ -x sdk/node_modules/node$version/bin/node ] || try "JavaScript tests on Node.js $version (there is one for Linux on x86-64)" false
	done
	sdk/test.sh browser >/dev/null || try "pages in a browser (need Chromium)" false
}

# These tests run the suites on engines in containers if Docker is there, otherwise on processes.
contained='^(TestServe|TestRedisRestartsAtTheSameAddress|TestKafkaClusterSurvivesABrokerKill)$'

# memory lets the tests write to /dev/shm if there is room: on a shared machine a test may wait seconds for the disk, and
# kill -9 loses no more in memory than on a disk. RELAY_TEST_DIR=/var/tmp makes them write to a disk.
memory() {
	local dir=/dev/shm free
	export GOTMPDIR=${GOTMPDIR:-${TMPDIR:-/tmp}} # the compiler's files may stay on a disk
	if [ -z "${RELAY_TEST_DIR:-}" ]; then
		free=$(df --output=avail -BG $dir 2>/dev/null | tail -n 1 | tr -dc 0-9)
		if [ "${free:-0}" -lt 8 ] || [ "$(awk '/^MemAvailable/ {print int($2 / 1048576)}' /proc/meminfo)" -lt 12 ]; then
			left_out+=("tests in memory (need 12 GB of it, 8 of them at $dir): they wrote to the disk")
			return 0
		fi
	fi
	memory=$(mktemp -d "${RELAY_TEST_DIR:-$dir}/relay-test.XXXXXX")
	export TMPDIR=$memory
	echo "tests write to $TMPDIR"
}

# images prepares containers: it needs Docker, and images that the environment names or that it starts to build.
images() {
	if ! docker info >/dev/null 2>&1; then
		left_out+=("engines as containers (need a Docker engine): they ran as processes")
		return 0
	fi
	containers=yes
	[ -n "${RELAY_TEST_KAFKA_IMAGE:-}" ] && [ -n "${RELAY_TEST_REDIS_IMAGE:-}" ] && return
	deploy/engines/image.sh &
	image=$!
}

# processes runs the tests that boot the relay. They wait more than they compute, so all others run at the same time.
processes() {
	CGO_ENABLED=0 RELAY_TEST_WITH=processes go test -vet=off -timeout 40m ${containers:+-skip "$contained"} ./test/e2e
}

in_containers() {
	CGO_ENABLED=0 RELAY_TEST_WITH=containers go test -vet=off -timeout 30m -run "$contained" ./test/e2e ./test/kit
}

# packages lists all packages but the tests that boot the relay; the slowest are first.
packages() {
	local module
	module=$(go list -m)
	echo "$module/store/read" "$module/store/write" "$module/store/schema"
	go list ./... | grep -Ev "^$module/(store/(read|write|schema)|test/e2e)\$"
}

unit() {
	# The lint step runs go vet.
	CGO_ENABLED=0 RELAY_TEST_WITH=processes go test -vet=off -timeout 40m ${containers:+-skip "$contained"} $(packages)
}

# faults tests a build with crash points, which the release does not have.
faults() {
	go vet -tags faults ./node ./dispatcher
	CGO_ENABLED=0 go test -tags faults -run 'Crash|Faults' ./dispatcher
}

# Tests that the race detector skips, because they start no goroutine that other tests do not start: they repeat the
# same many times or for days of fake time, only compute, wait for real engines, or test statements and the schema. All
# others run under it, new ones too.
# store
repeats='^Test(ReadAfterWrite|RedoChangesNothing|UsageSurvivesKills|SearchOfUnusualBodiesAgreesWithModel|BatchOfManyDays|Paging.*|ListsAgreeWithModel'
repeats+='|SearchAgreesWithModel|SelectionAgreesWithModel|ServerFaultMakesNoDeadLetters|ValuesAreNeverSQL|InterruptedMigration.*|OvertakenMigration|MigrateChecks.*'
repeats+='|MigrateRunsAgain|Migration.*|ExpandThenFinalize|ClusterDDL.*|Plans|TextIndex.*|ErasedPayloadLeavesTheTextIndex'
repeats+='|SearchAcceptsWhatAURLHolds|EveryReadUnderFaults|PoisonInEveryTable|RetentionShowsWholeDays|TooManyPartsThrottleFlushes|ReceiptResultFollowsLogOrder|Retention|EveryPlanAppliesEveryFilter'
# api
repeats+='|BodyCostIsLinear|WrongTypeOfAnyMemberIsRefused|LargeAnswersAreBounded|AnswerSizeBoundHolds|ReplayBounds'
repeats+='|ReplayReadsABoundedNumberOfRejectedEvents|StreamOfASlowClient'
# dispatcher
repeats+='|ScheduleThroughTheTiers|DownFor.*|DestinationDownFor.*|ManyDeadDestinations|RateIsHeld.*|DeepTier|AMillionPending.*'
repeats+='|HopsWithSkewedBroker|ParkedDeliveriesDoNotReadBodies|NewOwnerCountsParkedAfterOneRecheck'
# ledger, pkg
repeats+='|RunShowsCountsOnEngines|AuditOnEngines|FollowSamplesFastTraffic|FollowRandomHistories|AuditOfRandomHistories|BookIsCompact|Users'
repeats+='|OnlyAppliedRecordsAreCounted|TombstonesAreBounded'
repeats+='|ImportRestoresTheExport|ImportOfMany|BodyFilters.*|TornSnapshots|RepeatedFooters|KillsLoseNothing|LargeResult|BrokenPartsAreDetached|EngineDiesWithParent'
repeats+='|RelativeDirectory|LockedDirectoryIsRefused|SIGKILL|PowerLoss|LeasesAreFew|DelayTolerantTopicsArePaused|.*OnApacheKafka|ApacheKafka)$'

# Whole processes under the race detector: a single process, killed and under attack; nodes that share the work, one of
# them killed, all restarted. The tests of their packages run under it too.
whole='^Test(DevPipeline|KillEverything|HostileClients|Serve)$'

# race runs the tests of every package that starts goroutines. -race needs a C compiler.
race() {
	local each
	each=$(packages | tr ' ' '\n' | grep -Ev '/(bench|event|id|secrets|sign|verify|web|store/schema|relay)$')
	CGO_ENABLED=1 go test -vet=off -race -short -timeout 40m -skip "$repeats" $each
}

whole_race() {
	CGO_ENABLED=1 go test -vet=off -race -short -timeout 30m -run "$whole" ./test/e2e
}

lint() {
	local unformatted
	unformatted=$(gofmt -l .)
	[ -z "$unformatted" ] || { printf 'gofmt would change:\n%s\n' "$unformatted"; exit 1; }
	make --no-print-directory lint
}

# Two lists of steps run in parallel: boots starts the relay again and again and mostly waits, computes uses the CPU.
boots() {
	step "tests that boot the relay" processes
	[ -z "$containers" ] || step "tests on engines as containers" in_containers
	step "crash points" faults
	step "a client generated from the API's document" deploy/contract/client.sh
	[ ! -x bin/contract/schemathesis/bin/schemathesis ] || step "schemathesis" deploy/contract/schemathesis.sh
	[ ! -d sdk/node_modules ] || step "JavaScript" sdk/test.sh
}

computes() {
	step "formatting, vet, linters" lint
	step "tests of packages" unit
	command -v gcc >/dev/null || return 0
	step "tests of packages under the race detector" race
	step "whole processes under the race detector" whole_race
}

setup
scratch=$(mktemp -d)
memory
lock=$scratch/lock
set -m # each list is a process group that can be killed
boots & first=$!
computes & second=$!
trap 'kill -- -$first -$second 2>/dev/null || true; wait || true; rm -rf "$scratch" "${memory:-}"' EXIT
trap 'exit 1' HUP INT TERM
# Wait for both lists even after a failure: killed tests would leave engines behind.
wait $first || failed=yes
wait $second || failed=yes
[ -z "${failed:-}" ] || { echo "make test: a step failed" >&2; exit 1; }

printf '\nran on %s, %s, %d cores' "$(go env GOOS)/$(go env GOARCH)" "$(go version | cut -d' ' -f3)" "$(nproc)"
[ -f bin/engines/kafka/pom.sum ] && printf ', Apache Kafka 4.1'
command -v redis-server >/dev/null && printf ', Redis %s' "$(redis-server --version | sed 's/.*v=\([0-9.]*\).*/\1/')"
printf ', embedded engines\n'
for what in "${left_out[@]:+${left_out[@]}}"; do
	echo "left out: $what"
done
printf 'all passed in %d min %02d s\n' $(((SECONDS - started) / 60)) $(((SECONDS - started) % 60))
