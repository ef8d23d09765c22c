# Source this file: it starts an empty bin/relay dev on a free port and stops it at the end of the script. The relay
# reaches no other machine: no name resolves, and deliveries may go to loopback only.
start_relay() {
	relay_work=$(mktemp -d)
	relay_pid=
	trap 'stop_relay' EXIT
	trap 'exit 1' HUP INT TERM
	local port
	port=$(node -e 'const s = require("net").createServer(); s.listen(0, "127.0.0.1", () => { console.log(s.address().port); s.close() })')
	export RELAY_BASE_URL=http://127.0.0.1:$port
	RELAY_API_KEY=$(node -p 'require("crypto").randomBytes(24).toString("hex")')
	export RELAY_API_KEY
	env RELAY_LISTEN="127.0.0.1:$port" RELAY_ADMIN_LISTEN=127.0.0.1:0 RELAY_DATA_DIR="$relay_work/data" RELAY_LOG_LEVEL=info \
		RELAY_BOOTSTRAP_KEY="$RELAY_API_KEY" RELAY_EGRESS_ALLOW=127.0.0.0/8 RELAY_DNS_SERVER=127.0.0.1:9 \
		bin/relay dev >"$relay_work/log" 2>&1 &
	relay_pid=$!
	local tries=0
	until curl -sf -o "$relay_work/ready" "$RELAY_BASE_URL/readyz"; do
		tries=$((tries + 1))
		if [ "$tries" -gt 900 ] || ! kill -0 "$relay_pid" 2>/dev/null; then
			cat "$relay_work/log" >&2
			echo "bin/relay dev did not become ready" >&2
			exit 1
		fi
		sleep 0.2
	done
}

stop_relay() {
	local status=$?
	if [ -n "$relay_pid" ]; then
		kill "$relay_pid" 2>/dev/null || true
		wait "$relay_pid" 2>/dev/null || true
	fi
	rm -rf "$relay_work"
	exit "$status"
}
