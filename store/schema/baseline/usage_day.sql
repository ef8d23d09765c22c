-- usage_hour by day: summed again whenever hours of a day have changed. ver is the sum of their ver, so the greatest is the
-- newest here too. Findings are counted by day only.
CREATE TABLE IF NOT EXISTS {db}.usage_day (
  account String, t DateTime('UTC') CODEC(DoubleDelta,ZSTD(1)), endpoint String, received UInt64, sent UInt64, findings UInt64, bytes UInt64, ver UInt64
) ENGINE = ReplacingMergeTree(ver) PARTITION BY toYYYYMM(t) ORDER BY (account, t, endpoint) TTL t + INTERVAL 400 DAY DELETE;
