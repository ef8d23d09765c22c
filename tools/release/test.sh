#!/usr/bin/env bash
# Makes a release of the last commit, which makes everything twice, and brings docker-compose.yml up with its image (make
# torture PART=release). Needs what test/compose/test.sh needs.
set -euo pipefail
cd "$(dirname "$0")/../.."
tools/release/release.sh
(cd dist && sha256sum --quiet -c SHA256SUMS)
test/compose/test.sh dist
