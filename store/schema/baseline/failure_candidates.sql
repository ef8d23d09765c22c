-- Candidates for lists of failed, retrying or held deliveries of all endpoints: the state of every delivery that ever failed,
-- waited or was held, sorted by event. A delivery that succeeded later is there as delivered, except for a few that the writer
-- could not recognise, and a row that a newer one has replaced may be found by its old status. So deliveries FINAL decides.
CREATE TABLE IF NOT EXISTS {db}.failure_candidates (
  account String, id FixedString(16) CODEC(ZSTD(1)), dest String CODEC(ZSTD(1)), ts DateTime64(3,'UTC') CODEC(DoubleDelta,ZSTD(1)),
  endpoint String CODEC(ZSTD(1)), type LowCardinality(String), status LowCardinality(String), ver UInt128 CODEC(ZSTD(1)),
  INDEX by_status status TYPE set(8) GRANULARITY 1, INDEX by_type type TYPE set(64) GRANULARITY 1
) ENGINE = ReplacingMergeTree(ver) PARTITION BY toYYYYMM(ts) ORDER BY (account, id, dest)
TTL {kept} SETTINGS ttl_only_drop_parts = 1, index_granularity = 1024;
