-- One row per stored event; never updated. Read without FINAL: equal ids are adjacent.
CREATE TABLE IF NOT EXISTS {db}.events (
  account String, id FixedString(16) CODEC(ZSTD(1)), ts DateTime64(3,'UTC') CODEC(DoubleDelta,ZSTD(1)),
  endpoint String CODEC(ZSTD(1)), type LowCardinality(String), source LowCardinality(String),
  verdict LowCardinality(String), reason LowCardinality(String), duplicate_of FixedString(16) CODEC(ZSTD(1)),
  dests Array(String) CODEC(ZSTD(1)), method LowCardinality(String), query String CODEC(ZSTD(1)), content_type LowCardinality(String),
  remote_ip IPv6 CODEC(ZSTD(1)), idempotency_key String CODEC(ZSTD(1)), size UInt32 CODEC(T64,ZSTD(1)),
  headers String CODEC(ZSTD(1)), body String CODEC(ZSTD(1)), billed UInt8,
  kp UInt16, ko UInt64 CODEC(Delta,ZSTD(1))
) ENGINE = ReplacingMergeTree PARTITION BY toYYYYMMDD(ts) ORDER BY (account, id)
TTL toDateTime(ts) + INTERVAL {days} DAY DELETE SETTINGS ttl_only_drop_parts = 1, index_granularity = 1024;

-- The same events in the order of their endpoints, for lists of one endpoint.
CREATE TABLE IF NOT EXISTS {db}.events_by_endpoint (
  account String, endpoint String, id FixedString(16) CODEC(ZSTD(1)), ts DateTime64(3,'UTC') CODEC(DoubleDelta,ZSTD(1)),
  type LowCardinality(String), source LowCardinality(String), size UInt32 CODEC(T64,ZSTD(1))
) ENGINE = ReplacingMergeTree PARTITION BY toYYYYMMDD(ts) ORDER BY (account, endpoint, id)
TTL toDateTime(ts) + INTERVAL {days} DAY DELETE SETTINGS ttl_only_drop_parts = 1, index_granularity = 512;

CREATE MATERIALIZED VIEW IF NOT EXISTS {db}.mv_events_by_endpoint TO {db}.events_by_endpoint AS
SELECT account, endpoint, id, ts, type, source, size FROM {db}.events;
