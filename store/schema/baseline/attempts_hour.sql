-- Requests to destinations by hour, for monthly figures: summed from usage_minute when the hour has ended. A count only grows, so
-- the row with the greatest count is the newest.
CREATE TABLE IF NOT EXISTS {db}.attempts_hour (
  account String, t DateTime('UTC') CODEC(DoubleDelta,ZSTD(1)), endpoint String, attempts UInt64, delivered UInt64, failed UInt64
) ENGINE = ReplacingMergeTree(attempts) PARTITION BY toYYYYMM(t) ORDER BY (account, t, endpoint) TTL t + INTERVAL 400 DAY DELETE;
