#!/usr/bin/env bash
# Runs all tests (make test): installs what they need, runs the steps of a queue two at a time, and prints how long each
# took and what was left out for lack of a tool. A test runs in one step: under the race detector if its package starts
# goroutines. bin/tests.txt has the seconds of each test, bin/slowest.txt the 60 slowest. RELAY_TEST_COUNT=1 also runs
# what has passed before. `test/run.sh STEP...` runs only the steps with these commands, such as lint and raced.
set -euo pipefail
cd "$(dirname "$0")/.."

required=${RELAY_TEST_ENGINES:-}
left_out=()
containers=
started=$SECONDS
records=bin/tests.txt
# The race detector waits a second at the end of each process for reports of others, which tests do not leave running.
export GORACE="atexit_sleep_ms=10 ${GORACE:-}"
# Only the race detector needs cgo. With it the compiler makes all packages that use the network a second time, for the
# linters and each program that a step runs.
export CGO_ENABLED=0

# try WHAT COMMAND... runs a set-up step that some machines cannot do. The tests that need it are then skipped, and the
# summary says so. With RELAY_TEST_ENGINES=required a failure ends the run.
try() {
	local what=$1
	shift
	"$@" && return
	[ "$required" = required ] && { echo "$what is required here" >&2; exit 1; }
	left_out+=("$what")
}

# start_try WHAT COMMAND... starts a step for await_tries in the background. Most wait for the network or the disk.
start_try() {
	local what=$1
	shift
	"$@" &
	tries+=("$! $what")
}

# await_tries is try for the steps that start_try has started.
await_tries() {
	local entry
	for entry in "${tries[@]}"; do
		try "${entry#* }" wait "${entry%% *}"
	done
}

setup() {
	printf '\n== set-up\n'
	local build tries=()
	mkdir -p bin
	: >$records
	make --no-print-directory build &
	build=$!
	start_try "Apache Kafka (needs Maven and Java 17)" test/engines/fetch.sh
	start_try "the vendors' signature libraries (need npm and Python)" test/vendors.sh
	start_try "schemathesis (needs Python 3.11 and its package index)" test/contract/schemathesis.sh install
	start_try "stock generators (need Java, Maven, Python 3.11, npm and their package indexes)" test/contract/generators.sh install
	start_try "JavaScript tests (need npm and Node.js 20)" sdk/test.sh install
	start_try "the clients in sdk (need npm, Python 3.11 and their package indexes)" sdk/clients.sh install
	start_try "Prometheus and promtool (the system's package)" test/prometheus/fetch.sh
	await_tries
	start_images # after Kafka's jars, which it packs
	javascript_setup
	command -v redis-server >/dev/null || try "redis-server (the system's package)" false
	command -v gcc >/dev/null || try "the race detector (needs a C compiler)" false
	wait $build
	go build -o bin/suite ./test/suite
	printf '== set-up: %d min %02d s\n' $(((SECONDS - started) / 60)) $(((SECONDS - started) % 60))
}

# sdk/test.sh uses the Node.js versions and the browser that it finds; this reports the missing ones.
javascript_setup() {
	local version
	for version in 18 22 24; do
		[ -x sdk/node_modules/node$version/bin/node ] || try "JavaScript tests on Node.js $version (there is one for Linux on x86-64)" false
	done
	sdk/test.sh browser >/dev/null || try "pages in a browser (need Chromium)" false
}

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

# start_images starts to build the images of the engines, if there is Docker and the environment names none. The steps
# that need them wait with await_images, the others run meanwhile.
start_images() {
	if ! docker info >/dev/null 2>&1; then
		left_out+=("engines as containers (need a Docker engine): they ran as processes")
		return 0
	fi
	containers=yes
	[ -n "${RELAY_TEST_KAFKA_IMAGE:-}" ] && [ -n "${RELAY_TEST_REDIS_IMAGE:-}" ] && touch "$scratch/image" && return
	{ test/engines/image.sh && touch "$scratch/image" || touch "$scratch/no-image"; } &
	image=$!
}

# await_images waits for the images and prints where the tests that need containers run.
await_images() {
	while [ -n "$containers" ] && [ ! -e "$scratch/image" ] && [ ! -e "$scratch/no-image" ] && kill -0 "$image" 2>/dev/null; do
		sleep 0.2
	done
	[ -e "$scratch/image" ] && echo containers || echo processes
}

# step NAME COMMAND... runs a command and prints its output when it has ended, because several steps run at a time.
step() {
	local name=$1 from=$SECONDS status=0 out
	shift
	out=$(mktemp)
	printf '== %s ...\n' "$name"
	# In the background, because set -e is off inside a condition. What boots the relay comes first: its engine gives way to
	# others (nice 5), and pages without it wait for a minute beside tests that compute.
	{ [[ $1 =~ ^(processes|sdk/test.sh)$ ]] || renice -n 5 -p $BASHPID >/dev/null; trap 'times >"$out.cpu"' EXIT; "$@"; } >"$out" 2>&1 &
	wait $! || status=$?
	flock "$lock" bash -c 'printf "\n== %s\n" "$1"; cat "$2"' - "$name" "$out"
	took "$name" $((SECONDS - from)) <"$out.cpu"
	[ $status = 0 ] || { why "$name" <"$out" >>"$scratch/failed"; }
	rm -f "$out" "$out.cpu"
	return $status
}

# why NAME picks from the output of a step that failed what says why, for the end of the run, which is read first.
why() {
	printf '\n%s failed, among others with:\n' "$1"
	grep -aE '^ *(--- FAIL|FAIL|✖|panic:|fatal|WARNING: DATA RACE|goleak:|signal:|SIGSEGV|ThreadSanitizer|race: limit|\[*Goroutine|[A-Za-z]*Error)|Timeout|waiting for|would change|\.go(:[0-9]+:|$)|test\.mjs:[0-9]+' |
		grep -v ' node_modules/' | cut -c1-200 | tail -n 15 || true
}

# took NAME SECONDS adds a line to the table of steps. Its input is what `times` prints: the second line is of processes.
took() {
	awk -v name="$1" -v seconds="$2" -F '[ ms]+' '
		END { printf "%5.1f min  %5.1f min CPU  %s\n", seconds / 60, $1 + $3 + ($2 + $4) / 60, name }' >>"$scratch/table"
}

# worker runs steps of the queue until none is left or one has failed.
worker() {
	local i
	while [ ! -e "$scratch/failed" ]; do
		i=$(flock "$lock" sh -c 'echo >>"$1"; wc -l <"$1"' - "$scratch/begun")
		[ "$i" -le ${#steps[@]} ] || break
		step "${steps[i - 1]%%: *}" ${steps[i - 1]#*: }
	done
}

# tests FLAG... runs go test, without the race detector unless CGO_ENABLED=1 and -race are given. The lint step runs go
# vet. The time-out ends a test that hangs, on the slowest machine. Without DWARF the linker takes half the time, for a
# hundred programs.
tests() {
	RELAY_TEST_WITH=${RELAY_TEST_WITH:-processes} go test -json -vet=off -ldflags=-w -timeout 50m \
		${RELAY_TEST_COUNT:+-count="$RELAY_TEST_COUNT"} "$@" | bin/suite report -step "${FUNCNAME[1]}" -records $records
}

# Tests on engines in containers if there is Docker, otherwise on processes with the others.
contained='^TestRedisRestartsAtTheSameAddress$'

# Whole processes under the race detector: a single process, killed; nodes that share the work, one of them killed, all
# restarted. The tests of their packages run under it too.
whole='^Test(DevPipeline|KillEverything|Serve)$'

# Packages that start no goroutine, in which the race detector finds nothing.
pure='^[.](/(dashboard(/[a-z]+)?|test/(chart|prometheus|rules)|dispatcher/lane|node/admin|sdk|store|'
pure+='pkg/(apikey|crash|event|finding|fixture|id|personal|secrets|sign|transform|verify|web)|'
pure+='features/plan|store/(column|schema)|test/(released|suite)))?$'

# norace matches the tests that run without the race detector.
norace="^Test($(grep -v '^#' test/norace.txt | paste -sd '|'))\$"

# packages lists the directories of the packages with tests, without those that boot the relay; the slowest come first.
packages() {
	local top
	top=$(go list -m -f '{{.Dir}}')
	printf './%s\n' store/read store/write dispatcher
	go list -f '{{if or .TestGoFiles .XTestGoFiles}}{{.Dir}}/{{end}}' ./... | sed -e "s|^$top/|./|" -e 's|\(.\)/$|\1|' |
		grep -Evx '\./(store/read|store/write|dispatcher|test/e2e)'
}

# Every test of a package that starts goroutines runs in `raced` or in `repeated`, because both get the same expressions.
# Three packages at a time: those of the store wait for ClickHouse most of the time. With bubbles of fake time the race detector
# of Go 1.26 itself crashes now and then, in usage/alert in three of eight runs. Packages that ended so are tried again, and no
# others.
raced() {
	local said again
	said=$(mktemp)
	again=$(packages | grep -Ev "$pure")
	for _ in 1 2 3 4 5; do
		if CGO_ENABLED=1 tests -race -p 3 -skip "$norace${containers:+|$contained}" $again >"$said" 2>&1; then
			cat "$said"
			return
		fi
		cat "$said"
		again=$(crashed <"$said") || return 1
	done
	return 1
}

# crashed prints the packages in which the detector crashed: a SIGSEGV outside of Go code, or a failed check of ThreadSanitizer.
# It fails if any other test failed, or none.
crashed() {
	awk '
		/^ *SIGSEGV: segmentation violation|ThreadSanitizer: CHECK failed/ { crash = 1 }
		/^ *--- FAIL|DATA RACE/ { failed = 1 }
		/^ok |^FAIL/ {
			if ($1 == "FAIL" && (failed || !crash)) exit bad = 1
			if ($1 == "FAIL") { sub(/^github.com\/eventrelay\/relay/, ".", $2); print $2; any = 1 }
			crash = failed = 0
		}
		END { exit bad || !any }'
}

repeated() {
	local dir names="^func ${norace:1:-1}\\("
	tests -run "$norace" $(packages | grep -Ev "$pure" | while read -r dir; do ! grep -qE "$names" "$dir"/*_test.go || echo "$dir"; done)
}

pure() { tests $(packages | grep -E "$pure"); }

# without_race is for a machine without a C compiler.
without_race() { tests ${containers:+-skip "$contained"} $(packages); }

# processes runs the tests that boot the relay, but those of whole_race.
processes() { tests ${detector:+-skip "$whole"} ./test/e2e; }

whole_race() {
	CGO_ENABLED=1 RELAY_TEST_WITH=$(await_images) tests -race -run "$whole" ./test/e2e
}

in_containers() { RELAY_TEST_WITH=$(await_images) tests -run "$contained" ./test/kit; }

# The tests of the modules beside the relay's. The chart's takes 3 minutes of CPU time to compile where it was never compiled,
# and 10 s afterwards.
modules() {
	local file dir
	for file in $(find test tools sdk/go sdk/terraform -name go.mod); do
		dir=$(dirname "$file")
		[ -n "$(find "$dir" -name '*_test.go')" ] || continue
		go test -C "$dir" -json -vet=off -timeout 50m ${RELAY_TEST_COUNT:+-count="$RELAY_TEST_COUNT"} ./... |
			bin/suite report -step "${FUNCNAME[0]}" -records $records
	done
}

# simulated runs worlds of fixed seeds: as many as find most of the planted faults.
simulated() {
	export RELAY_SIM_PROCESSES=1
	test/sim/run.sh 1 12 -minutes 15
	RELAY_SIM_BUILT=1 test/sim/run.sh 1 8 -minutes 15 -machine
}

lint() {
	local unformatted
	unformatted=$(find . -name '*.go' -not -path './bin/*' -not -path '*/node_modules/*' -print0 | xargs -0 gofmt -l)
	[ -z "$unformatted" ] || { printf 'gofmt would change:\n%s\n' "$unformatted"; exit 1; }
	make --no-print-directory lint
}

scratch=$(mktemp -d)
lock=$scratch/lock
image=
set -m # each background job is a process group that can be killed
# A step of the set-up that fails ends those beside it: a second run would write the same directories.
trap 'kill -- $(jobs -p | sed "s/^/-/") 2>/dev/null || true; wait || true; rm -rf "$scratch"' EXIT
trap 'exit 1' HUP INT TERM
setup
times >"$scratch/cpu"
took set-up $((SECONDS - started)) <"$scratch/cpu"
memory

# The queue: a name and the command. What takes long comes first, so that no core idles at the end.
command -v gcc >/dev/null && detector=yes || detector=
steps=("tests that boot the relay: processes")
[ ! -d sdk/node_modules ] || steps+=("JavaScript: sdk/test.sh")
if [ -n "$detector" ]; then
	steps+=("tests of packages under the race detector: raced")
else
	steps+=("tests of packages: without_race")
fi
if [ -n "$detector" ]; then
	steps+=("tests that repeat, without it: repeated" "tests of packages without goroutines: pure"
		"whole processes under the race detector: whole_race")
fi
steps+=("simulated clusters: simulated" "formatting, vet, linters: lint")
[ -z "$containers" ] || steps+=("tests on engines as containers: in_containers")
steps+=("the Helm chart and other modules: modules")
[ ! -x bin/contract/schemathesis/bin/schemathesis ] || steps+=("schemathesis: test/contract/schemathesis.sh")
[ ! -f bin/contract/generators/venv/requirements.txt ] || steps+=("clients of stock generators: test/contract/generators.sh")
steps+=("clients generated from the API's document: test/contract/client.sh")
[ ! -f bin/clients/venv/requirements.txt ] || steps+=("clients in Go, TypeScript and Python: sdk/clients.sh")

chosen=()
for entry in "${steps[@]}"; do
	[ $# = 0 ] || [[ " $* " = *" ${entry##*: } "* ]] || continue
	chosen+=("$entry")
done
steps=("${chosen[@]}")

workers=()
# As many as the cores of a small machine: with a third one tests with real deadlines fail on a slow day.
for _ in 1 2; do
	worker & workers+=($!)
done
trap 'kill -- "${workers[@]/#/-}" ${image:+-$image} 2>/dev/null || true; wait || true; rm -rf "$scratch" "${memory:-}"' EXIT
# Wait for all even after a failure: killed tests would leave engines behind.
for pid in "${workers[@]}"; do
	wait "$pid" || failed=yes
done
# Not head: sort would end by SIGPIPE, and the run with it.
sort -rn $records | sed -n 1,60p >bin/slowest.txt
printf '\n'
cat "$scratch/table"
[ ! -s "$scratch/failed" ] || cat "$scratch/failed"
[ -z "${failed:-}" ] || { echo "make test: a step failed" >&2; exit 1; }
[ $# != 0 ] || bin/suite unrun -records $records ${required:+-strict}

printf '\nran on %s, %s, %d cores' "$(go env GOOS)/$(go env GOARCH)" "$(go version | cut -d' ' -f3)" "$(nproc)"
[ -f bin/engines/kafka/pom.sum ] && printf ', Apache Kafka 4.1'
command -v redis-server >/dev/null && printf ', Redis %s' "$(redis-server --version | sed 's/.*v=\([0-9.]*\).*/\1/')"
printf ', embedded engines\n'
[ ! -e "$scratch/no-image" ] || left_out+=("engines as containers (no image can be built): they ran as processes")
for what in "${left_out[@]:+${left_out[@]}}"; do
	echo "left out: $what"
done
printf 'all passed in %d min %02d s\n' $(((SECONDS - started) / 60)) $(((SECONDS - started) % 60))
