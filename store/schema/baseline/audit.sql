-- Who changed what, and which API key was used when: one row per change, and one per key, node and hour of use, of which the row
-- with the highest ver is the newest. It does not follow the retention of events: it is kept for 400 days.
CREATE TABLE IF NOT EXISTS {db}.audit (
  account String, id FixedString(16) CODEC(ZSTD(1)), at DateTime64(3,'UTC') CODEC(Delta,ZSTD(1)), actor_type LowCardinality(String),
  actor String CODEC(ZSTD(1)), actor_name String CODEC(ZSTD(1)), action LowCardinality(String), entity_type LowCardinality(String),
  entity String CODEC(ZSTD(1)), changes Array(String) CODEC(ZSTD(1)), request_id String CODEC(ZSTD(1)), remote_ip IPv6 CODEC(ZSTD(1)),
  related String CODEC(ZSTD(1)), node LowCardinality(String), count UInt64 CODEC(T64,ZSTD(1)), last_at DateTime64(3,'UTC') CODEC(ZSTD(1)), ver UInt64 CODEC(ZSTD(1))
) ENGINE = ReplacingMergeTree(ver) PARTITION BY toYYYYMM(at) ORDER BY (account, id) TTL toDateTime(at) + INTERVAL 400 DAY DELETE;
