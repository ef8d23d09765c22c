-- ver = (state = 'processed') << 63 | offset in receipts: a late failure cannot replace processed.
CREATE TABLE IF NOT EXISTS {db}.receipts (
  account String, id FixedString(16) CODEC(ZSTD(1)), ts DateTime64(3,'UTC'), state LowCardinality(String), reference String CODEC(ZSTD(1)),
  details String CODEC(ZSTD(1)), at DateTime64(3,'UTC'), ver UInt64
) ENGINE = ReplacingMergeTree(ver) PARTITION BY toYYYYMMDD(ts) ORDER BY (account, id)
TTL {kept} SETTINGS ttl_only_drop_parts = 1, index_granularity = 1024, min_compress_block_size = 4096;
