-- The newest outcome of each delivery within a run: a later run, or the automatic retries, do not change it. Its rows outlive the
-- event, because the history of a run is kept for 30 days from its beginning.
CREATE TABLE IF NOT EXISTS {db}.run_deliveries (
  account String, run String, id FixedString(16) CODEC(ZSTD(1)), dest String CODEC(ZSTD(1)), ts DateTime64(3,'UTC') CODEC(DoubleDelta,ZSTD(1)),
  status LowCardinality(String), reason LowCardinality(String), skipped LowCardinality(String), code UInt16,
  last_at DateTime64(3,'UTC') CODEC(ZSTD(1)), ver UInt128 CODEC(ZSTD(1))
) ENGINE = ReplacingMergeTree(ver) PARTITION BY toYYYYMM(ts) ORDER BY (account, run, id, dest)
TTL toDateTime(last_at) + INTERVAL 32 DAY DELETE;
