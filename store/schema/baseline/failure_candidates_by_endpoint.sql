-- Candidates for lists of failed, retrying or held deliveries of one endpoint, for replay and recovery. deliveries FINAL decides.
CREATE TABLE IF NOT EXISTS {db}.failure_candidates_by_endpoint (
  account String, endpoint String, id FixedString(16) CODEC(ZSTD(1)), dest String CODEC(ZSTD(1)), ts DateTime64(3,'UTC') CODEC(DoubleDelta,ZSTD(1))
) ENGINE = ReplacingMergeTree PARTITION BY toYYYYMM(ts) ORDER BY (account, endpoint, id, dest)
TTL {kept} SETTINGS ttl_only_drop_parts = 1, index_granularity = 1024;
