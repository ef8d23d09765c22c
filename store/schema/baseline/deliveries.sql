-- Latest outcome of each (event, destination). No row = pending. ver = ms << 80 | rank << 64 | 1 + offset in outcomes; ms is the
-- time of the run, or that of a delivered outcome if it is later; the pending row of a command ends in 0. skipped is why a run
-- skipped the delivery: status and reason are then those from before the run.
CREATE TABLE IF NOT EXISTS {db}.deliveries (
  account String, id FixedString(16) CODEC(ZSTD(1)), ts DateTime64(3,'UTC') CODEC(DoubleDelta,ZSTD(1)), dest String CODEC(ZSTD(1)),
  endpoint String CODEC(ZSTD(1)), type LowCardinality(String), status LowCardinality(String), reason LowCardinality(String),
  skipped LowCardinality(String), code UInt16, next_at DateTime64(3,'UTC') CODEC(ZSTD(1)), last_at DateTime64(3,'UTC') CODEC(ZSTD(1)),
  run String CODEC(ZSTD(1)), ver UInt128 CODEC(ZSTD(1)),
  INDEX by_dest dest TYPE bloom_filter(0.01) GRANULARITY 1
) ENGINE = ReplacingMergeTree(ver) PARTITION BY toYYYYMMDD(ts) ORDER BY (account, id, dest)
TTL {kept} SETTINGS ttl_only_drop_parts = 1, index_granularity = 1024, min_compress_block_size = 4096;
