#!/usr/bin/env bash
# Writes the documents as static files, which any web server or a browser shows without a relay: make site. They are the
# pages that a relay of this build serves at /docs, with relative links and without the search.
set -euo pipefail
cd "$(dirname "$0")/../.."
out=${1:-dist/site}
command -v wget >/dev/null || { echo "site: install wget" >&2; exit 1; }

scratch=$(mktemp -d)
relay=
trap '[ -z "$relay" ] || { kill "$relay" && wait "$relay"; } 2>/dev/null || true; rm -rf "$scratch"' EXIT
bin/relay dev --listen 127.0.0.1:0 --data-dir "$scratch/data" >"$scratch/log" 2>&1 &
relay=$!
for _ in $(seq 300); do
	address=$(grep -oE 'http://(localhost|127\.0\.0\.1):[0-9]+' "$scratch/log" | head -n 1 || true)
	[ -n "$address" ] && curl -sf "$address/docs" >/dev/null && break
	kill -0 "$relay" || { cat "$scratch/log" >&2; exit 1; }
	sleep 0.1
done

rm -rf "$out"
mkdir -p "$out"
# wget ends with 8 if one address answers with an error.
wget --no-verbose -e robots=off --retry-on-http-error=429 --waitretry=3 --mirror --page-requisites --adjust-extension --convert-links --no-parent --no-host-directories \
	--reject-regex '/docs/search' --directory-prefix "$out" "$address/docs" "$address/docs/api" 2>"$scratch/wget" || { grep -iB2 error "$scratch/wget" >&2; exit 1; }
find "$out" -name '*.html' -exec sed -i -E 's#<form action="[^"]*/docs/search".*</form>##; s#<li><a href="[^"]*/docs/search"[^>]*>Search</a></li>##' {} +
echo "site: $(find "$out" -name '*.html' | wc -l) pages in $out; begin with docs.html"
