-- One row per hit of a finding, with tripwires; n = how often the sender saw it. hit = hash of the sender's record id and offset,
-- day = UTC day of arrival, both fixed in the record on `findings`, so that repeated inserts and retries of a sender merge into
-- one row. severity: 4 critical, 3 high, 2 medium, 1 low. verified: 0 for browser DSNs and unsigned provider events. sender:
-- drn_, dsn_, scn_, trw_ or ep_. place: JSON shown as the location; location: hash of its stable part. remote_ip is emptied after
-- 30 days, remote_net (/24 or /48) stays. ver falls with the offset: of a hit that was sent twice the first record counts, so
-- that at never changes.
CREATE TABLE IF NOT EXISTS {db}.findings_hits (
  account String, finding String CODEC(ZSTD(1)), day Date, hit FixedString(16) CODEC(ZSTD(1)), at DateTime64(3,'UTC') CODEC(Delta,ZSTD(1)),
  observed_at DateTime64(3,'UTC') CODEC(Delta,ZSTD(1)), n UInt32 CODEC(T64,ZSTD(1)), kind LowCardinality(String), rule LowCardinality(String),
  source LowCardinality(String), channel LowCardinality(String), sender String CODEC(ZSTD(1)), severity UInt8, verified UInt8, test UInt8, billed UInt8,
  masked String CODEC(ZSTD(1)), fingerprint String CODEC(ZSTD(1)), location FixedString(16) CODEC(ZSTD(1)), place String CODEC(ZSTD(1)),
  environment LowCardinality(String), release String CODEC(ZSTD(1)), key_id String CODEC(ZSTD(1)), method LowCardinality(String),
  agent String CODEC(ZSTD(1)), remote_ip IPv6 CODEC(ZSTD(1)) TTL toDateTime(at) + INTERVAL 30 DAY, remote_net IPv6 CODEC(ZSTD(1)),
  ver UInt64 CODEC(T64,ZSTD(1))
) ENGINE = ReplacingMergeTree(ver) PARTITION BY toYYYYMM(day) ORDER BY (account, finding, day, hit) TTL day + INTERVAL 400 DAY DELETE;
