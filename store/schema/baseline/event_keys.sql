-- Events by the keys that lists filter by: type:<type>, dest:<destination>, and dest: alone for events without destinations that
-- are not rejected. The rows are candidates: the destination of a replay has a key too.
CREATE TABLE IF NOT EXISTS {db}.event_keys (
  account String, key String CODEC(ZSTD(1)), id FixedString(16) CODEC(ZSTD(1)), ts DateTime64(3,'UTC') CODEC(DoubleDelta,ZSTD(1))
) ENGINE = ReplacingMergeTree PARTITION BY toYYYYMMDD(ts) ORDER BY (account, key, id)
TTL {kept} SETTINGS ttl_only_drop_parts = 1, index_granularity = 512, min_compress_block_size = 4096;

CREATE MATERIALIZED VIEW IF NOT EXISTS {db}.mv_event_keys TO {db}.event_keys AS
SELECT account, id, ts,
       arrayJoin(arrayPushBack(arrayMap(d -> concat('dest:', d), if(empty(dests) AND verdict != 'rejected', [''], dests)), concat('type:', type))) AS key
FROM {db}.events;
