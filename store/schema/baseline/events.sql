-- One row per stored event; never updated. Lists read it without FINAL: rows with equal ids are adjacent. A compressed block ends
-- with its granule: a page whose events lie far apart reads one granule of each column per event, and with blocks of 64 KB or
-- more it decompressed four times as much. Skip indexes let lists by rare values skip granules without them.
CREATE TABLE IF NOT EXISTS {db}.events (
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
TTL {kept} SETTINGS ttl_only_drop_parts = 1, index_granularity = 1024, min_compress_block_size = 4096;
