#!/bin/sh
# Backs up or restores the relay's database on one ClickHouse server:
#
#   store.sh backup|restore http://HOST:8123 DATABASE LOCATION
#
# LOCATION is what ClickHouse takes behind TO and FROM, such as "Disk('backups', 'relay-2026-11-23')" or
# "S3('https://…', 'key', 'secret')". Run it for each shard. CLICKHOUSE_USER and CLICKHOUSE_PASSWORD name the user; it needs
# BACKUP, and to restore also CREATE and INSERT. restore takes a server that does not have the database.
set -eu

[ $# = 4 ] || { sed -n '2,$s/^# \{0,1\}//p' "$0" >&2; exit 2; }
case $1 in
backup) statement="BACKUP DATABASE \`$3\` TO $4" ;;
restore) statement="RESTORE DATABASE \`$3\` FROM $4" ;;
*) echo "store.sh: backup or restore, not $1" >&2; exit 2 ;;
esac

# Headers come from a file descriptor, so that the password is in no list of processes.
ask() {
	curl --silent --show-error --fail-with-body --header @/dev/fd/3 --data-binary "$2" "$1/" 3<<HEADERS
X-ClickHouse-User: ${CLICKHOUSE_USER:-default}
X-ClickHouse-Key: ${CLICKHOUSE_PASSWORD:-}
HEADERS
}

exists=0
[ "$1" = backup ] || exists=$(ask "$2" "EXISTS DATABASE \`$3\`")
if [ "$exists" = 1 ]; then
	echo "store.sh: the database $3 already exists on this server: either relay migrate has created it, or it is not lost." >&2
	echo "If nothing in it is needed, run DROP DATABASE $3 there, and this again." >&2
	exit 1
fi
ask "$2" "$statement"
