-- What drains and DSNs received, for the pages that show them: one row per sender, node, boot and minute with the count so far.
-- ver = number of the node's report within its boot, so the newest row has the greatest counts. Readers sum over FINAL.
CREATE TABLE IF NOT EXISTS {db}.senders_minute (
  account String, sender String CODEC(ZSTD(1)), t DateTime('UTC') CODEC(DoubleDelta,ZSTD(1)), node LowCardinality(String), boot FixedString(16),
  requests UInt64 CODEC(T64,ZSTD(1)), lines UInt64 CODEC(T64,ZSTD(1)), bytes UInt64 CODEC(T64,ZSTD(1)), hits UInt64 CODEC(T64,ZSTD(1)),
  rejected UInt64 CODEC(T64,ZSTD(1)), last_at DateTime64(3,'UTC') CODEC(ZSTD(1)), platform LowCardinality(String), last_error LowCardinality(String),
  ver UInt64 CODEC(T64,ZSTD(1))
) ENGINE = ReplacingMergeTree(ver) PARTITION BY toYYYYMM(t) ORDER BY (account, sender, t, node, boot) TTL t + INTERVAL 35 DAY DELETE;
