-- One row per finding, for lists: only minima, maxima and sets, which a second insert does not change (as in receipt_firsts).
-- Counts come from findings_hits FINAL. The configuration log holds the findings and their state from the first hit on. No TTL,
-- because first_at must not change: the job that forgets a finding after 400 days without a hit deletes its row.
CREATE TABLE IF NOT EXISTS {db}.findings (
  account String, finding String CODEC(ZSTD(1)), first_at SimpleAggregateFunction(min,DateTime64(3,'UTC')),
  last_at SimpleAggregateFunction(max,DateTime64(3,'UTC')), kind SimpleAggregateFunction(min,String), rule SimpleAggregateFunction(min,String),
  masked SimpleAggregateFunction(min,String), fingerprint SimpleAggregateFunction(max,String), key_id SimpleAggregateFunction(max,String),
  severity SimpleAggregateFunction(max,UInt8), verified SimpleAggregateFunction(max,UInt8), test SimpleAggregateFunction(min,UInt8),
  sources SimpleAggregateFunction(groupUniqArrayArray,Array(String))
) ENGINE = AggregatingMergeTree ORDER BY (account, finding);

CREATE MATERIALIZED VIEW IF NOT EXISTS {db}.mv_findings TO {db}.findings AS
SELECT account, finding, min(at) AS first_at, max(at) AS last_at, min(toString(f.kind)) AS kind, min(toString(f.rule)) AS rule,
       min(f.masked) AS masked, max(f.fingerprint) AS fingerprint, max(f.key_id) AS key_id, max(f.severity) AS severity,
       max(f.verified) AS verified, min(f.test) AS test, groupUniqArray(toString(f.source)) AS sources
FROM {db}.findings_hits AS f GROUP BY account, finding;
