-- usage_minute counts the first attempts of automatic deliveries, so that the share that needs no retry is known. Minutes
-- before this step have none.
ALTER TABLE {db}.usage_minute ADD COLUMN IF NOT EXISTS first_attempts SimpleAggregateFunction(sum,UInt64) AFTER failed;

ALTER TABLE {db}.usage_minute ADD COLUMN IF NOT EXISTS first_delivered SimpleAggregateFunction(sum,UInt64) AFTER first_attempts;

ALTER TABLE {db}.mv_usage_minute MODIFY QUERY
SELECT account, toStartOfMinute(toDateTime(at,'UTC')) AS t, endpoint, dest, count() AS attempts, countIf(ok = 1) AS delivered,
       countIf(ok = 0) AS failed, countIf(trigger = 'initial') AS first_attempts,
       countIf(trigger = 'initial' AND ok = 1) AS first_delivered, quantilesTDigestState(0.5,0.95,0.99)(duration_ms) AS lat
FROM {db}.attempts GROUP BY account, t, endpoint, dest;
