#!/bin/sh
# Stops the node when the package goes, not when the next version takes its place. Its data stays.
set -e
case "$1" in
remove | 0) ;; # dpkg: remove; rpm: no version is left
*) exit 0 ;;
esac
[ ! -d /run/systemd/system ] || systemctl disable --now relay.service
