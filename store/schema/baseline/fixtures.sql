-- Bodies and expectations of fixtures, one row per version, inserted before the configuration log names it. The log names version
-- and content (a hash of the row), so a row whose change lost a race, or an older row, is never the answer. Every read also
-- requires expires_at > now. The row cannot be rebuilt from the log: it is synced to disk before the insert is answered.
CREATE TABLE IF NOT EXISTS {db}.fixtures (
  account String, id String, version UInt32, content FixedString(16), name String, endpoint String, event FixedString(16), type String,
  method LowCardinality(String), body String CODEC(ZSTD(1)), redactions String CODEC(ZSTD(1)), expected_status UInt16, required String CODEC(ZSTD(1)),
  created DateTime64(3,'UTC'), created_by String, expires_at DateTime('UTC')
) ENGINE = ReplacingMergeTree ORDER BY (account, id, version, content) TTL expires_at DELETE
SETTINGS index_granularity = 8192, fsync_after_insert = 1, fsync_part_directory = 1;
