-- Lists by what few events have pass over granules without any of them.
ALTER TABLE {db}.events ADD INDEX IF NOT EXISTS by_type type TYPE set(64) GRANULARITY 1;
ALTER TABLE {db}.events ADD INDEX IF NOT EXISTS by_source source TYPE set(8) GRANULARITY 1;
ALTER TABLE {db}.events ADD INDEX IF NOT EXISTS by_verdict verdict TYPE set(8) GRANULARITY 1;
ALTER TABLE {db}.events ADD INDEX IF NOT EXISTS by_dest dests TYPE bloom_filter(0.01) GRANULARITY 1;
ALTER TABLE {db}.events_by_endpoint ADD INDEX IF NOT EXISTS by_type type TYPE set(64) GRANULARITY 1;
ALTER TABLE {db}.events_by_endpoint ADD INDEX IF NOT EXISTS by_source source TYPE set(8) GRANULARITY 1;
ALTER TABLE {db}.deliveries ADD INDEX IF NOT EXISTS by_dest dest TYPE bloom_filter(0.01) GRANULARITY 1;

-- 1 = something may have been said about the delivery before.
ALTER TABLE {db}.deliveries ADD COLUMN IF NOT EXISTS again UInt8 DEFAULT 1 AFTER run;

-- The state of deliveries that ever failed, waited or were held, in the order of events: what lists by status of all
-- endpoints read. One that was delivered later is there as delivered, but for a few that the writer could not know of:
-- deliveries FINAL answers.
CREATE TABLE IF NOT EXISTS {db}.troubled (
  account String, id FixedString(16) CODEC(ZSTD(1)), dest String CODEC(ZSTD(1)), ts DateTime64(3,'UTC') CODEC(DoubleDelta,ZSTD(1)),
  endpoint String CODEC(ZSTD(1)), type LowCardinality(String), status LowCardinality(String), ver UInt128 CODEC(ZSTD(1))
) ENGINE = ReplacingMergeTree(ver) PARTITION BY toYYYYMM(ts) ORDER BY (account, id, dest)
TTL toDateTime(ts) + INTERVAL {days} DAY DELETE SETTINGS ttl_only_drop_parts = 1, index_granularity = 1024;

CREATE MATERIALIZED VIEW IF NOT EXISTS {db}.mv_troubled TO {db}.troubled AS
SELECT account, id, dest, ts, endpoint, type, status, ver FROM {db}.deliveries WHERE again = 1 OR status NOT IN ('delivered', 'skipped');

INSERT INTO {db}.troubled (account, id, dest, ts, endpoint, type, status, ver)
SELECT account, id, dest, ts, endpoint, type, status, ver FROM {db}.deliveries FINAL WHERE status NOT IN ('delivered', 'skipped');
