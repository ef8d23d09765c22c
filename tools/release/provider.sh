#!/usr/bin/env bash
# Builds the Terraform provider: provider.sh RELEASE DIRECTORY writes there what registries and mirrors take, an archive
# for each platform, checksums and a manifest, and the bill of materials of them all, which RELEASE makes (main.go). The
# same commit and SOURCE_DATE_EPOCH give the same bytes.
set -euo pipefail
umask 022
release=$1 out=$2
cd "$(dirname "$0")/../.."
version=$(cat VERSION)
all=terraform-provider-eventrelay_$version
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
for platform in linux_amd64 linux_arm64 darwin_amd64 darwin_arm64 windows_amd64; do
	program=terraform-provider-eventrelay_v$version
	[[ $platform != windows* ]] || program+=.exe
	GOOS=${platform%_*} GOARCH=${platform#*_} tools/release/build.sh "$work/$program" sdk/terraform
	(cd sdk/terraform && "$release" -binary "$work/$program" -version "$version" -sbom "$work/sbom" \
		-licences "$work/LICENCES.txt")
	[ -f "$out/$all.cdx.json" ] || cp "$work/sbom" "$out/$all.cdx.json"
	cmp "$work/sbom" "$out/$all.cdx.json" # all have the same modules
	install -m 644 LICENSE "$work"
	touch -d "@$SOURCE_DATE_EPOCH" "$work"/*
	(cd "$work" && TZ=UTC python3 -m zipfile -c "$out/${all}_$platform.zip" LICENSE LICENCES.txt "$program")
	rm "$work/$program"
done
install -m 644 sdk/terraform/terraform-registry-manifest.json "$out/${all}_manifest.json"
(cd "$out" && sha256sum "${all}"_*.zip "${all}_manifest.json" >"${all}_SHA256SUMS")
