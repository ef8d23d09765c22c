-- What the newest receipt of an event does not say: when the first one came, and the lowest version that said processed. Only
-- minima, so that rows inserted again change nothing.
CREATE TABLE IF NOT EXISTS {db}.receipt_firsts (
  account String, id FixedString(16) CODEC(ZSTD(1)), ts DateTime64(3,'UTC') CODEC(DoubleDelta,ZSTD(1)),
  first_at SimpleAggregateFunction(min,DateTime64(3,'UTC')), processed SimpleAggregateFunction(min,UInt64)
) ENGINE = AggregatingMergeTree PARTITION BY toYYYYMMDD(ts) ORDER BY (account, id)
TTL {kept} SETTINGS ttl_only_drop_parts = 1, index_granularity = 1024;

CREATE MATERIALIZED VIEW IF NOT EXISTS {db}.mv_receipt_firsts TO {db}.receipt_firsts AS
SELECT account, id, ts, min(at) AS first_at, min(if(state = 'processed', ver, 18446744073709551615)) AS processed
FROM {db}.receipts GROUP BY account, id, ts;
