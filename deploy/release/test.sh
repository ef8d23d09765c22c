#!/usr/bin/env bash
# Makes a release of the last commit, which makes everything twice, and brings docker-compose.yml up with its image (make
# torture PART=release). Needs what deploy/compose/test.sh needs.
set -euo pipefail
cd "$(dirname "$0")/../.."
deploy/release/release.sh
(cd dist && sha256sum --quiet -c SHA256SUMS)
deploy/compose/test.sh dist
