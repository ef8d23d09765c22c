-- usage_hour by the day: summed from its rows whenever some of a day have changed. ver is the sum of theirs, so that
-- the greatest is the newest here too.
CREATE TABLE IF NOT EXISTS {db}.usage_day (
  account String, t DateTime('UTC') CODEC(DoubleDelta,ZSTD(1)), endpoint String, received UInt64, sent UInt64, findings UInt64, bytes UInt64, ver UInt64
) ENGINE = ReplacingMergeTree(ver) PARTITION BY toYYYYMM(t) ORDER BY (account, t, endpoint) TTL t + INTERVAL 400 DAY DELETE;

INSERT INTO {db}.usage_day (account, t, endpoint, received, sent, findings, bytes, ver)
SELECT account, toStartOfDay(t) AS day, endpoint, sum(received), sum(sent), sum(findings), sum(bytes), sum(ver) FROM {db}.usage_hour FINAL GROUP BY account, day, endpoint;

-- requests_hour by the day. At-least-once, too.
CREATE TABLE IF NOT EXISTS {db}.requests_day (
  account String, t DateTime('UTC') CODEC(DoubleDelta,ZSTD(1)), endpoint String,
  attempts SimpleAggregateFunction(sum,UInt64), delivered SimpleAggregateFunction(sum,UInt64), failed SimpleAggregateFunction(sum,UInt64)
) ENGINE = AggregatingMergeTree PARTITION BY toYYYYMM(t) ORDER BY (account, t, endpoint) TTL t + INTERVAL 400 DAY DELETE;

CREATE MATERIALIZED VIEW IF NOT EXISTS {db}.mv_requests_day TO {db}.requests_day AS
SELECT account, toStartOfDay(toDateTime(at,'UTC')) AS t, endpoint, count() AS attempts, countIf(ok = 1) AS delivered, countIf(ok = 0) AS failed
FROM {db}.attempts GROUP BY account, t, endpoint;

-- The day that runs is left to the view for its last hour, which may have some of it already.
INSERT INTO {db}.requests_day (account, t, endpoint, attempts, delivered, failed)
SELECT account, toStartOfDay(t) AS day, endpoint, sum(attempts), sum(delivered), sum(failed) FROM {db}.requests_hour
WHERE t < toStartOfHour(now('UTC')) AND (SELECT count() FROM {db}.requests_day WHERE t < toStartOfDay(now('UTC'))) = 0 GROUP BY account, day, endpoint;
