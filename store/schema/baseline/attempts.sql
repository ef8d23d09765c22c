-- One row per HTTP request to a destination. transformation_version is 0 if the body was sent as it is stored.
CREATE TABLE IF NOT EXISTS {db}.attempts (
  account String, id FixedString(16) CODEC(ZSTD(1)), ts DateTime64(3,'UTC') CODEC(DoubleDelta,ZSTD(1)), dest String CODEC(ZSTD(1)),
  attempt FixedString(16) CODEC(ZSTD(1)), endpoint String CODEC(ZSTD(1)), at DateTime64(3,'UTC') CODEC(Delta,ZSTD(1)),
  trigger LowCardinality(String), run String CODEC(ZSTD(1)), ok UInt8, code UInt16, error_code LowCardinality(String),
  error_message String CODEC(ZSTD(1)), duration_ms UInt32 CODEC(T64,ZSTD(1)), ttfb_ms UInt32 CODEC(T64,ZSTD(1)),
  next_at DateTime64(3,'UTC') CODEC(ZSTD(1)), retry_after_s UInt32, remote_ip IPv6 CODEC(ZSTD(1)),
  url LowCardinality(String), method LowCardinality(String), req_headers String CODEC(ZSTD(1)), transformation_version UInt32,
  resp_headers String CODEC(ZSTD(1)), resp_body String CODEC(ZSTD(1)), resp_truncated UInt8,
  trace String CODEC(ZSTD(1))
) ENGINE = ReplacingMergeTree PARTITION BY toYYYYMMDD(ts) ORDER BY (account, id, dest, attempt)
TTL {kept} SETTINGS ttl_only_drop_parts = 1, index_granularity = 1024, min_compress_block_size = 4096;
