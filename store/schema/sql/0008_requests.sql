-- usage_minute by the hour, without what differs by destination: for a month's figures. At-least-once, too.
CREATE TABLE IF NOT EXISTS {db}.requests_hour (
  account String, t DateTime('UTC') CODEC(DoubleDelta,ZSTD(1)), endpoint String,
  attempts SimpleAggregateFunction(sum,UInt64), delivered SimpleAggregateFunction(sum,UInt64), failed SimpleAggregateFunction(sum,UInt64)
) ENGINE = AggregatingMergeTree PARTITION BY toYYYYMM(t) ORDER BY (account, t, endpoint) TTL t + INTERVAL 400 DAY DELETE;

CREATE MATERIALIZED VIEW IF NOT EXISTS {db}.mv_requests_hour TO {db}.requests_hour AS
SELECT account, toStartOfHour(toDateTime(at,'UTC')) AS t, endpoint, count() AS attempts, countIf(ok = 1) AS delivered, countIf(ok = 0) AS failed
FROM {db}.attempts GROUP BY account, t, endpoint;

-- The hour that runs is left to the view, which may have some of it already.
INSERT INTO {db}.requests_hour (account, t, endpoint, attempts, delivered, failed)
SELECT account, toStartOfHour(t) AS hour, endpoint, sum(attempts), sum(delivered), sum(failed) FROM {db}.usage_minute
WHERE t < toStartOfHour(now('UTC')) AND (SELECT count() FROM {db}.requests_hour WHERE t < toStartOfHour(now('UTC'))) = 0 GROUP BY account, hour, endpoint;
