#!/bin/sh
# Stands for the entry point of clickhouse/clickhouse-server. The embedded engine has one user, relay.
set -eu
RELAY_ENGINE_KEY=$(cat "$CLICKHOUSE_PASSWORD_FILE")
export RELAY_ENGINE_KEY
exec relay engine clickhouse --listen 0.0.0.0:8123 --data /var/lib/clickhouse --host clickhouse --host 127.0.0.1
