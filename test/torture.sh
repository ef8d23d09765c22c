#!/usr/bin/env bash
# Runs the long forms of tests (make torture): torture.sh [PART...], all parts in order without one; torture.sh list
# names them. A part that has passed with this code is not run again, unless AGAIN=1: hours add up. Each run of a part
# adds a row to test/torture.md. RELAY_SEED repeats a run; bin/torture has the whole output.
set -euo pipefail
cd "$(dirname "$0")/.."

# A part is a name, a package, and what is in the names of its tests; those without a package are programs.
parts=(
	"single ./test/e2e TestOneMachine$"
	"days ./test/e2e TestDaysOnOneMachine$"
	"move ./test/e2e TestMoveToCluster$"
	"upgrade ./test/e2e TestUpgradeFromTheLastRelease$"
	"kills ./test/e2e TestKill|ThroughKills"
	"leaks ./test/e2e LeaksSurviveKills|TestSDK$"
	"drains ./test/e2e SyslogNG"
	"tripwires ./test/e2e TestLeakScan"
	"power ./test/e2e TestPowerCuts"
	"cluster ./test/e2e TestCluster|MoveEndpoint|TestServe$"
	"life ./test/e2e TestLife$"
	"restore ./test/e2e TestRestore"
	"dashboards ./test/e2e AlertsAndDashboards"
	"traces ./test/e2e TestTraces"
	"dev ./test/e2e TestDev"
	"conformance ./test/e2e Conformance|Attacks"
	"replays ./test/e2e LargestReplay"
	"paging ./store/read Paging"
	"models ./store/read ListsAgree|AgreesWithModel|EveryPlan|UnusualBodies|EventsByOffset|SelectMany"
	"histories ./store/read Histories|UnderFaults"
	"reads-on-shards ./store/read OnTwoShards"
	"speed ./store/read WriterKeepsSpeed"
	"writes ./store/write ReadAfterWrite|BatchOfManyDays|UnderFaults|OnTwoShards|TestRetention$"
	"parts ./store/write StayFlat|CatchesUp"
	"migrations ./store/schema InterruptedMigration"
	"dispatcher ./dispatcher DownFor|ManyDead|AMillion|Neighbours"
	"lanes ./dispatcher/lane EveryDeliveryEndsOnce"
	"feed ./api/feed EachEventOnce"
	"engines ./test/kit KafkaClusterSurvives"
	"limits ./pkg/limit MinuteOfTraffic"
	"ledger ./features/ledger RandomHistories"
	"model test/model/check.sh"
	"sim test/sim/run.sh"
	"kinds test/kinds/moto.sh"
	"secrets ./pkg/secrets PackagesOfNPM|ScriptFinds"
	"clickhouse ./pkg/embedded/clickhouse KillsLoseNothing"
	"compose test/compose/test.sh"
	"kubernetes test/kubernetes/test.sh"
	"chart test/kubernetes/chart.sh"
	"release tools/release/test.sh"
	"contract test/contract/schemathesis.sh"
	"repeats test/repeats.sh"
	"fuzz test/fuzz.sh"
	"dashboard sdk/browser/dashboard.test.mjs"
	"recovery sdk/browser/recovery.test.mjs"
	"forwarder sdk/forward/torture.mjs"
	"sdk sdk/js/torture.sh"
)
table=test/torture.md
state=bin/torture

# run_part PACKAGE TESTS or PROGRAM runs one part and writes its figures to $output.figures.
run_part() {
	case $1 in
	test/contract/schemathesis.sh)
		RELAY_SECONDS=900 "$1" 2>&1 | tee "$output.log"
		sed -n 's/^schemathesis: //p' "$output.log" >"$output.figures"
		;;
	sdk/browser/* | sdk/forward/*)
		sdk/test.sh install
		RELAY_TORTURE=1 RELAY_TEST_BROWSER=$(sdk/test.sh browser) node --test --test-reporter=spec "$1" 2>&1 | tee "$output.log"
		sed -n 's/^ℹ \(pass [0-9]*\)$/\1/p' "$output.log" >"$output.figures"
		;;
	sdk/js/torture.sh)
		sdk/test.sh install
		"$1" 2>&1 | tee "$output.log"
		sed -n 's/^sdk: //p' "$output.log" >"$output.figures"
		;;
	test/compose/test.sh | test/kubernetes/test.sh)
		"$1" 2>&1 | tee "$output.log"
		sed -n 's/.*: \([0-9]* events accepted.*\)/\1/p' "$output.log" >"$output.figures"
		;;
	test/kubernetes/chart.sh)
		"$1" 2>&1 | tee "$output.log"
		sed -n 's/.*: \([0-9]* \(pods\|requests\) .*\)/\1/p' "$output.log" >"$output.figures"
		;;
	tools/release/test.sh)
		"$1" 2>&1 | tee "$output.log"
		sed -n -e 's/^release: \([0-9]* files made twice.*\)/\1/p' -e 's/^clients: //p' \
			-e 's/.*: \([0-9]* events accepted.*\)/\1/p' "$output.log" >"$output.figures"
		;;
	test/model/check.sh)
		"$1" 2>&1 | tee "$output.log"
		sed -n 's/^model: //p' "$output.log" >"$output.figures"
		;;
	test/sim/run.sh)
		"$1" "$RELAY_SEED" $((RELAY_SEED + ${RELAY_SIM_SEEDS:-400})) 2>&1 | tee "$output.log"
		sed -n 's/^sim: //p' "$output.log" >"$output.figures"
		;;
	test/kinds/moto.sh)
		"$1" 2>&1 | tee "$output.log"
		echo "$(grep -c '^ok' "$output.log") kinds" >"$output.figures"
		;;
	test/repeats.sh)
		"$1" 2>&1 | tee "$output.log"
		echo "the 20 longest tests, ten times each, in $(grep -c '^ok' "$output.log") runs" >"$output.figures"
		;;
	test/fuzz.sh)
		local failed=0
		RELAY_FUZZ_TABLE=test/fuzz.md "$1" 120 2>&1 | tee "$output.log" || failed=1
		echo "$(grep -c '^== ' "$output.log") targets, 120 s each; test/fuzz.md adds them up" >"$output.figures"
		if [ $failed = 1 ]; then
			sed -n 's/^fuzz: failed: \(.*\)/fuzz\tfail\t0\t\1/p' "$output.log" >"$output.records"
			return 1
		fi
		;;
	*)
		CGO_ENABLED=0 RELAY_TORTURE=1 go test -json -vet=off -count=1 -timeout 4h -run "$2" "$1" | tee "$output.log" |
			bin/suite report -step torture -records "$output.records" -figures "$output.figures"
		;;
	esac
}

# code is a checksum of all committed files but the documents.
code() { git ls-tree -r HEAD | grep -v '\.md$' | git hash-object --stdin; }

# row NAME COMMIT SEED SECONDS RESULT adds a row to the table; a cell has no line ends and no bars.
row() {
	local figures minutes
	minutes=$(awk -v seconds="$4" 'BEGIN {printf "%.1f", seconds / 60}')
	figures=$(paste -sd ';' "$output.figures" | sed -e 's/|/\//g' -e 's/;/; /g' | cut -c 1-1000)
	printf '| %s | %s | %s | %s | %s | %s | %s |\n' "$1" "$2" "$(date -u +%F)" "$3" "$minutes" "$figures" "$5" >>$table
}

# torture NAME ARGUMENT... runs a part, if it has not passed with this code, and records the run.
torture() {
	local name=$1 commit seed from=$SECONDS result=passed now
	shift
	commit=$(git rev-parse --short HEAD)
	now=$(code)
	[ -z "$(git status --porcelain -- . ":!$table" ":!test/fuzz.md")" ] || commit+=-dirty now=
	if [ -n "$now" ] && [ "$(cat $state/"$name".passed 2>/dev/null)" = "$now" ] && [ -z "${AGAIN:-}" ]; then
		echo "torture: $name has passed with this code; AGAIN=1 runs it again"
		return
	fi
	seed=${RELAY_SEED:-random}
	[ "$seed" != random ] || seed=$((RANDOM * 32768 + RANDOM + 1))
	output=$state/$name
	rm -f "$output".*
	: >"$output.figures"
	echo "== $name, RELAY_SEED=$seed"
	# In the background, because set -e is off inside a condition.
	(RELAY_SEED=$seed run_part "$@") &
	wait $! || result="failed: $({ awk -F '\t' '$2 == "fail" {print $4}' "$output.records" 2>/dev/null || true; } | paste -sd ' ')"
	# A run in which every test was left out, for want of an engine for example, has shown nothing.
	if [ "$result" = passed ] && [ -f "$output.records" ] && ! awk -F '\t' '$2 == "pass" {ran = 1} END {exit !ran}' "$output.records"; then
		result="failed: no test ran"
	fi
	row "$name" "$commit" "$seed" $((SECONDS - from)) "$result"
	if [ "$result" = passed ]; then
		echo "$now" >"$output.passed"
	else
		failed=yes
	fi
}

if [ "${1:-}" = list ]; then
	printf '%s\n' "${parts[@]}"
	exit
fi
for name in "$@"; do
	# Not a pipe: grep may end before printf has written everything, which would count as a failure.
	grep -q "^$name " < <(printf '%s\n' "${parts[@]}") || { echo "torture: there is no part $name; torture.sh list names them" >&2; exit 1; }
done
mkdir -p $state
go build -o bin/suite ./test/suite
failed=
for part in "${parts[@]}"; do
	read -r name arguments <<<"$part"
	[ $# = 0 ] || [[ " $* " = *" $name "* ]] || continue
	torture "$name" $arguments
done
awk -F '|' '/^\|/ {minutes += $6} END {printf "torture: test/torture.md adds up to %.1f hours\n", minutes / 60}' $table
awk -F '|' '$2 ~ /faults/ && $8 ~ /passed/ && match($7, /[0-9]+ faults/) {n += substr($7, RSTART)} END {
	if (n) printf "torture: %d random faults in runs that passed\n", n}' $table
[ -z "$failed" ]
