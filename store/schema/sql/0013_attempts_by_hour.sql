-- Requests to destinations by the hour and by the day: summed from usage_minute and from the hours, when they have ended, instead
-- of by views of their own, which made two more parts of every insert. A count only grows, so the greatest is the newest.
CREATE TABLE IF NOT EXISTS {db}.attempts_hour (
  account String, t DateTime('UTC') CODEC(DoubleDelta,ZSTD(1)), endpoint String, attempts UInt64, delivered UInt64, failed UInt64
) ENGINE = ReplacingMergeTree(attempts) PARTITION BY toYYYYMM(t) ORDER BY (account, t, endpoint) TTL t + INTERVAL 400 DAY DELETE;

CREATE TABLE IF NOT EXISTS {db}.attempts_day (
  account String, t DateTime('UTC') CODEC(DoubleDelta,ZSTD(1)), endpoint String, attempts UInt64, delivered UInt64, failed UInt64
) ENGINE = ReplacingMergeTree(attempts) PARTITION BY toYYYYMM(t) ORDER BY (account, t, endpoint) TTL t + INTERVAL 400 DAY DELETE;

INSERT INTO {db}.attempts_hour (account, t, endpoint, attempts, delivered, failed)
SELECT account, t, endpoint, sum(requests_hour.attempts), sum(requests_hour.delivered), sum(requests_hour.failed) FROM {db}.requests_hour GROUP BY account, t, endpoint;

INSERT INTO {db}.attempts_day (account, t, endpoint, attempts, delivered, failed)
SELECT account, t, endpoint, sum(requests_day.attempts), sum(requests_day.delivered), sum(requests_day.failed) FROM {db}.requests_day GROUP BY account, t, endpoint;
