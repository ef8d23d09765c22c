-- The columns of events that a list shows, sorted by endpoint, for lists of one endpoint.
CREATE TABLE IF NOT EXISTS {db}.events_by_endpoint (
  account String, endpoint String, id FixedString(16) CODEC(ZSTD(1)), ts DateTime64(3,'UTC') CODEC(DoubleDelta,ZSTD(1)),
  type LowCardinality(String), source LowCardinality(String), verdict LowCardinality(String), reason LowCardinality(String),
  duplicate_of FixedString(16) CODEC(ZSTD(1)), dests Array(String) CODEC(ZSTD(1)), size UInt32 CODEC(T64,ZSTD(1)),
  INDEX by_type type TYPE set(64) GRANULARITY 1, INDEX by_source source TYPE set(8) GRANULARITY 1
) ENGINE = ReplacingMergeTree PARTITION BY toYYYYMMDD(ts) ORDER BY (account, endpoint, id)
TTL {kept} SETTINGS ttl_only_drop_parts = 1, index_granularity = 512, min_compress_block_size = 4096;

CREATE MATERIALIZED VIEW IF NOT EXISTS {db}.mv_events_by_endpoint TO {db}.events_by_endpoint AS
SELECT account, endpoint, id, ts, type, source, verdict, reason, duplicate_of, dests, size FROM {db}.events;
