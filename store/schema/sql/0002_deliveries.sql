-- Latest outcome of each (event, destination). No row = pending. ver = ms << 80 | rank << 64 | 1 + offset in outcomes;
-- ms is that of the run, or of the delivery when it was proven later; a command's pending row ends in 0.
CREATE TABLE IF NOT EXISTS {db}.deliveries (
  account String, id FixedString(16) CODEC(ZSTD(1)), ts DateTime64(3,'UTC') CODEC(DoubleDelta,ZSTD(1)), dest String CODEC(ZSTD(1)),
  endpoint String CODEC(ZSTD(1)), type LowCardinality(String), status LowCardinality(String), reason LowCardinality(String),
  code UInt16, next_at DateTime64(3,'UTC') CODEC(ZSTD(1)), last_at DateTime64(3,'UTC') CODEC(ZSTD(1)), run String CODEC(ZSTD(1)),
  ver UInt128 CODEC(ZSTD(1))
) ENGINE = ReplacingMergeTree(ver) PARTITION BY toYYYYMMDD(ts) ORDER BY (account, id, dest)
TTL toDateTime(ts) + INTERVAL {days} DAY DELETE SETTINGS ttl_only_drop_parts = 1, index_granularity = 1024;

-- Candidates for the failed, retrying and held lists, replay and recovery. It nominates; deliveries FINAL answers.
CREATE TABLE IF NOT EXISTS {db}.delivery_trouble (
  account String, endpoint String, id FixedString(16) CODEC(ZSTD(1)), dest String CODEC(ZSTD(1)), ts DateTime64(3,'UTC') CODEC(DoubleDelta,ZSTD(1))
) ENGINE = ReplacingMergeTree PARTITION BY toYYYYMM(ts) ORDER BY (account, endpoint, id, dest)
TTL toDateTime(ts) + INTERVAL {days} DAY DELETE SETTINGS ttl_only_drop_parts = 1, index_granularity = 1024;

CREATE MATERIALIZED VIEW IF NOT EXISTS {db}.mv_delivery_trouble TO {db}.delivery_trouble AS
SELECT account, endpoint, id, dest, ts FROM {db}.deliveries WHERE status NOT IN ('delivered', 'skipped');

-- One row per HTTP request to a destination.
CREATE TABLE IF NOT EXISTS {db}.attempts (
  account String, id FixedString(16) CODEC(ZSTD(1)), ts DateTime64(3,'UTC') CODEC(DoubleDelta,ZSTD(1)), dest String CODEC(ZSTD(1)),
  att FixedString(16) CODEC(ZSTD(1)), endpoint String CODEC(ZSTD(1)), at DateTime64(3,'UTC') CODEC(Delta,ZSTD(1)),
  trigger LowCardinality(String), run String CODEC(ZSTD(1)), ok UInt8, code UInt16, error_code LowCardinality(String),
  error_message String CODEC(ZSTD(1)), duration_ms UInt32 CODEC(T64,ZSTD(1)), ttfb_ms UInt32 CODEC(T64,ZSTD(1)),
  next_at DateTime64(3,'UTC') CODEC(ZSTD(1)), retry_after_s UInt32, remote_ip IPv6 CODEC(ZSTD(1)),
  url LowCardinality(String), method LowCardinality(String), req_headers String CODEC(ZSTD(1)), transform_version UInt32,
  resp_headers String CODEC(ZSTD(1)), resp_body String CODEC(ZSTD(1)), resp_truncated UInt8
) ENGINE = ReplacingMergeTree PARTITION BY toYYYYMMDD(ts) ORDER BY (account, id, dest, att)
TTL toDateTime(ts) + INTERVAL {days} DAY DELETE SETTINGS ttl_only_drop_parts = 1, index_granularity = 1024;

-- ver = (state = 'processed') << 63 | offset in receipts: a late failure cannot win over processed.
CREATE TABLE IF NOT EXISTS {db}.receipts (
  account String, id FixedString(16) CODEC(ZSTD(1)), ts DateTime64(3,'UTC'), state LowCardinality(String), reference String CODEC(ZSTD(1)),
  details String CODEC(ZSTD(1)), at DateTime64(3,'UTC'), ver UInt64
) ENGINE = ReplacingMergeTree(ver) PARTITION BY toYYYYMMDD(ts) ORDER BY (account, id)
TTL toDateTime(ts) + INTERVAL {days} DAY DELETE SETTINGS ttl_only_drop_parts = 1, index_granularity = 1024;
