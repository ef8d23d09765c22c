-- A block of a column ends with its granule: a page whose events lie far apart reads one granule of each column for each
-- event, and with blocks of 64 KB or more it unpacked four times as much.
ALTER TABLE {db}.events MODIFY SETTING min_compress_block_size = 4096;
ALTER TABLE {db}.events_by_endpoint MODIFY SETTING min_compress_block_size = 4096;
ALTER TABLE {db}.deliveries MODIFY SETTING min_compress_block_size = 4096;
ALTER TABLE {db}.attempts MODIFY SETTING min_compress_block_size = 4096;
ALTER TABLE {db}.receipts MODIFY SETTING min_compress_block_size = 4096;

-- The rest of what a list shows of an event, so that the list of an endpoint need not look for its events one by one.
-- Rows of before have whole = 0.
ALTER TABLE {db}.events_by_endpoint ADD COLUMN IF NOT EXISTS verdict LowCardinality(String) AFTER source;
ALTER TABLE {db}.events_by_endpoint ADD COLUMN IF NOT EXISTS reason LowCardinality(String) AFTER verdict;
ALTER TABLE {db}.events_by_endpoint ADD COLUMN IF NOT EXISTS duplicate_of FixedString(16) CODEC(ZSTD(1)) AFTER reason;
ALTER TABLE {db}.events_by_endpoint ADD COLUMN IF NOT EXISTS dests Array(String) CODEC(ZSTD(1)) AFTER duplicate_of;
ALTER TABLE {db}.events_by_endpoint ADD COLUMN IF NOT EXISTS whole UInt8 AFTER size;
ALTER TABLE {db}.mv_events_by_endpoint MODIFY QUERY
SELECT account, endpoint, id, ts, type, source, verdict, reason, duplicate_of, dests, size, 1 AS whole FROM {db}.events;

-- Events in the order of what they are looked for by: type:<type>, dest:<destination>, and dest: alone for those that
-- were to be sent nowhere and are not rejected. It nominates: a destination may be that of a replay alone.
CREATE TABLE IF NOT EXISTS {db}.event_keys (
  account String, key String CODEC(ZSTD(1)), id FixedString(16) CODEC(ZSTD(1)), ts DateTime64(3,'UTC') CODEC(DoubleDelta,ZSTD(1))
) ENGINE = ReplacingMergeTree PARTITION BY toYYYYMMDD(ts) ORDER BY (account, key, id)
TTL toDateTime(ts) + INTERVAL {days} DAY DELETE SETTINGS ttl_only_drop_parts = 1, index_granularity = 512, min_compress_block_size = 4096;

CREATE MATERIALIZED VIEW IF NOT EXISTS {db}.mv_event_keys TO {db}.event_keys AS
SELECT account, arrayJoin(arrayPushBack(arrayMap(d -> concat('dest:', d), if(empty(dests) AND verdict != 'rejected', [''], dests)), concat('type:', type))) AS key, id, ts FROM {db}.events;

CREATE MATERIALIZED VIEW IF NOT EXISTS {db}.mv_event_keys_of_runs TO {db}.event_keys AS
SELECT account, concat('dest:', dest) AS key, id, ts FROM {db}.deliveries WHERE run != '';

INSERT INTO {db}.event_keys (account, key, id, ts)
SELECT account, arrayJoin(arrayPushBack(arrayMap(d -> concat('dest:', d), if(empty(dests) AND verdict != 'rejected', [''], dests)), concat('type:', type))) AS key, id, ts FROM {db}.events
SETTINGS max_partitions_per_insert_block = 0;

INSERT INTO {db}.event_keys (account, key, id, ts)
SELECT account, concat('dest:', dest) AS key, id, ts FROM {db}.deliveries WHERE run != '' SETTINGS max_partitions_per_insert_block = 0;

INSERT INTO {db}.troubled (account, id, dest, ts, endpoint, type, status, ver)
SELECT account, id, dest, ts, endpoint, type, status, ver FROM {db}.deliveries FINAL WHERE status = 'skipped';
