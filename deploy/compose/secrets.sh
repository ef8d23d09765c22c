#!/bin/sh
# Writes random secrets for docker-compose.yml: secrets.sh DIRECTORY. What is there already stays. Each service sees the
# folder below DIRECTORY that it needs, as /run/secrets. The files are readable for every user of a container; on the
# host only the owner of DIRECTORY gets into it.
set -eu
dir=$1
umask 022
mkdir -p "$dir"
owner=$(stat -c %u:%g "$dir")
chmod 700 "$dir"

# random N prints N random bytes in hexadecimal digits, which can stand in a URL.
random() { head -c "$1" /dev/urandom | od -An -v -tx1 | tr -d ' \n'; }

# write FILE writes its input unless the file is there. A crash leaves the whole file or none.
write() {
	if [ -s "$dir/$1" ]; then
		cat >/dev/null
		return
	fi
	mkdir -p "$dir/${1%/*}"
	cat >"$dir/$1.part"
	chmod 444 "$dir/$1.part"
	mv "$dir/$1.part" "$dir/$1"
	echo "secrets: wrote $1"
}

# Opens the secrets in the configuration log. Nothing replaces it: keep a copy apart.
printf 'main:%s\n' "$(head -c 32 /dev/urandom | base64)" | write relay/master_keys
# The first API key, read_write.
printf 'rly_live_%s\n' "$(random 24)" | write relay/bootstrap_key
random 24 | write clickhouse/password
printf 'http://relay:%s@clickhouse:8123/relay\n' "$(cat "$dir/clickhouse/password")" | write relay/clickhouse_url
random 24 | write relay/redis_password
printf 'redis://relay:%s@redis:6379\n' "$(cat "$dir/relay/redis_password")" | write relay/redis_url
# Redis gets a checksum alone. Without a password nobody may do anything.
hash=$(sha256sum <"$dir/relay/redis_password" | cut -d ' ' -f 1)
# The rights are those of docs/operate/security.md.
printf 'user default off\nuser relay on #%s resetkeys resetchannels -@all %s\n' "$hash" \
	'~tb:* ~claim:* ~distinct:* ~window:* ~held:* &pull:* +ping +time +multi +exec +get +mget +set +del +incr +incrby +decr +pttl +pexpire +scard +sismember +sadd +evalsha +eval +publish +subscribe +unsubscribe +info +config|get' |
	write redis/users.acl
random 16 | write grafana/password
chown -R "$owner" "$dir"
