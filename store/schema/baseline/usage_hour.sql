-- The billing figure: counted from events FINAL WHERE billed for every hour with new rows. Never accumulated.
CREATE TABLE IF NOT EXISTS {db}.usage_hour (
  account String, t DateTime('UTC') CODEC(DoubleDelta,ZSTD(1)), endpoint String, received UInt64, sent UInt64, bytes UInt64, ver UInt64
) ENGINE = ReplacingMergeTree(ver) PARTITION BY toYYYYMM(t) ORDER BY (account, t, endpoint) TTL t + INTERVAL 400 DAY DELETE;
