-- attempts_hour by day, summed from the hours.
CREATE TABLE IF NOT EXISTS {db}.attempts_day (
  account String, t DateTime('UTC') CODEC(DoubleDelta,ZSTD(1)), endpoint String, attempts UInt64, delivered UInt64, failed UInt64
) ENGINE = ReplacingMergeTree(attempts) PARTITION BY toYYYYMM(t) ORDER BY (account, t, endpoint) TTL t + INTERVAL 400 DAY DELETE;
