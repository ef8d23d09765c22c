-- Why a run passed a delivery by; status and reason are then those of before.
ALTER TABLE {db}.deliveries ADD COLUMN IF NOT EXISTS skipped LowCardinality(String) AFTER reason;

-- The newest outcome of each delivery within a run: what a later run, or the automatic chain, says elsewhere changes
-- nothing here. It outlives the event, for the history of a run is kept 30 days from its beginning.
CREATE TABLE IF NOT EXISTS {db}.run_deliveries (
  account String, run String, id FixedString(16) CODEC(ZSTD(1)), dest String CODEC(ZSTD(1)), ts DateTime64(3,'UTC') CODEC(DoubleDelta,ZSTD(1)),
  status LowCardinality(String), reason LowCardinality(String), skipped LowCardinality(String), code UInt16,
  last_at DateTime64(3,'UTC') CODEC(ZSTD(1)), ver UInt128 CODEC(ZSTD(1))
) ENGINE = ReplacingMergeTree(ver) PARTITION BY toYYYYMM(ts) ORDER BY (account, run, id, dest)
TTL toDateTime(last_at) + INTERVAL 32 DAY DELETE;

-- A second copy of work that failed may be passed by because the failure has stopped its job: the failure counts.
CREATE MATERIALIZED VIEW IF NOT EXISTS {db}.mv_run_deliveries TO {db}.run_deliveries AS
SELECT account, run, id, dest, ts, status, reason, skipped, code, last_at,
       ver + if(status = 'failed' AND skipped = '', bitShiftLeft(toUInt128(1), 63), toUInt128(0)) AS ver
FROM {db}.deliveries WHERE run != '';

-- What recovery jobs have selected; a selection is written once and never changes. The state of an item is the newest
-- outcome of its delivery within the job.
CREATE TABLE IF NOT EXISTS {db}.recovery_items (
  account String, selection String, seq UInt32, id FixedString(16) CODEC(ZSTD(1)), dest String CODEC(ZSTD(1)), ts DateTime64(3,'UTC') CODEC(DoubleDelta,ZSTD(1)),
  skipped_reason LowCardinality(String), created DateTime('UTC')
) ENGINE = ReplacingMergeTree PARTITION BY toYYYYMM(created) ORDER BY (account, selection, seq) TTL created + INTERVAL 32 DAY DELETE;
