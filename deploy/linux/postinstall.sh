#!/bin/sh
# Creates the user and its directory. Nothing starts before an administrator has set the public address; a node that
# runs is restarted with the new version.
set -e
case "$1" in
configure | 1 | 2) ;; # dpkg: configure; rpm: how many versions are installed
*) exit 0 ;;
esac
systemd-sysusers relay.conf
chown root:relay /etc/relay/relay.env
install -d -o relay -g relay -m 0700 /var/lib/relay
if [ -d /run/systemd/system ]; then
	systemctl daemon-reload
	systemctl try-restart relay.service
	! systemctl is-active --quiet relay.service || exit 0
fi
cat <<'TEXT'
EventRelay is installed and does not run yet. Next:
  1. set RELAY_BASE_URL in /etc/relay/relay.env
  2. systemctl enable --now relay
  3. sudo -u relay relay users add you@example.com --data-dir /var/lib/relay
TEXT
