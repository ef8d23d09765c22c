-- The deliveries that recovery jobs have selected. A selection is inserted once and never changes; the state of an item is the
-- newest outcome of its delivery within the job. The rows cannot be rebuilt from the log and the job relies on them, so they are
-- synced to disk before the insert is answered, also on a server that syncs no parts by default.
CREATE TABLE IF NOT EXISTS {db}.recovery_items (
  account String, selection String, seq UInt32, id FixedString(16) CODEC(ZSTD(1)), dest String CODEC(ZSTD(1)), ts DateTime64(3,'UTC') CODEC(DoubleDelta,ZSTD(1)),
  skipped_reason LowCardinality(String), created DateTime('UTC')
) ENGINE = ReplacingMergeTree PARTITION BY toYYYYMM(created) ORDER BY (account, selection, seq) TTL created + INTERVAL 32 DAY DELETE
SETTINGS index_granularity = 8192, fsync_after_insert = 1, fsync_part_directory = 1;
