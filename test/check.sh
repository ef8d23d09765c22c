#!/usr/bin/env bash
# The quick loop (make check): formatting and linters of what differs from main, and short tests, those of the changed
# packages first. Go's cache has the results of packages that no change concerns. What has not ended in time is left to
# make test, as are packages that boot the relay or wait for databases, unless they are changed.
set -euo pipefail
cd "$(dirname "$0")/.."
export CGO_ENABLED=0

base=$(git merge-base HEAD origin/main 2>/dev/null || git merge-base HEAD main 2>/dev/null || echo HEAD)
files=$({ git diff --name-only --diff-filter=d "$base"; git ls-files --others --exclude-standard; } | grep '\.go$' | sort -u || true)
unformatted=$(printf '%s\n' "$files" | xargs -r gofmt -l)
[ -z "$unformatted" ] || { printf 'gofmt would change:\n%s\n' "$unformatted"; exit 1; }

changed=$(printf '%s\n' "$files" | grep -Ev '^tools/' | xargs -r -n1 dirname | sort -u | sed 's|^|./|' || true)
[ -z "$changed" ] || go tool -modfile=tools/go.mod golangci-lint run -c tools/golangci.yml --allow-parallel-runners $changed

slow='^\./(test/e2e|store/(read|write|schema))$'
others=$(go list -f '{{if or .TestGoFiles .XTestGoFiles}}{{.Dir}}{{end}}' ./... | sed "s|^$PWD|.|" | grep -Ev "$slow")
status=0
timeout "${1:-85}" go test -short -vet=off $(printf '%s\n' $changed $others | grep -vx './test/e2e' | awk '!seen[$0]++') || status=$?
[ $status != 124 ] || { echo "not every test ended in time: make test has the others"; status=0; }
exit $status
