CREATE DATABASE IF NOT EXISTS relay;

CREATE TABLE IF NOT EXISTS relay.schema_version (version UInt32, name String, at DateTime('UTC'), program String, checksum String) ENGINE = ReplacingMergeTree ORDER BY version;

CREATE TABLE IF NOT EXISTS relay.shard (number UInt32, of UInt32, at DateTime('UTC')) ENGINE = ReplacingMergeTree ORDER BY (number, of);

CREATE TABLE IF NOT EXISTS relay.attempts (
  account String, id FixedString(16) CODEC(ZSTD(1)), ts DateTime64(3,'UTC') CODEC(DoubleDelta,ZSTD(1)), dest String CODEC(ZSTD(1)),
  attempt FixedString(16) CODEC(ZSTD(1)), endpoint String CODEC(ZSTD(1)), at DateTime64(3,'UTC') CODEC(Delta,ZSTD(1)),
  trigger LowCardinality(String), run String CODEC(ZSTD(1)), ok UInt8, code UInt16, error_code LowCardinality(String),
  error_message String CODEC(ZSTD(1)), duration_ms UInt32 CODEC(T64,ZSTD(1)), ttfb_ms UInt32 CODEC(T64,ZSTD(1)),
  next_at DateTime64(3,'UTC') CODEC(ZSTD(1)), retry_after_s UInt32, remote_ip IPv6 CODEC(ZSTD(1)),
  url LowCardinality(String), method LowCardinality(String), req_headers String CODEC(ZSTD(1)), transformation_version UInt32,
  resp_headers String CODEC(ZSTD(1)), resp_body String CODEC(ZSTD(1)), resp_truncated UInt8,
  trace String CODEC(ZSTD(1))
) ENGINE = ReplacingMergeTree PARTITION BY toYYYYMMDD(ts) ORDER BY (account, id, dest, attempt)
TTL toStartOfDay(toDateTime(ts)) + INTERVAL 31 DAY DELETE SETTINGS ttl_only_drop_parts = 1, index_granularity = 1024, min_compress_block_size = 4096;

CREATE TABLE IF NOT EXISTS relay.attempts_day (
  account String, t DateTime('UTC') CODEC(DoubleDelta,ZSTD(1)), endpoint String, attempts UInt64, delivered UInt64, failed UInt64
) ENGINE = ReplacingMergeTree(attempts) PARTITION BY toYYYYMM(t) ORDER BY (account, t, endpoint) TTL t + INTERVAL 400 DAY DELETE;

CREATE TABLE IF NOT EXISTS relay.attempts_hour (
  account String, t DateTime('UTC') CODEC(DoubleDelta,ZSTD(1)), endpoint String, attempts UInt64, delivered UInt64, failed UInt64
) ENGINE = ReplacingMergeTree(attempts) PARTITION BY toYYYYMM(t) ORDER BY (account, t, endpoint) TTL t + INTERVAL 400 DAY DELETE;

CREATE TABLE IF NOT EXISTS relay.audit (
  account String, id FixedString(16) CODEC(ZSTD(1)), at DateTime64(3,'UTC') CODEC(Delta,ZSTD(1)), actor_type LowCardinality(String),
  actor String CODEC(ZSTD(1)), actor_name String CODEC(ZSTD(1)), action LowCardinality(String), entity_type LowCardinality(String),
  entity String CODEC(ZSTD(1)), changes Array(String) CODEC(ZSTD(1)), request_id String CODEC(ZSTD(1)), remote_ip IPv6 CODEC(ZSTD(1)),
  related String CODEC(ZSTD(1)), node LowCardinality(String), count UInt64 CODEC(T64,ZSTD(1)), last_at DateTime64(3,'UTC') CODEC(ZSTD(1)), ver UInt64 CODEC(ZSTD(1))
) ENGINE = ReplacingMergeTree(ver) PARTITION BY toYYYYMM(at) ORDER BY (account, id) TTL toDateTime(at) + INTERVAL 400 DAY DELETE;

CREATE TABLE IF NOT EXISTS relay.deliveries (
  account String, id FixedString(16) CODEC(ZSTD(1)), ts DateTime64(3,'UTC') CODEC(DoubleDelta,ZSTD(1)), dest String CODEC(ZSTD(1)),
  endpoint String CODEC(ZSTD(1)), type LowCardinality(String), status LowCardinality(String), reason LowCardinality(String),
  skipped LowCardinality(String), code UInt16, next_at DateTime64(3,'UTC') CODEC(ZSTD(1)), last_at DateTime64(3,'UTC') CODEC(ZSTD(1)),
  run String CODEC(ZSTD(1)), ver UInt128 CODEC(ZSTD(1)),
  INDEX by_dest dest TYPE bloom_filter(0.01) GRANULARITY 1
) ENGINE = ReplacingMergeTree(ver) PARTITION BY toYYYYMMDD(ts) ORDER BY (account, id, dest)
TTL toStartOfDay(toDateTime(ts)) + INTERVAL 31 DAY DELETE SETTINGS ttl_only_drop_parts = 1, index_granularity = 1024, min_compress_block_size = 4096;

CREATE TABLE IF NOT EXISTS relay.event_keys (
  account String, key String CODEC(ZSTD(1)), id FixedString(16) CODEC(ZSTD(1)), ts DateTime64(3,'UTC') CODEC(DoubleDelta,ZSTD(1))
) ENGINE = ReplacingMergeTree PARTITION BY toYYYYMMDD(ts) ORDER BY (account, key, id)
TTL toStartOfDay(toDateTime(ts)) + INTERVAL 31 DAY DELETE SETTINGS ttl_only_drop_parts = 1, index_granularity = 512, min_compress_block_size = 4096;

CREATE TABLE IF NOT EXISTS relay.events (
  account String, id FixedString(16) CODEC(ZSTD(1)), ts DateTime64(3,'UTC') CODEC(DoubleDelta,ZSTD(1)),
  endpoint String CODEC(ZSTD(1)), type LowCardinality(String), source LowCardinality(String),
  verdict LowCardinality(String), reason LowCardinality(String), duplicate_of FixedString(16) CODEC(ZSTD(1)),
  dests Array(String) CODEC(ZSTD(1)), method LowCardinality(String), query String CODEC(ZSTD(1)), content_type LowCardinality(String),
  remote_ip IPv6 CODEC(ZSTD(1)), idempotency_key String CODEC(ZSTD(1)), size UInt32 CODEC(T64,ZSTD(1)),
  headers String CODEC(ZSTD(1)), body String CODEC(ZSTD(1)), billed UInt8, trace String CODEC(ZSTD(1)),
  kafka_partition UInt16, kafka_offset UInt64 CODEC(Delta,ZSTD(1)),
  INDEX by_type type TYPE set(64) GRANULARITY 1, INDEX by_source source TYPE set(8) GRANULARITY 1,
  INDEX by_verdict verdict TYPE set(8) GRANULARITY 1, INDEX by_dest dests TYPE bloom_filter(0.01) GRANULARITY 1
) ENGINE = ReplacingMergeTree PARTITION BY toYYYYMMDD(ts) ORDER BY (account, id)
TTL toStartOfDay(toDateTime(ts)) + INTERVAL 31 DAY DELETE SETTINGS ttl_only_drop_parts = 1, index_granularity = 1024, min_compress_block_size = 4096;

CREATE TABLE IF NOT EXISTS relay.events_by_endpoint (
  account String, endpoint String, id FixedString(16) CODEC(ZSTD(1)), ts DateTime64(3,'UTC') CODEC(DoubleDelta,ZSTD(1)),
  type LowCardinality(String), source LowCardinality(String), verdict LowCardinality(String), reason LowCardinality(String),
  duplicate_of FixedString(16) CODEC(ZSTD(1)), dests Array(String) CODEC(ZSTD(1)), size UInt32 CODEC(T64,ZSTD(1)),
  INDEX by_type type TYPE set(64) GRANULARITY 1, INDEX by_source source TYPE set(8) GRANULARITY 1
) ENGINE = ReplacingMergeTree PARTITION BY toYYYYMMDD(ts) ORDER BY (account, endpoint, id)
TTL toStartOfDay(toDateTime(ts)) + INTERVAL 31 DAY DELETE SETTINGS ttl_only_drop_parts = 1, index_granularity = 512, min_compress_block_size = 4096;

CREATE TABLE IF NOT EXISTS relay.failure_candidates (
  account String, id FixedString(16) CODEC(ZSTD(1)), dest String CODEC(ZSTD(1)), ts DateTime64(3,'UTC') CODEC(DoubleDelta,ZSTD(1)),
  endpoint String CODEC(ZSTD(1)), type LowCardinality(String), status LowCardinality(String), ver UInt128 CODEC(ZSTD(1)),
  INDEX by_status status TYPE set(8) GRANULARITY 1, INDEX by_type type TYPE set(64) GRANULARITY 1
) ENGINE = ReplacingMergeTree(ver) PARTITION BY toYYYYMM(ts) ORDER BY (account, id, dest)
TTL toStartOfDay(toDateTime(ts)) + INTERVAL 31 DAY DELETE SETTINGS ttl_only_drop_parts = 1, index_granularity = 1024;

CREATE TABLE IF NOT EXISTS relay.failure_candidates_by_endpoint (
  account String, endpoint String, id FixedString(16) CODEC(ZSTD(1)), dest String CODEC(ZSTD(1)), ts DateTime64(3,'UTC') CODEC(DoubleDelta,ZSTD(1))
) ENGINE = ReplacingMergeTree PARTITION BY toYYYYMM(ts) ORDER BY (account, endpoint, id, dest)
TTL toStartOfDay(toDateTime(ts)) + INTERVAL 31 DAY DELETE SETTINGS ttl_only_drop_parts = 1, index_granularity = 1024;

CREATE TABLE IF NOT EXISTS relay.findings (
  account String, finding String CODEC(ZSTD(1)), first_at SimpleAggregateFunction(min,DateTime64(3,'UTC')),
  last_at SimpleAggregateFunction(max,DateTime64(3,'UTC')), kind SimpleAggregateFunction(min,String), rule SimpleAggregateFunction(min,String),
  masked SimpleAggregateFunction(min,String), fingerprint SimpleAggregateFunction(max,String), key_id SimpleAggregateFunction(max,String),
  severity SimpleAggregateFunction(max,UInt8), verified SimpleAggregateFunction(max,UInt8), test SimpleAggregateFunction(min,UInt8),
  sources SimpleAggregateFunction(groupUniqArrayArray,Array(String))
) ENGINE = AggregatingMergeTree ORDER BY (account, finding);

CREATE TABLE IF NOT EXISTS relay.findings_hits (
  account String, finding String CODEC(ZSTD(1)), day Date, hit FixedString(16) CODEC(ZSTD(1)), at DateTime64(3,'UTC') CODEC(Delta,ZSTD(1)),
  observed_at DateTime64(3,'UTC') CODEC(Delta,ZSTD(1)), n UInt32 CODEC(T64,ZSTD(1)), kind LowCardinality(String), rule LowCardinality(String),
  source LowCardinality(String), channel LowCardinality(String), sender String CODEC(ZSTD(1)), severity UInt8, verified UInt8, test UInt8, billed UInt8,
  masked String CODEC(ZSTD(1)), fingerprint String CODEC(ZSTD(1)), location FixedString(16) CODEC(ZSTD(1)), place String CODEC(ZSTD(1)),
  environment LowCardinality(String), release String CODEC(ZSTD(1)), key_id String CODEC(ZSTD(1)), method LowCardinality(String),
  agent String CODEC(ZSTD(1)), remote_ip IPv6 CODEC(ZSTD(1)) TTL toDateTime(at) + INTERVAL 30 DAY, remote_net IPv6 CODEC(ZSTD(1)),
  ver UInt64 CODEC(T64,ZSTD(1))
) ENGINE = ReplacingMergeTree(ver) PARTITION BY toYYYYMM(day) ORDER BY (account, finding, day, hit) TTL day + INTERVAL 400 DAY DELETE;

CREATE TABLE IF NOT EXISTS relay.fixtures (
  account String, id String, version UInt32, content FixedString(16), name String, endpoint String, event FixedString(16), type String,
  method LowCardinality(String), body String CODEC(ZSTD(1)), redactions String CODEC(ZSTD(1)), expected_status UInt16, required String CODEC(ZSTD(1)),
  created DateTime64(3,'UTC'), created_by String, expires_at DateTime('UTC')
) ENGINE = ReplacingMergeTree ORDER BY (account, id, version, content) TTL expires_at DELETE
SETTINGS index_granularity = 8192, fsync_after_insert = 1, fsync_part_directory = 1;

CREATE TABLE IF NOT EXISTS relay.key_uses (
  account String, key String, at DateTime64(3,'UTC'), node LowCardinality(String), remote_ip IPv6, ver UInt64
) ENGINE = ReplacingMergeTree(ver) ORDER BY (account, key);

CREATE TABLE IF NOT EXISTS relay.receipt_firsts (
  account String, id FixedString(16) CODEC(ZSTD(1)), ts DateTime64(3,'UTC') CODEC(DoubleDelta,ZSTD(1)),
  first_at SimpleAggregateFunction(min,DateTime64(3,'UTC')), processed SimpleAggregateFunction(min,UInt64)
) ENGINE = AggregatingMergeTree PARTITION BY toYYYYMMDD(ts) ORDER BY (account, id)
TTL toStartOfDay(toDateTime(ts)) + INTERVAL 31 DAY DELETE SETTINGS ttl_only_drop_parts = 1, index_granularity = 1024;

CREATE TABLE IF NOT EXISTS relay.receipts (
  account String, id FixedString(16) CODEC(ZSTD(1)), ts DateTime64(3,'UTC'), state LowCardinality(String), reference String CODEC(ZSTD(1)),
  details String CODEC(ZSTD(1)), at DateTime64(3,'UTC'), ver UInt64
) ENGINE = ReplacingMergeTree(ver) PARTITION BY toYYYYMMDD(ts) ORDER BY (account, id)
TTL toStartOfDay(toDateTime(ts)) + INTERVAL 31 DAY DELETE SETTINGS ttl_only_drop_parts = 1, index_granularity = 1024, min_compress_block_size = 4096;

CREATE TABLE IF NOT EXISTS relay.recovery_items (
  account String, selection String, seq UInt32, id FixedString(16) CODEC(ZSTD(1)), dest String CODEC(ZSTD(1)), ts DateTime64(3,'UTC') CODEC(DoubleDelta,ZSTD(1)),
  skipped_reason LowCardinality(String), created DateTime('UTC')
) ENGINE = ReplacingMergeTree PARTITION BY toYYYYMM(created) ORDER BY (account, selection, seq) TTL created + INTERVAL 32 DAY DELETE
SETTINGS index_granularity = 8192, fsync_after_insert = 1, fsync_part_directory = 1;

CREATE TABLE IF NOT EXISTS relay.run_deliveries (
  account String, run String, id FixedString(16) CODEC(ZSTD(1)), dest String CODEC(ZSTD(1)), ts DateTime64(3,'UTC') CODEC(DoubleDelta,ZSTD(1)),
  status LowCardinality(String), reason LowCardinality(String), skipped LowCardinality(String), code UInt16,
  last_at DateTime64(3,'UTC') CODEC(ZSTD(1)), ver UInt128 CODEC(ZSTD(1))
) ENGINE = ReplacingMergeTree(ver) PARTITION BY toYYYYMM(ts) ORDER BY (account, run, id, dest)
TTL toDateTime(last_at) + INTERVAL 32 DAY DELETE;

CREATE TABLE IF NOT EXISTS relay.senders_minute (
  account String, sender String CODEC(ZSTD(1)), t DateTime('UTC') CODEC(DoubleDelta,ZSTD(1)), node LowCardinality(String), boot FixedString(16),
  requests UInt64 CODEC(T64,ZSTD(1)), lines UInt64 CODEC(T64,ZSTD(1)), bytes UInt64 CODEC(T64,ZSTD(1)), hits UInt64 CODEC(T64,ZSTD(1)),
  rejected UInt64 CODEC(T64,ZSTD(1)), last_at DateTime64(3,'UTC') CODEC(ZSTD(1)), platform LowCardinality(String), last_error LowCardinality(String),
  ver UInt64 CODEC(T64,ZSTD(1))
) ENGINE = ReplacingMergeTree(ver) PARTITION BY toYYYYMM(t) ORDER BY (account, sender, t, node, boot) TTL t + INTERVAL 35 DAY DELETE;

CREATE TABLE IF NOT EXISTS relay.usage_day (
  account String, t DateTime('UTC') CODEC(DoubleDelta,ZSTD(1)), endpoint String, received UInt64, sent UInt64, findings UInt64, bytes UInt64, ver UInt64
) ENGINE = ReplacingMergeTree(ver) PARTITION BY toYYYYMM(t) ORDER BY (account, t, endpoint) TTL t + INTERVAL 400 DAY DELETE;

CREATE TABLE IF NOT EXISTS relay.usage_hour (
  account String, t DateTime('UTC') CODEC(DoubleDelta,ZSTD(1)), endpoint String, received UInt64, sent UInt64, bytes UInt64, ver UInt64
) ENGINE = ReplacingMergeTree(ver) PARTITION BY toYYYYMM(t) ORDER BY (account, t, endpoint) TTL t + INTERVAL 400 DAY DELETE;

CREATE TABLE IF NOT EXISTS relay.usage_minute (
  account String, t DateTime('UTC') CODEC(DoubleDelta,ZSTD(1)), endpoint String, dest String,
  attempts SimpleAggregateFunction(sum,UInt64), delivered SimpleAggregateFunction(sum,UInt64), failed SimpleAggregateFunction(sum,UInt64),
  lat AggregateFunction(quantilesTDigest(0.5,0.95,0.99),UInt32)
) ENGINE = AggregatingMergeTree PARTITION BY toYYYYMMDD(t) ORDER BY (account, t, endpoint, dest) TTL t + INTERVAL 35 DAY DELETE;

CREATE MATERIALIZED VIEW IF NOT EXISTS relay.mv_event_keys TO relay.event_keys AS
SELECT account, id, ts,
       arrayJoin(arrayPushBack(arrayMap(d -> concat('dest:', d), if(empty(dests) AND verdict != 'rejected', [''], dests)), concat('type:', type))) AS key
FROM relay.events;

CREATE MATERIALIZED VIEW IF NOT EXISTS relay.mv_events_by_endpoint TO relay.events_by_endpoint AS
SELECT account, endpoint, id, ts, type, source, verdict, reason, duplicate_of, dests, size FROM relay.events;

CREATE MATERIALIZED VIEW IF NOT EXISTS relay.mv_findings TO relay.findings AS
SELECT account, finding, min(at) AS first_at, max(at) AS last_at, min(toString(f.kind)) AS kind, min(toString(f.rule)) AS rule,
       min(f.masked) AS masked, max(f.fingerprint) AS fingerprint, max(f.key_id) AS key_id, max(f.severity) AS severity,
       max(f.verified) AS verified, min(f.test) AS test, groupUniqArray(toString(f.source)) AS sources
FROM relay.findings_hits AS f GROUP BY account, finding;

CREATE MATERIALIZED VIEW IF NOT EXISTS relay.mv_key_uses TO relay.key_uses AS
SELECT account, entity AS key, last_at AS at, node, remote_ip, ver FROM relay.audit WHERE action = 'key.used';

CREATE MATERIALIZED VIEW IF NOT EXISTS relay.mv_receipt_firsts TO relay.receipt_firsts AS
SELECT account, id, ts, min(at) AS first_at, min(if(state = 'processed', ver, 18446744073709551615)) AS processed
FROM relay.receipts GROUP BY account, id, ts;

CREATE MATERIALIZED VIEW IF NOT EXISTS relay.mv_usage_minute TO relay.usage_minute AS
SELECT account, toStartOfMinute(toDateTime(at,'UTC')) AS t, endpoint, dest, count() AS attempts, countIf(ok = 1) AS delivered,
       countIf(ok = 0) AS failed, quantilesTDigestState(0.5,0.95,0.99)(duration_ms) AS lat
FROM relay.attempts GROUP BY account, t, endpoint, dest;

ALTER TABLE relay.usage_minute ADD COLUMN IF NOT EXISTS first_attempts SimpleAggregateFunction(sum,UInt64) AFTER failed;

ALTER TABLE relay.usage_minute ADD COLUMN IF NOT EXISTS first_delivered SimpleAggregateFunction(sum,UInt64) AFTER first_attempts;

ALTER TABLE relay.mv_usage_minute MODIFY QUERY
SELECT account, toStartOfMinute(toDateTime(at,'UTC')) AS t, endpoint, dest, count() AS attempts, countIf(ok = 1) AS delivered,
       countIf(ok = 0) AS failed, countIf(trigger = 'initial') AS first_attempts,
       countIf(trigger = 'initial' AND ok = 1) AS first_delivered, quantilesTDigestState(0.5,0.95,0.99)(duration_ms) AS lat
FROM relay.attempts GROUP BY account, t, endpoint, dest;

DROP VIEW IF EXISTS relay.mv_event_keys;

DROP VIEW IF EXISTS relay.mv_events_by_endpoint;

ALTER TABLE relay.deliveries ADD COLUMN IF NOT EXISTS behind String CODEC(ZSTD(1)) AFTER code;

ALTER TABLE relay.events ADD COLUMN IF NOT EXISTS mismatch String CODEC(ZSTD(1)) AFTER trace;

ALTER TABLE relay.events ADD INDEX IF NOT EXISTS by_text toValidUTF8(lower(concat(body, headers, base32Encode(concat(toString(toDateTime(ts)), id))))) TYPE ngrambf_v1(4, 65536, 1, 0) GRANULARITY 1;

ALTER TABLE relay.events MATERIALIZE INDEX by_text SETTINGS mutations_sync = 0;

