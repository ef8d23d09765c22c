-- What the files up to 0014 come to, for a server's database in which nothing is yet and that no version before uses. Why a
-- table is as it is, and what its columns mean, stands here; the files say when it became so. No statement says IF NOT EXISTS:
-- one that finds its table there must fail, for it may be another.

-- One row per stored event; never updated. Read without FINAL: equal ids are adjacent. A block of a column ends with its
-- granule: a page whose events lie far apart reads one granule of each column for each event, and with blocks of 64 KB or
-- more it unpacked four times as much. Lists by what few events have pass over granules without any of them.
CREATE TABLE {db}.events (
  account String, id FixedString(16) CODEC(ZSTD(1)), ts DateTime64(3,'UTC') CODEC(DoubleDelta,ZSTD(1)),
  endpoint String CODEC(ZSTD(1)), type LowCardinality(String), source LowCardinality(String),
  verdict LowCardinality(String), reason LowCardinality(String), duplicate_of FixedString(16) CODEC(ZSTD(1)),
  dests Array(String) CODEC(ZSTD(1)), method LowCardinality(String), query String CODEC(ZSTD(1)), content_type LowCardinality(String),
  remote_ip IPv6 CODEC(ZSTD(1)), idempotency_key String CODEC(ZSTD(1)), size UInt32 CODEC(T64,ZSTD(1)),
  headers String CODEC(ZSTD(1)), body String CODEC(ZSTD(1)), billed UInt8,
  kp UInt16, ko UInt64 CODEC(Delta,ZSTD(1)),
  INDEX by_type type TYPE set(64) GRANULARITY 1, INDEX by_source source TYPE set(8) GRANULARITY 1,
  INDEX by_verdict verdict TYPE set(8) GRANULARITY 1, INDEX by_dest dests TYPE bloom_filter(0.01) GRANULARITY 1
) ENGINE = ReplacingMergeTree PARTITION BY toYYYYMMDD(ts) ORDER BY (account, id)
TTL {kept} SETTINGS ttl_only_drop_parts = 1, index_granularity = 1024, min_compress_block_size = 4096;

-- What a list shows of an event, in the order of endpoints, for lists of one endpoint. Rows from before 0009 have whole = 0.
CREATE TABLE {db}.events_by_endpoint (
  account String, endpoint String, id FixedString(16) CODEC(ZSTD(1)), ts DateTime64(3,'UTC') CODEC(DoubleDelta,ZSTD(1)),
  type LowCardinality(String), source LowCardinality(String), verdict LowCardinality(String), reason LowCardinality(String),
  duplicate_of FixedString(16) CODEC(ZSTD(1)), dests Array(String) CODEC(ZSTD(1)), size UInt32 CODEC(T64,ZSTD(1)), whole UInt8,
  INDEX by_type type TYPE set(64) GRANULARITY 1, INDEX by_source source TYPE set(8) GRANULARITY 1
) ENGINE = ReplacingMergeTree PARTITION BY toYYYYMMDD(ts) ORDER BY (account, endpoint, id)
TTL {kept} SETTINGS ttl_only_drop_parts = 1, index_granularity = 512, min_compress_block_size = 4096;

CREATE MATERIALIZED VIEW {db}.mv_events_by_endpoint TO {db}.events_by_endpoint AS
SELECT account, endpoint, id, ts, type, source, verdict, reason, duplicate_of, dests, size, 1 AS whole FROM {db}.events;

-- Events in the order of what they are looked for by: type:<type>, dest:<destination>, and dest: alone for those that
-- were to be sent nowhere and are not rejected. It nominates: a destination may be that of a replay alone.
CREATE TABLE {db}.event_keys (
  account String, key String CODEC(ZSTD(1)), id FixedString(16) CODEC(ZSTD(1)), ts DateTime64(3,'UTC') CODEC(DoubleDelta,ZSTD(1))
) ENGINE = ReplacingMergeTree PARTITION BY toYYYYMMDD(ts) ORDER BY (account, key, id)
TTL {kept} SETTINGS ttl_only_drop_parts = 1, index_granularity = 512, min_compress_block_size = 4096;

CREATE MATERIALIZED VIEW {db}.mv_event_keys TO {db}.event_keys AS
SELECT account, arrayJoin(arrayPushBack(arrayMap(d -> concat('dest:', d), if(empty(dests) AND verdict != 'rejected', [''], dests)), concat('type:', type))) AS key, id, ts FROM {db}.events;

-- Latest outcome of each (event, destination). No row = pending. ver = ms << 80 | rank << 64 | 1 + offset in outcomes;
-- ms is that of the run, or of the delivery when it was proven later; a command's pending row ends in 0. skipped is why a
-- run passed it by: status and reason are then those of before. again = 1: something may have been said about it before.
CREATE TABLE {db}.deliveries (
  account String, id FixedString(16) CODEC(ZSTD(1)), ts DateTime64(3,'UTC') CODEC(DoubleDelta,ZSTD(1)), dest String CODEC(ZSTD(1)),
  endpoint String CODEC(ZSTD(1)), type LowCardinality(String), status LowCardinality(String), reason LowCardinality(String),
  skipped LowCardinality(String), code UInt16, next_at DateTime64(3,'UTC') CODEC(ZSTD(1)), last_at DateTime64(3,'UTC') CODEC(ZSTD(1)),
  run String CODEC(ZSTD(1)), again UInt8 DEFAULT 1, ver UInt128 CODEC(ZSTD(1)),
  INDEX by_dest dest TYPE bloom_filter(0.01) GRANULARITY 1
) ENGINE = ReplacingMergeTree(ver) PARTITION BY toYYYYMMDD(ts) ORDER BY (account, id, dest)
TTL {kept} SETTINGS ttl_only_drop_parts = 1, index_granularity = 1024, min_compress_block_size = 4096;

-- Candidates for the failed, retrying and held lists, replay and recovery. It nominates; deliveries FINAL answers.
CREATE TABLE {db}.delivery_trouble (
  account String, endpoint String, id FixedString(16) CODEC(ZSTD(1)), dest String CODEC(ZSTD(1)), ts DateTime64(3,'UTC') CODEC(DoubleDelta,ZSTD(1))
) ENGINE = ReplacingMergeTree PARTITION BY toYYYYMM(ts) ORDER BY (account, endpoint, id, dest)
TTL {kept} SETTINGS ttl_only_drop_parts = 1, index_granularity = 1024;

-- The state of deliveries that ever failed, waited or were held, in the order of events: what lists by status of all
-- endpoints read. One that was delivered later is there as delivered, but for a few that the writer could not know of, and a
-- row that a later one has replaced may be found by its old status: deliveries FINAL answers.
CREATE TABLE {db}.troubled (
  account String, id FixedString(16) CODEC(ZSTD(1)), dest String CODEC(ZSTD(1)), ts DateTime64(3,'UTC') CODEC(DoubleDelta,ZSTD(1)),
  endpoint String CODEC(ZSTD(1)), type LowCardinality(String), status LowCardinality(String), ver UInt128 CODEC(ZSTD(1)),
  INDEX by_status status TYPE set(8) GRANULARITY 1, INDEX by_type type TYPE set(64) GRANULARITY 1
) ENGINE = ReplacingMergeTree(ver) PARTITION BY toYYYYMM(ts) ORDER BY (account, id, dest)
TTL {kept} SETTINGS ttl_only_drop_parts = 1, index_granularity = 1024;

-- One row per HTTP request to a destination.
CREATE TABLE {db}.attempts (
  account String, id FixedString(16) CODEC(ZSTD(1)), ts DateTime64(3,'UTC') CODEC(DoubleDelta,ZSTD(1)), dest String CODEC(ZSTD(1)),
  att FixedString(16) CODEC(ZSTD(1)), endpoint String CODEC(ZSTD(1)), at DateTime64(3,'UTC') CODEC(Delta,ZSTD(1)),
  trigger LowCardinality(String), run String CODEC(ZSTD(1)), ok UInt8, code UInt16, error_code LowCardinality(String),
  error_message String CODEC(ZSTD(1)), duration_ms UInt32 CODEC(T64,ZSTD(1)), ttfb_ms UInt32 CODEC(T64,ZSTD(1)),
  next_at DateTime64(3,'UTC') CODEC(ZSTD(1)), retry_after_s UInt32, remote_ip IPv6 CODEC(ZSTD(1)),
  url LowCardinality(String), method LowCardinality(String), req_headers String CODEC(ZSTD(1)), transform_version UInt32,
  resp_headers String CODEC(ZSTD(1)), resp_body String CODEC(ZSTD(1)), resp_truncated UInt8
) ENGINE = ReplacingMergeTree PARTITION BY toYYYYMMDD(ts) ORDER BY (account, id, dest, att)
TTL {kept} SETTINGS ttl_only_drop_parts = 1, index_granularity = 1024, min_compress_block_size = 4096;

-- ver = (state = 'processed') << 63 | offset in receipts: a late failure cannot win over processed.
CREATE TABLE {db}.receipts (
  account String, id FixedString(16) CODEC(ZSTD(1)), ts DateTime64(3,'UTC'), state LowCardinality(String), reference String CODEC(ZSTD(1)),
  details String CODEC(ZSTD(1)), at DateTime64(3,'UTC'), ver UInt64
) ENGINE = ReplacingMergeTree(ver) PARTITION BY toYYYYMMDD(ts) ORDER BY (account, id)
TTL {kept} SETTINGS ttl_only_drop_parts = 1, index_granularity = 1024, min_compress_block_size = 4096;

-- What the newest receipt does not tell of an event: when the first one came, and the lowest version that said processed.
-- Only minima, so that rows written again change nothing.
CREATE TABLE {db}.receipt_firsts (
  account String, id FixedString(16) CODEC(ZSTD(1)), ts DateTime64(3,'UTC') CODEC(DoubleDelta,ZSTD(1)),
  first_at SimpleAggregateFunction(min,DateTime64(3,'UTC')), processed SimpleAggregateFunction(min,UInt64)
) ENGINE = AggregatingMergeTree PARTITION BY toYYYYMMDD(ts) ORDER BY (account, id)
TTL {kept} SETTINGS ttl_only_drop_parts = 1, index_granularity = 1024;

CREATE MATERIALIZED VIEW {db}.mv_receipt_firsts TO {db}.receipt_firsts AS
SELECT account, id, ts, min(at) AS first_at, min(if(state = 'processed', ver, 18446744073709551615)) AS processed
FROM {db}.receipts GROUP BY account, id, ts;

-- The billing figure: recomputed for the hours that were written to, from events FINAL WHERE billed. Never accumulated.
CREATE TABLE {db}.usage_hour (
  account String, t DateTime('UTC') CODEC(DoubleDelta,ZSTD(1)), endpoint String, received UInt64, sent UInt64, findings UInt64, bytes UInt64, ver UInt64
) ENGINE = ReplacingMergeTree(ver) PARTITION BY toYYYYMM(t) ORDER BY (account, t, endpoint) TTL t + INTERVAL 400 DAY DELETE;

-- usage_hour by the day: summed from its rows whenever some of a day have changed. ver is the sum of theirs, so that
-- the greatest is the newest here too.
CREATE TABLE {db}.usage_day (
  account String, t DateTime('UTC') CODEC(DoubleDelta,ZSTD(1)), endpoint String, received UInt64, sent UInt64, findings UInt64, bytes UInt64, ver UInt64
) ENGINE = ReplacingMergeTree(ver) PARTITION BY toYYYYMM(t) ORDER BY (account, t, endpoint) TTL t + INTERVAL 400 DAY DELETE;

-- For charts and alert windows: at-least-once counts.
CREATE TABLE {db}.usage_minute (
  account String, t DateTime('UTC') CODEC(DoubleDelta,ZSTD(1)), endpoint String, dest String,
  attempts SimpleAggregateFunction(sum,UInt64), delivered SimpleAggregateFunction(sum,UInt64), failed SimpleAggregateFunction(sum,UInt64),
  lat AggregateFunction(quantilesTDigest(0.5,0.95,0.99),UInt32)
) ENGINE = AggregatingMergeTree PARTITION BY toYYYYMMDD(t) ORDER BY (account, t, endpoint, dest) TTL t + INTERVAL 35 DAY DELETE;

CREATE MATERIALIZED VIEW {db}.mv_usage_minute TO {db}.usage_minute AS
SELECT account, toStartOfMinute(toDateTime(at,'UTC')) AS t, endpoint, dest, count() AS attempts, countIf(ok = 1) AS delivered,
       countIf(ok = 0) AS failed, quantilesTDigestState(0.5,0.95,0.99)(duration_ms) AS lat
FROM {db}.attempts GROUP BY account, t, endpoint, dest;

-- Requests to destinations by the hour and by the day, for a month's figures: summed from usage_minute and from the hours,
-- when they have ended. A count only grows, so the greatest is the newest.
CREATE TABLE {db}.attempts_hour (
  account String, t DateTime('UTC') CODEC(DoubleDelta,ZSTD(1)), endpoint String, attempts UInt64, delivered UInt64, failed UInt64
) ENGINE = ReplacingMergeTree(attempts) PARTITION BY toYYYYMM(t) ORDER BY (account, t, endpoint) TTL t + INTERVAL 400 DAY DELETE;

CREATE TABLE {db}.attempts_day (
  account String, t DateTime('UTC') CODEC(DoubleDelta,ZSTD(1)), endpoint String, attempts UInt64, delivered UInt64, failed UInt64
) ENGINE = ReplacingMergeTree(attempts) PARTITION BY toYYYYMM(t) ORDER BY (account, t, endpoint) TTL t + INTERVAL 400 DAY DELETE;

-- What went before these two. Nobody writes them, but 0014 reads them, and is the last to be noted when all is made from here.
CREATE TABLE {db}.requests_hour (
  account String, t DateTime('UTC') CODEC(DoubleDelta,ZSTD(1)), endpoint String,
  attempts SimpleAggregateFunction(sum,UInt64), delivered SimpleAggregateFunction(sum,UInt64), failed SimpleAggregateFunction(sum,UInt64)
) ENGINE = AggregatingMergeTree PARTITION BY toYYYYMM(t) ORDER BY (account, t, endpoint) TTL t + INTERVAL 400 DAY DELETE;

CREATE TABLE {db}.requests_day (
  account String, t DateTime('UTC') CODEC(DoubleDelta,ZSTD(1)), endpoint String,
  attempts SimpleAggregateFunction(sum,UInt64), delivered SimpleAggregateFunction(sum,UInt64), failed SimpleAggregateFunction(sum,UInt64)
) ENGINE = AggregatingMergeTree PARTITION BY toYYYYMM(t) ORDER BY (account, t, endpoint) TTL t + INTERVAL 400 DAY DELETE;

-- Who changed what, and which API key was used when: one row per change, and per key, node and hour of use, of which the
-- row with the highest ver is the newest. Not an event's: it is kept longer than events are.
CREATE TABLE {db}.audit (
  account String, id FixedString(16) CODEC(ZSTD(1)), at DateTime64(3,'UTC') CODEC(Delta,ZSTD(1)), actor_type LowCardinality(String),
  actor String CODEC(ZSTD(1)), actor_name String CODEC(ZSTD(1)), action LowCardinality(String), entity_type LowCardinality(String),
  entity String CODEC(ZSTD(1)), changes Array(String) CODEC(ZSTD(1)), request_id String CODEC(ZSTD(1)), remote_ip IPv6 CODEC(ZSTD(1)),
  node LowCardinality(String), count UInt64 CODEC(T64,ZSTD(1)), last_at DateTime64(3,'UTC') CODEC(ZSTD(1)), ver UInt64 CODEC(ZSTD(1))
) ENGINE = ReplacingMergeTree(ver) PARTITION BY toYYYYMM(at) ORDER BY (account, id) TTL toDateTime(at) + INTERVAL 400 DAY DELETE;

-- The last use of each API key; no TTL, for a key that was not used for long is the one to look at.
CREATE TABLE {db}.key_uses (
  account String, key String, at DateTime64(3,'UTC'), node LowCardinality(String), remote_ip IPv6, ver UInt64
) ENGINE = ReplacingMergeTree(ver) ORDER BY (account, key);

CREATE MATERIALIZED VIEW {db}.mv_key_uses TO {db}.key_uses AS
SELECT account, entity AS key, last_at AS at, node, remote_ip, ver FROM {db}.audit WHERE action = 'key.used';

-- The newest outcome of each delivery within a run: what a later run, or the automatic chain, says elsewhere changes
-- nothing here. It outlives the event, for the history of a run is kept 30 days from its beginning.
CREATE TABLE {db}.run_deliveries (
  account String, run String, id FixedString(16) CODEC(ZSTD(1)), dest String CODEC(ZSTD(1)), ts DateTime64(3,'UTC') CODEC(DoubleDelta,ZSTD(1)),
  status LowCardinality(String), reason LowCardinality(String), skipped LowCardinality(String), code UInt16,
  last_at DateTime64(3,'UTC') CODEC(ZSTD(1)), ver UInt128 CODEC(ZSTD(1))
) ENGINE = ReplacingMergeTree(ver) PARTITION BY toYYYYMM(ts) ORDER BY (account, run, id, dest)
TTL toDateTime(last_at) + INTERVAL 32 DAY DELETE;

-- What recovery jobs have selected; a selection is written once and never changes. The state of an item is the newest
-- outcome of its delivery within the job. The log cannot bring it back and a job relies on it from then on, so that it is on
-- the disk before the insert is answered, also on a server that syncs no part.
CREATE TABLE {db}.recovery_items (
  account String, selection String, seq UInt32, id FixedString(16) CODEC(ZSTD(1)), dest String CODEC(ZSTD(1)), ts DateTime64(3,'UTC') CODEC(DoubleDelta,ZSTD(1)),
  skipped_reason LowCardinality(String), created DateTime('UTC')
) ENGINE = ReplacingMergeTree PARTITION BY toYYYYMM(created) ORDER BY (account, selection, seq) TTL created + INTERVAL 32 DAY DELETE
SETTINGS index_granularity = 8192, fsync_after_insert = 1, fsync_part_directory = 1;
