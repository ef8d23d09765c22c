#!/usr/bin/env bash
# Makes a release of the last commit, which makes everything twice, installs its SDK, clients and Terraform provider in
# empty projects and runs them against bin/relay dev, and brings docker-compose.yml up with its image (make torture
# PART=release). Needs what test/compose/test.sh needs, and OpenTofu or Terraform.
set -euo pipefail
cd "$(dirname "$0")/../.."
tools/release/release.sh
(cd dist && sha256sum --quiet -c SHA256SUMS ./*_SHA256SUMS)
sdk/packed.sh dist
RELAY_TEST_PROVIDER=$(realpath dist/terraform-provider-eventrelay_*_linux_amd64.zip) CGO_ENABLED=0 GOFLAGS=-trimpath \
	go test -C sdk/terraform -count=1 -run '^TestExample$' .
test/compose/test.sh dist
