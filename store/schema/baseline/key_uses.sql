-- The last use of each API key. No TTL: a key that has not been used for long is the one worth a look.
CREATE TABLE IF NOT EXISTS {db}.key_uses (
  account String, key String, at DateTime64(3,'UTC'), node LowCardinality(String), remote_ip IPv6, ver UInt64
) ENGINE = ReplacingMergeTree(ver) ORDER BY (account, key);

CREATE MATERIALIZED VIEW IF NOT EXISTS {db}.mv_key_uses TO {db}.key_uses AS
SELECT account, entity AS key, last_at AS at, node, remote_ip, ver FROM {db}.audit WHERE action = 'key.used';
