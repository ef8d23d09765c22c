-- The report of a finished scan: counters and what was skipped. Queued and running scans are in the configuration log.
CREATE TABLE IF NOT EXISTS {db}.scans (
  account String, id String, domain String, hostname String, status LowCardinality(String), error_type LowCardinality(String),
  trigger LowCardinality(String), pages UInt32, resources UInt32, bytes UInt64, findings_new UInt32, findings_seen UInt32,
  budget LowCardinality(String), skipped String CODEC(ZSTD(1)), third_party String CODEC(ZSTD(1)),
  created DateTime64(3,'UTC'), started DateTime64(3,'UTC'), finished DateTime64(3,'UTC')
) ENGINE = ReplacingMergeTree PARTITION BY toYYYYMM(created) ORDER BY (account, domain, id) TTL toDateTime(created) + INTERVAL 400 DAY DELETE
SETTINGS index_granularity = 8192, fsync_after_insert = 1, fsync_part_directory = 1;
