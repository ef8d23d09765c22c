CREATE DATABASE IF NOT EXISTS relay ON CLUSTER 'relay';

CREATE TABLE IF NOT EXISTS relay.schema_version ON CLUSTER 'relay' (version UInt32, name String, at DateTime('UTC'), program String, checksum String) ENGINE = ReplicatedReplacingMergeTree('/clickhouse/tables/all/relay/schema_version', '{shard}-{replica}') ORDER BY version;

ALTER TABLE relay.schema_version ON CLUSTER 'relay' ADD COLUMN IF NOT EXISTS program String, ADD COLUMN IF NOT EXISTS checksum String;

CREATE TABLE IF NOT EXISTS relay.shard ON CLUSTER 'relay' (number UInt32, of UInt32, at DateTime('UTC')) ENGINE = ReplicatedReplacingMergeTree('/clickhouse/tables/{shard}/relay/shard', '{replica}') ORDER BY (number, of);

CREATE TABLE IF NOT EXISTS relay.events ON CLUSTER 'relay' (
  account String, id FixedString(16) CODEC(ZSTD(1)), ts DateTime64(3,'UTC') CODEC(DoubleDelta,ZSTD(1)),
  endpoint String CODEC(ZSTD(1)), type LowCardinality(String), source LowCardinality(String),
  verdict LowCardinality(String), reason LowCardinality(String), duplicate_of FixedString(16) CODEC(ZSTD(1)),
  dests Array(String) CODEC(ZSTD(1)), method LowCardinality(String), query String CODEC(ZSTD(1)), content_type LowCardinality(String),
  remote_ip IPv6 CODEC(ZSTD(1)), idempotency_key String CODEC(ZSTD(1)), size UInt32 CODEC(T64,ZSTD(1)),
  headers String CODEC(ZSTD(1)), body String CODEC(ZSTD(1)), billed UInt8,
  kp UInt16, ko UInt64 CODEC(Delta,ZSTD(1))
) ENGINE = ReplicatedReplacingMergeTree('/clickhouse/tables/{shard}/relay/events', '{replica}') PARTITION BY toYYYYMMDD(ts) ORDER BY (account, id)
TTL toDateTime(ts) + INTERVAL 30 DAY DELETE SETTINGS ttl_only_drop_parts = 1, index_granularity = 1024;

CREATE TABLE IF NOT EXISTS relay.events_all ON CLUSTER 'relay' AS relay.events ENGINE = Distributed('relay', 'relay', 'events', bitShiftRight(reinterpretAsUInt16(reverse(substring(id, 7, 2))), 4));

CREATE TABLE IF NOT EXISTS relay.events_by_endpoint ON CLUSTER 'relay' (
  account String, endpoint String, id FixedString(16) CODEC(ZSTD(1)), ts DateTime64(3,'UTC') CODEC(DoubleDelta,ZSTD(1)),
  type LowCardinality(String), source LowCardinality(String), size UInt32 CODEC(T64,ZSTD(1))
) ENGINE = ReplicatedReplacingMergeTree('/clickhouse/tables/{shard}/relay/events_by_endpoint', '{replica}') PARTITION BY toYYYYMMDD(ts) ORDER BY (account, endpoint, id)
TTL toDateTime(ts) + INTERVAL 30 DAY DELETE SETTINGS ttl_only_drop_parts = 1, index_granularity = 512;

CREATE TABLE IF NOT EXISTS relay.events_by_endpoint_all ON CLUSTER 'relay' AS relay.events_by_endpoint ENGINE = Distributed('relay', 'relay', 'events_by_endpoint', bitShiftRight(reinterpretAsUInt16(reverse(substring(id, 7, 2))), 4));

CREATE MATERIALIZED VIEW IF NOT EXISTS relay.mv_events_by_endpoint ON CLUSTER 'relay' TO relay.events_by_endpoint AS
SELECT account, endpoint, id, ts, type, source, size FROM relay.events;

CREATE TABLE IF NOT EXISTS relay.deliveries ON CLUSTER 'relay' (
  account String, id FixedString(16) CODEC(ZSTD(1)), ts DateTime64(3,'UTC') CODEC(DoubleDelta,ZSTD(1)), dest String CODEC(ZSTD(1)),
  endpoint String CODEC(ZSTD(1)), type LowCardinality(String), status LowCardinality(String), reason LowCardinality(String),
  code UInt16, next_at DateTime64(3,'UTC') CODEC(ZSTD(1)), last_at DateTime64(3,'UTC') CODEC(ZSTD(1)), run String CODEC(ZSTD(1)),
  ver UInt128 CODEC(ZSTD(1))
) ENGINE = ReplicatedReplacingMergeTree('/clickhouse/tables/{shard}/relay/deliveries', '{replica}', ver) PARTITION BY toYYYYMMDD(ts) ORDER BY (account, id, dest)
TTL toDateTime(ts) + INTERVAL 30 DAY DELETE SETTINGS ttl_only_drop_parts = 1, index_granularity = 1024;

CREATE TABLE IF NOT EXISTS relay.deliveries_all ON CLUSTER 'relay' AS relay.deliveries ENGINE = Distributed('relay', 'relay', 'deliveries', bitShiftRight(reinterpretAsUInt16(reverse(substring(id, 7, 2))), 4));

CREATE TABLE IF NOT EXISTS relay.delivery_trouble ON CLUSTER 'relay' (
  account String, endpoint String, id FixedString(16) CODEC(ZSTD(1)), dest String CODEC(ZSTD(1)), ts DateTime64(3,'UTC') CODEC(DoubleDelta,ZSTD(1))
) ENGINE = ReplicatedReplacingMergeTree('/clickhouse/tables/{shard}/relay/delivery_trouble', '{replica}') PARTITION BY toYYYYMM(ts) ORDER BY (account, endpoint, id, dest)
TTL toDateTime(ts) + INTERVAL 30 DAY DELETE SETTINGS ttl_only_drop_parts = 1, index_granularity = 1024;

CREATE TABLE IF NOT EXISTS relay.delivery_trouble_all ON CLUSTER 'relay' AS relay.delivery_trouble ENGINE = Distributed('relay', 'relay', 'delivery_trouble', bitShiftRight(reinterpretAsUInt16(reverse(substring(id, 7, 2))), 4));

CREATE MATERIALIZED VIEW IF NOT EXISTS relay.mv_delivery_trouble ON CLUSTER 'relay' TO relay.delivery_trouble AS
SELECT account, endpoint, id, dest, ts FROM relay.deliveries WHERE status NOT IN ('delivered', 'skipped');

CREATE TABLE IF NOT EXISTS relay.attempts ON CLUSTER 'relay' (
  account String, id FixedString(16) CODEC(ZSTD(1)), ts DateTime64(3,'UTC') CODEC(DoubleDelta,ZSTD(1)), dest String CODEC(ZSTD(1)),
  att FixedString(16) CODEC(ZSTD(1)), endpoint String CODEC(ZSTD(1)), at DateTime64(3,'UTC') CODEC(Delta,ZSTD(1)),
  trigger LowCardinality(String), run String CODEC(ZSTD(1)), ok UInt8, code UInt16, error_code LowCardinality(String),
  error_message String CODEC(ZSTD(1)), duration_ms UInt32 CODEC(T64,ZSTD(1)), ttfb_ms UInt32 CODEC(T64,ZSTD(1)),
  next_at DateTime64(3,'UTC') CODEC(ZSTD(1)), retry_after_s UInt32, remote_ip IPv6 CODEC(ZSTD(1)),
  url LowCardinality(String), method LowCardinality(String), req_headers String CODEC(ZSTD(1)), transform_version UInt32,
  resp_headers String CODEC(ZSTD(1)), resp_body String CODEC(ZSTD(1)), resp_truncated UInt8
) ENGINE = ReplicatedReplacingMergeTree('/clickhouse/tables/{shard}/relay/attempts', '{replica}') PARTITION BY toYYYYMMDD(ts) ORDER BY (account, id, dest, att)
TTL toDateTime(ts) + INTERVAL 30 DAY DELETE SETTINGS ttl_only_drop_parts = 1, index_granularity = 1024;

CREATE TABLE IF NOT EXISTS relay.attempts_all ON CLUSTER 'relay' AS relay.attempts ENGINE = Distributed('relay', 'relay', 'attempts', bitShiftRight(reinterpretAsUInt16(reverse(substring(id, 7, 2))), 4));

CREATE TABLE IF NOT EXISTS relay.receipts ON CLUSTER 'relay' (
  account String, id FixedString(16) CODEC(ZSTD(1)), ts DateTime64(3,'UTC'), state LowCardinality(String), reference String CODEC(ZSTD(1)),
  details String CODEC(ZSTD(1)), at DateTime64(3,'UTC'), ver UInt64
) ENGINE = ReplicatedReplacingMergeTree('/clickhouse/tables/{shard}/relay/receipts', '{replica}', ver) PARTITION BY toYYYYMMDD(ts) ORDER BY (account, id)
TTL toDateTime(ts) + INTERVAL 30 DAY DELETE SETTINGS ttl_only_drop_parts = 1, index_granularity = 1024;

CREATE TABLE IF NOT EXISTS relay.receipts_all ON CLUSTER 'relay' AS relay.receipts ENGINE = Distributed('relay', 'relay', 'receipts', bitShiftRight(reinterpretAsUInt16(reverse(substring(id, 7, 2))), 4));

CREATE TABLE IF NOT EXISTS relay.usage_hour ON CLUSTER 'relay' (
  account String, t DateTime('UTC') CODEC(DoubleDelta,ZSTD(1)), endpoint String, received UInt64, sent UInt64, findings UInt64, bytes UInt64, ver UInt64
) ENGINE = ReplicatedReplacingMergeTree('/clickhouse/tables/{shard}/relay/usage_hour', '{replica}', ver) PARTITION BY toYYYYMM(t) ORDER BY (account, t, endpoint) TTL t + INTERVAL 400 DAY DELETE;

CREATE TABLE IF NOT EXISTS relay.usage_hour_all ON CLUSTER 'relay' AS relay.usage_hour ENGINE = Distributed('relay', 'relay', 'usage_hour');

CREATE TABLE IF NOT EXISTS relay.usage_minute ON CLUSTER 'relay' (
  account String, t DateTime('UTC') CODEC(DoubleDelta,ZSTD(1)), endpoint String, dest String,
  attempts SimpleAggregateFunction(sum,UInt64), delivered SimpleAggregateFunction(sum,UInt64), failed SimpleAggregateFunction(sum,UInt64),
  lat AggregateFunction(quantilesTDigest(0.5,0.95,0.99),UInt32)
) ENGINE = ReplicatedAggregatingMergeTree('/clickhouse/tables/{shard}/relay/usage_minute', '{replica}') PARTITION BY toYYYYMMDD(t) ORDER BY (account, t, endpoint, dest) TTL t + INTERVAL 35 DAY DELETE;

CREATE TABLE IF NOT EXISTS relay.usage_minute_all ON CLUSTER 'relay' AS relay.usage_minute ENGINE = Distributed('relay', 'relay', 'usage_minute');

CREATE MATERIALIZED VIEW IF NOT EXISTS relay.mv_usage_minute ON CLUSTER 'relay' TO relay.usage_minute AS
SELECT account, toStartOfMinute(toDateTime(at,'UTC')) AS t, endpoint, dest, count() AS attempts, countIf(ok = 1) AS delivered,
       countIf(ok = 0) AS failed, quantilesTDigestState(0.5,0.95,0.99)(duration_ms) AS lat
FROM relay.attempts GROUP BY account, t, endpoint, dest;

CREATE TABLE IF NOT EXISTS relay.receipt_firsts ON CLUSTER 'relay' (
  account String, id FixedString(16) CODEC(ZSTD(1)), ts DateTime64(3,'UTC') CODEC(DoubleDelta,ZSTD(1)),
  first_at SimpleAggregateFunction(min,DateTime64(3,'UTC')), processed SimpleAggregateFunction(min,UInt64)
) ENGINE = ReplicatedAggregatingMergeTree('/clickhouse/tables/{shard}/relay/receipt_firsts', '{replica}') PARTITION BY toYYYYMMDD(ts) ORDER BY (account, id)
TTL toDateTime(ts) + INTERVAL 30 DAY DELETE SETTINGS ttl_only_drop_parts = 1, index_granularity = 1024;

CREATE TABLE IF NOT EXISTS relay.receipt_firsts_all ON CLUSTER 'relay' AS relay.receipt_firsts ENGINE = Distributed('relay', 'relay', 'receipt_firsts', bitShiftRight(reinterpretAsUInt16(reverse(substring(id, 7, 2))), 4));

CREATE MATERIALIZED VIEW IF NOT EXISTS relay.mv_receipt_firsts ON CLUSTER 'relay' TO relay.receipt_firsts AS
SELECT account, id, ts, min(at) AS first_at, min(if(state = 'processed', ver, 18446744073709551615)) AS processed
FROM relay.receipts GROUP BY account, id, ts;

CREATE TABLE IF NOT EXISTS relay.audit ON CLUSTER 'relay' (
  account String, id FixedString(16) CODEC(ZSTD(1)), at DateTime64(3,'UTC') CODEC(Delta,ZSTD(1)), actor_type LowCardinality(String),
  actor String CODEC(ZSTD(1)), actor_name String CODEC(ZSTD(1)), action LowCardinality(String), entity_type LowCardinality(String),
  entity String CODEC(ZSTD(1)), changes Array(String) CODEC(ZSTD(1)), request_id String CODEC(ZSTD(1)), remote_ip IPv6 CODEC(ZSTD(1)),
  node LowCardinality(String), count UInt64 CODEC(T64,ZSTD(1)), last_at DateTime64(3,'UTC') CODEC(ZSTD(1)), ver UInt64 CODEC(ZSTD(1))
) ENGINE = ReplicatedReplacingMergeTree('/clickhouse/tables/{shard}/relay/audit', '{replica}', ver) PARTITION BY toYYYYMM(at) ORDER BY (account, id) TTL toDateTime(at) + INTERVAL 400 DAY DELETE;

CREATE TABLE IF NOT EXISTS relay.audit_all ON CLUSTER 'relay' AS relay.audit ENGINE = Distributed('relay', 'relay', 'audit', bitShiftRight(reinterpretAsUInt16(reverse(substring(id, 7, 2))), 4));

CREATE TABLE IF NOT EXISTS relay.key_uses ON CLUSTER 'relay' (
  account String, key String, at DateTime64(3,'UTC'), node LowCardinality(String), remote_ip IPv6, ver UInt64
) ENGINE = ReplicatedReplacingMergeTree('/clickhouse/tables/{shard}/relay/key_uses', '{replica}', ver) ORDER BY (account, key);

CREATE TABLE IF NOT EXISTS relay.key_uses_all ON CLUSTER 'relay' AS relay.key_uses ENGINE = Distributed('relay', 'relay', 'key_uses');

CREATE MATERIALIZED VIEW IF NOT EXISTS relay.mv_key_uses ON CLUSTER 'relay' TO relay.key_uses AS
SELECT account, entity AS key, last_at AS at, node, remote_ip, ver FROM relay.audit WHERE action = 'key.used';

ALTER TABLE relay.deliveries ON CLUSTER 'relay' ADD COLUMN IF NOT EXISTS skipped LowCardinality(String) AFTER reason;

ALTER TABLE relay.deliveries_all ON CLUSTER 'relay' ADD COLUMN IF NOT EXISTS skipped LowCardinality(String) AFTER reason;

CREATE TABLE IF NOT EXISTS relay.run_deliveries ON CLUSTER 'relay' (
  account String, run String, id FixedString(16) CODEC(ZSTD(1)), dest String CODEC(ZSTD(1)), ts DateTime64(3,'UTC') CODEC(DoubleDelta,ZSTD(1)),
  status LowCardinality(String), reason LowCardinality(String), skipped LowCardinality(String), code UInt16,
  last_at DateTime64(3,'UTC') CODEC(ZSTD(1)), ver UInt128 CODEC(ZSTD(1))
) ENGINE = ReplicatedReplacingMergeTree('/clickhouse/tables/{shard}/relay/run_deliveries', '{replica}', ver) PARTITION BY toYYYYMM(ts) ORDER BY (account, run, id, dest)
TTL toDateTime(last_at) + INTERVAL 32 DAY DELETE;

CREATE TABLE IF NOT EXISTS relay.run_deliveries_all ON CLUSTER 'relay' AS relay.run_deliveries ENGINE = Distributed('relay', 'relay', 'run_deliveries', bitShiftRight(reinterpretAsUInt16(reverse(substring(id, 7, 2))), 4));

CREATE MATERIALIZED VIEW IF NOT EXISTS relay.mv_run_deliveries ON CLUSTER 'relay' TO relay.run_deliveries AS
SELECT account, run, id, dest, ts, status, reason, skipped, code, last_at,
       ver + if(status = 'failed' AND skipped = '', bitShiftLeft(toUInt128(1), 63), toUInt128(0)) AS ver
FROM relay.deliveries WHERE run != '';

CREATE TABLE IF NOT EXISTS relay.recovery_items ON CLUSTER 'relay' (
  account String, selection String, seq UInt32, id FixedString(16) CODEC(ZSTD(1)), dest String CODEC(ZSTD(1)), ts DateTime64(3,'UTC') CODEC(DoubleDelta,ZSTD(1)),
  skipped_reason LowCardinality(String), created DateTime('UTC')
) ENGINE = ReplicatedReplacingMergeTree('/clickhouse/tables/{shard}/relay/recovery_items', '{replica}') PARTITION BY toYYYYMM(created) ORDER BY (account, selection, seq) TTL created + INTERVAL 32 DAY DELETE;

CREATE TABLE IF NOT EXISTS relay.recovery_items_all ON CLUSTER 'relay' AS relay.recovery_items ENGINE = Distributed('relay', 'relay', 'recovery_items', bitShiftRight(reinterpretAsUInt16(reverse(substring(id, 7, 2))), 4));

ALTER TABLE relay.events ON CLUSTER 'relay' ADD INDEX IF NOT EXISTS by_type type TYPE set(64) GRANULARITY 1;

ALTER TABLE relay.events ON CLUSTER 'relay' ADD INDEX IF NOT EXISTS by_source source TYPE set(8) GRANULARITY 1;

ALTER TABLE relay.events ON CLUSTER 'relay' ADD INDEX IF NOT EXISTS by_verdict verdict TYPE set(8) GRANULARITY 1;

ALTER TABLE relay.events ON CLUSTER 'relay' ADD INDEX IF NOT EXISTS by_dest dests TYPE bloom_filter(0.01) GRANULARITY 1;

ALTER TABLE relay.events_by_endpoint ON CLUSTER 'relay' ADD INDEX IF NOT EXISTS by_type type TYPE set(64) GRANULARITY 1;

ALTER TABLE relay.events_by_endpoint ON CLUSTER 'relay' ADD INDEX IF NOT EXISTS by_source source TYPE set(8) GRANULARITY 1;

ALTER TABLE relay.deliveries ON CLUSTER 'relay' ADD INDEX IF NOT EXISTS by_dest dest TYPE bloom_filter(0.01) GRANULARITY 1;

ALTER TABLE relay.deliveries ON CLUSTER 'relay' ADD COLUMN IF NOT EXISTS again UInt8 DEFAULT 1 AFTER run;

ALTER TABLE relay.deliveries_all ON CLUSTER 'relay' ADD COLUMN IF NOT EXISTS again UInt8 DEFAULT 1 AFTER run;

CREATE TABLE IF NOT EXISTS relay.troubled ON CLUSTER 'relay' (
  account String, id FixedString(16) CODEC(ZSTD(1)), dest String CODEC(ZSTD(1)), ts DateTime64(3,'UTC') CODEC(DoubleDelta,ZSTD(1)),
  endpoint String CODEC(ZSTD(1)), type LowCardinality(String), status LowCardinality(String), ver UInt128 CODEC(ZSTD(1))
) ENGINE = ReplicatedReplacingMergeTree('/clickhouse/tables/{shard}/relay/troubled', '{replica}', ver) PARTITION BY toYYYYMM(ts) ORDER BY (account, id, dest)
TTL toDateTime(ts) + INTERVAL 30 DAY DELETE SETTINGS ttl_only_drop_parts = 1, index_granularity = 1024;

CREATE TABLE IF NOT EXISTS relay.troubled_all ON CLUSTER 'relay' AS relay.troubled ENGINE = Distributed('relay', 'relay', 'troubled', bitShiftRight(reinterpretAsUInt16(reverse(substring(id, 7, 2))), 4));

CREATE MATERIALIZED VIEW IF NOT EXISTS relay.mv_troubled ON CLUSTER 'relay' TO relay.troubled AS
SELECT account, id, dest, ts, endpoint, type, status, ver FROM relay.deliveries WHERE again = 1 OR status NOT IN ('delivered', 'skipped');

INSERT INTO relay.troubled (account, id, dest, ts, endpoint, type, status, ver)
SELECT account, id, dest, ts, endpoint, type, status, ver FROM relay.deliveries FINAL WHERE status NOT IN ('delivered', 'skipped');

CREATE TABLE IF NOT EXISTS relay.requests_hour ON CLUSTER 'relay' (
  account String, t DateTime('UTC') CODEC(DoubleDelta,ZSTD(1)), endpoint String,
  attempts SimpleAggregateFunction(sum,UInt64), delivered SimpleAggregateFunction(sum,UInt64), failed SimpleAggregateFunction(sum,UInt64)
) ENGINE = ReplicatedAggregatingMergeTree('/clickhouse/tables/{shard}/relay/requests_hour', '{replica}') PARTITION BY toYYYYMM(t) ORDER BY (account, t, endpoint) TTL t + INTERVAL 400 DAY DELETE;

CREATE TABLE IF NOT EXISTS relay.requests_hour_all ON CLUSTER 'relay' AS relay.requests_hour ENGINE = Distributed('relay', 'relay', 'requests_hour');

CREATE MATERIALIZED VIEW IF NOT EXISTS relay.mv_requests_hour ON CLUSTER 'relay' TO relay.requests_hour AS
SELECT account, toStartOfHour(toDateTime(at,'UTC')) AS t, endpoint, count() AS attempts, countIf(ok = 1) AS delivered, countIf(ok = 0) AS failed
FROM relay.attempts GROUP BY account, t, endpoint;

INSERT INTO relay.requests_hour (account, t, endpoint, attempts, delivered, failed)
SELECT account, toStartOfHour(t) AS hour, endpoint, sum(attempts), sum(delivered), sum(failed) FROM relay.usage_minute
WHERE t < toStartOfHour(now('UTC')) AND (SELECT count() FROM relay.requests_hour WHERE t < toStartOfHour(now('UTC'))) = 0 GROUP BY account, hour, endpoint;

ALTER TABLE relay.events ON CLUSTER 'relay' MODIFY SETTING min_compress_block_size = 4096;

ALTER TABLE relay.events_by_endpoint ON CLUSTER 'relay' MODIFY SETTING min_compress_block_size = 4096;

ALTER TABLE relay.deliveries ON CLUSTER 'relay' MODIFY SETTING min_compress_block_size = 4096;

ALTER TABLE relay.attempts ON CLUSTER 'relay' MODIFY SETTING min_compress_block_size = 4096;

ALTER TABLE relay.receipts ON CLUSTER 'relay' MODIFY SETTING min_compress_block_size = 4096;

ALTER TABLE relay.events_by_endpoint ON CLUSTER 'relay' ADD COLUMN IF NOT EXISTS verdict LowCardinality(String) AFTER source;

ALTER TABLE relay.events_by_endpoint_all ON CLUSTER 'relay' ADD COLUMN IF NOT EXISTS verdict LowCardinality(String) AFTER source;

ALTER TABLE relay.events_by_endpoint ON CLUSTER 'relay' ADD COLUMN IF NOT EXISTS reason LowCardinality(String) AFTER verdict;

ALTER TABLE relay.events_by_endpoint_all ON CLUSTER 'relay' ADD COLUMN IF NOT EXISTS reason LowCardinality(String) AFTER verdict;

ALTER TABLE relay.events_by_endpoint ON CLUSTER 'relay' ADD COLUMN IF NOT EXISTS duplicate_of FixedString(16) CODEC(ZSTD(1)) AFTER reason;

ALTER TABLE relay.events_by_endpoint_all ON CLUSTER 'relay' ADD COLUMN IF NOT EXISTS duplicate_of FixedString(16) CODEC(ZSTD(1)) AFTER reason;

ALTER TABLE relay.events_by_endpoint ON CLUSTER 'relay' ADD COLUMN IF NOT EXISTS dests Array(String) CODEC(ZSTD(1)) AFTER duplicate_of;

ALTER TABLE relay.events_by_endpoint_all ON CLUSTER 'relay' ADD COLUMN IF NOT EXISTS dests Array(String) CODEC(ZSTD(1)) AFTER duplicate_of;

ALTER TABLE relay.events_by_endpoint ON CLUSTER 'relay' ADD COLUMN IF NOT EXISTS whole UInt8 AFTER size;

ALTER TABLE relay.events_by_endpoint_all ON CLUSTER 'relay' ADD COLUMN IF NOT EXISTS whole UInt8 AFTER size;

ALTER TABLE relay.mv_events_by_endpoint ON CLUSTER 'relay' MODIFY QUERY
SELECT account, endpoint, id, ts, type, source, verdict, reason, duplicate_of, dests, size, 1 AS whole FROM relay.events;

CREATE TABLE IF NOT EXISTS relay.event_keys ON CLUSTER 'relay' (
  account String, key String CODEC(ZSTD(1)), id FixedString(16) CODEC(ZSTD(1)), ts DateTime64(3,'UTC') CODEC(DoubleDelta,ZSTD(1))
) ENGINE = ReplicatedReplacingMergeTree('/clickhouse/tables/{shard}/relay/event_keys', '{replica}') PARTITION BY toYYYYMMDD(ts) ORDER BY (account, key, id)
TTL toDateTime(ts) + INTERVAL 30 DAY DELETE SETTINGS ttl_only_drop_parts = 1, index_granularity = 512, min_compress_block_size = 4096;

CREATE TABLE IF NOT EXISTS relay.event_keys_all ON CLUSTER 'relay' AS relay.event_keys ENGINE = Distributed('relay', 'relay', 'event_keys', bitShiftRight(reinterpretAsUInt16(reverse(substring(id, 7, 2))), 4));

CREATE MATERIALIZED VIEW IF NOT EXISTS relay.mv_event_keys ON CLUSTER 'relay' TO relay.event_keys AS
SELECT account, arrayJoin(arrayPushBack(arrayMap(d -> concat('dest:', d), if(empty(dests) AND verdict != 'rejected', [''], dests)), concat('type:', type))) AS key, id, ts FROM relay.events;

CREATE MATERIALIZED VIEW IF NOT EXISTS relay.mv_event_keys_of_runs ON CLUSTER 'relay' TO relay.event_keys AS
SELECT account, concat('dest:', dest) AS key, id, ts FROM relay.deliveries WHERE run != '';

INSERT INTO relay.event_keys (account, key, id, ts)
SELECT account, arrayJoin(arrayPushBack(arrayMap(d -> concat('dest:', d), if(empty(dests) AND verdict != 'rejected', [''], dests)), concat('type:', type))) AS key, id, ts FROM relay.events
SETTINGS max_partitions_per_insert_block = 0;

INSERT INTO relay.event_keys (account, key, id, ts)
SELECT account, concat('dest:', dest) AS key, id, ts FROM relay.deliveries WHERE run != '' SETTINGS max_partitions_per_insert_block = 0;

INSERT INTO relay.troubled (account, id, dest, ts, endpoint, type, status, ver)
SELECT account, id, dest, ts, endpoint, type, status, ver FROM relay.deliveries FINAL WHERE status = 'skipped';

CREATE TABLE IF NOT EXISTS relay.usage_day ON CLUSTER 'relay' (
  account String, t DateTime('UTC') CODEC(DoubleDelta,ZSTD(1)), endpoint String, received UInt64, sent UInt64, findings UInt64, bytes UInt64, ver UInt64
) ENGINE = ReplicatedReplacingMergeTree('/clickhouse/tables/{shard}/relay/usage_day', '{replica}', ver) PARTITION BY toYYYYMM(t) ORDER BY (account, t, endpoint) TTL t + INTERVAL 400 DAY DELETE;

CREATE TABLE IF NOT EXISTS relay.usage_day_all ON CLUSTER 'relay' AS relay.usage_day ENGINE = Distributed('relay', 'relay', 'usage_day');

INSERT INTO relay.usage_day (account, t, endpoint, received, sent, findings, bytes, ver)
SELECT account, toStartOfDay(t) AS day, endpoint, sum(received), sum(sent), sum(findings), sum(bytes), sum(ver) FROM relay.usage_hour FINAL GROUP BY account, day, endpoint;

CREATE TABLE IF NOT EXISTS relay.requests_day ON CLUSTER 'relay' (
  account String, t DateTime('UTC') CODEC(DoubleDelta,ZSTD(1)), endpoint String,
  attempts SimpleAggregateFunction(sum,UInt64), delivered SimpleAggregateFunction(sum,UInt64), failed SimpleAggregateFunction(sum,UInt64)
) ENGINE = ReplicatedAggregatingMergeTree('/clickhouse/tables/{shard}/relay/requests_day', '{replica}') PARTITION BY toYYYYMM(t) ORDER BY (account, t, endpoint) TTL t + INTERVAL 400 DAY DELETE;

CREATE TABLE IF NOT EXISTS relay.requests_day_all ON CLUSTER 'relay' AS relay.requests_day ENGINE = Distributed('relay', 'relay', 'requests_day');

CREATE MATERIALIZED VIEW IF NOT EXISTS relay.mv_requests_day ON CLUSTER 'relay' TO relay.requests_day AS
SELECT account, toStartOfDay(toDateTime(at,'UTC')) AS t, endpoint, count() AS attempts, countIf(ok = 1) AS delivered, countIf(ok = 0) AS failed
FROM relay.attempts GROUP BY account, t, endpoint;

INSERT INTO relay.requests_day (account, t, endpoint, attempts, delivered, failed)
SELECT account, toStartOfDay(t) AS day, endpoint, sum(attempts), sum(delivered), sum(failed) FROM relay.requests_hour
WHERE t < toStartOfHour(now('UTC')) AND (SELECT count() FROM relay.requests_day WHERE t < toStartOfDay(now('UTC'))) = 0 GROUP BY account, day, endpoint;

ALTER TABLE relay.troubled ON CLUSTER 'relay' ADD INDEX IF NOT EXISTS by_status status TYPE set(8) GRANULARITY 1;

ALTER TABLE relay.troubled ON CLUSTER 'relay' ADD INDEX IF NOT EXISTS by_type type TYPE set(64) GRANULARITY 1;

ALTER TABLE relay.recovery_items ON CLUSTER 'relay' MODIFY SETTING fsync_after_insert = 1, fsync_part_directory = 1;

CREATE TABLE IF NOT EXISTS relay.attempts_hour ON CLUSTER 'relay' (
  account String, t DateTime('UTC') CODEC(DoubleDelta,ZSTD(1)), endpoint String, attempts UInt64, delivered UInt64, failed UInt64
) ENGINE = ReplicatedReplacingMergeTree('/clickhouse/tables/{shard}/relay/attempts_hour', '{replica}', attempts) PARTITION BY toYYYYMM(t) ORDER BY (account, t, endpoint) TTL t + INTERVAL 400 DAY DELETE;

CREATE TABLE IF NOT EXISTS relay.attempts_hour_all ON CLUSTER 'relay' AS relay.attempts_hour ENGINE = Distributed('relay', 'relay', 'attempts_hour');

CREATE TABLE IF NOT EXISTS relay.attempts_day ON CLUSTER 'relay' (
  account String, t DateTime('UTC') CODEC(DoubleDelta,ZSTD(1)), endpoint String, attempts UInt64, delivered UInt64, failed UInt64
) ENGINE = ReplicatedReplacingMergeTree('/clickhouse/tables/{shard}/relay/attempts_day', '{replica}', attempts) PARTITION BY toYYYYMM(t) ORDER BY (account, t, endpoint) TTL t + INTERVAL 400 DAY DELETE;

CREATE TABLE IF NOT EXISTS relay.attempts_day_all ON CLUSTER 'relay' AS relay.attempts_day ENGINE = Distributed('relay', 'relay', 'attempts_day');

INSERT INTO relay.attempts_hour (account, t, endpoint, attempts, delivered, failed)
SELECT account, t, endpoint, sum(requests_hour.attempts), sum(requests_hour.delivered), sum(requests_hour.failed) FROM relay.requests_hour GROUP BY account, t, endpoint;

INSERT INTO relay.attempts_day (account, t, endpoint, attempts, delivered, failed)
SELECT account, t, endpoint, sum(requests_day.attempts), sum(requests_day.delivered), sum(requests_day.failed) FROM relay.requests_day GROUP BY account, t, endpoint;

INSERT INTO relay.attempts_hour (account, t, endpoint, attempts, delivered, failed)
SELECT account, t, endpoint, sum(requests_hour.attempts), sum(requests_hour.delivered), sum(requests_hour.failed) FROM relay.requests_hour GROUP BY account, t, endpoint;

INSERT INTO relay.attempts_day (account, t, endpoint, attempts, delivered, failed)
SELECT account, t, endpoint, sum(requests_day.attempts), sum(requests_day.delivered), sum(requests_day.failed) FROM relay.requests_day GROUP BY account, t, endpoint;

DROP VIEW IF EXISTS relay.mv_requests_hour ON CLUSTER 'relay';

DROP VIEW IF EXISTS relay.mv_requests_day ON CLUSTER 'relay';

DROP VIEW IF EXISTS relay.mv_delivery_trouble ON CLUSTER 'relay';

DROP VIEW IF EXISTS relay.mv_troubled ON CLUSTER 'relay';

DROP VIEW IF EXISTS relay.mv_run_deliveries ON CLUSTER 'relay';

DROP VIEW IF EXISTS relay.mv_event_keys_of_runs ON CLUSTER 'relay';

ALTER TABLE relay.events ON CLUSTER 'relay' ADD INDEX IF NOT EXISTS by_text toValidUTF8(lower(concat(body, headers, base32Encode(concat(toString(toDateTime(ts)), id))))) TYPE ngrambf_v1(4, 65536, 1, 0) GRANULARITY 1;

ALTER TABLE relay.events ON CLUSTER 'relay' MATERIALIZE INDEX by_text SETTINGS mutations_sync = 0;
