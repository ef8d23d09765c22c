# Functions for scripts that build images in a Docker engine of their own: source test/docker/docker.sh. Needs root and
# dockerd.

# start_docker DIR starts the engine, with all its data below DIR, and points docker at it. $dockerd is its process.
start_docker() {
	dockerd --bridge none --data-root "$1/data" --exec-root "$1/exec" --pidfile "$1/pid" \
		--host "unix://$1/docker.sock" >"$1/log" 2>&1 &
	dockerd=$!
	export DOCKER_HOST=unix://$1/docker.sock DOCKER_BUILDKIT=0
	for _ in $(seq 120); do
		docker info >/dev/null 2>&1 && return
		kill -0 "$dockerd" 2>/dev/null || { tail "$1/log" >&2; exit 1; }
		sleep 0.5
	done
	tail "$1/log" >&2
	exit 1
}

stop_docker() {
	if [ -n "${dockerd:-}" ]; then
		kill "$dockerd" 2>/dev/null && wait "$dockerd" || true
		dockerd=
	fi
}

# build_receiver DIR builds DIR/receiver, the tests of test/compose, and from it the image of what receives deliveries.
build_receiver() {
	mkdir "$1"
	CGO_ENABLED=0 go test -c -vet=off -o "$1/receiver" ./test/compose
	printf 'FROM debian:bookworm-slim\nCOPY receiver /receiver\nUSER 65532:65532\nENTRYPOINT ["/receiver", "receiver"]\n' >"$1/Dockerfile"
	docker build -q --network none -t eventrelay/receiver:1.0 "$1" >/dev/null
}
