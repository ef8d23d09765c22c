-- For charts and alert windows. Rows that are inserted again count again (at least once).
CREATE TABLE IF NOT EXISTS {db}.usage_minute (
  account String, t DateTime('UTC') CODEC(DoubleDelta,ZSTD(1)), endpoint String, dest String,
  attempts SimpleAggregateFunction(sum,UInt64), delivered SimpleAggregateFunction(sum,UInt64), failed SimpleAggregateFunction(sum,UInt64),
  lat AggregateFunction(quantilesTDigest(0.5,0.95,0.99),UInt32)
) ENGINE = AggregatingMergeTree PARTITION BY toYYYYMMDD(t) ORDER BY (account, t, endpoint, dest) TTL t + INTERVAL 35 DAY DELETE;

CREATE MATERIALIZED VIEW IF NOT EXISTS {db}.mv_usage_minute TO {db}.usage_minute AS
SELECT account, toStartOfMinute(toDateTime(at,'UTC')) AS t, endpoint, dest, count() AS attempts, countIf(ok = 1) AS delivered,
       countIf(ok = 0) AS failed, quantilesTDigestState(0.5,0.95,0.99)(duration_ms) AS lat
FROM {db}.attempts GROUP BY account, t, endpoint, dest;
