#!/usr/bin/env bash
# Prints a formula for Homebrew on Linux: formula.sh ARCHIVE VERSION. RELAY_RELEASE_URL is where the files of dist are
# published; without it brew reads it from its own environment, as HOMEBREW_RELAY_URL.
set -euo pipefail
archive=$1 version=$2
url=${RELAY_RELEASE_URL:-}
[ -n "$url" ] || url='#{ENV.fetch("HOMEBREW_RELAY_URL")}'
cat <<FORMULA
class Relay < Formula
  desc "Receives webhooks, keeps every one and delivers them until they arrive"
  version "$version"
  license "Apache-2.0"
  url "$url/$(basename "$archive")"
  sha256 "$(sha256sum "$archive" | cut -d' ' -f1)"
  depends_on arch: :x86_64
  depends_on :linux

  def install
    libexec.install "relay", "lib"
    bin.install_symlink libexec/"relay"
    doc.install "LICENSE", "LICENCES.txt"
  end

  service do
    run [opt_bin/"relay", "serve", "--data-dir", var/"relay"]
    keep_alive true
    log_path var/"log/relay.log"
    error_log_path var/"log/relay.log"
  end

  test do
    assert_match version.to_s, shell_output("#{bin}/relay version")
  end
end
FORMULA
