-- What the writer writes itself since 0013: hours of requests when they have ended, and what few deliveries are looked for by only
-- when there are any. A view takes its time for nothing too: four of them took half of an insert of a few hundred deliveries.
-- The tables requests_hour and requests_day end with their TTL, for another migration may be reading them. What a version before
-- has counted in them since 0013 is taken over.
INSERT INTO {db}.attempts_hour (account, t, endpoint, attempts, delivered, failed)
SELECT account, t, endpoint, sum(requests_hour.attempts), sum(requests_hour.delivered), sum(requests_hour.failed) FROM {db}.requests_hour GROUP BY account, t, endpoint;

INSERT INTO {db}.attempts_day (account, t, endpoint, attempts, delivered, failed)
SELECT account, t, endpoint, sum(requests_day.attempts), sum(requests_day.delivered), sum(requests_day.failed) FROM {db}.requests_day GROUP BY account, t, endpoint;

DROP VIEW IF EXISTS {db}.mv_requests_hour;
DROP VIEW IF EXISTS {db}.mv_requests_day;
DROP VIEW IF EXISTS {db}.mv_delivery_trouble;
DROP VIEW IF EXISTS {db}.mv_troubled;
DROP VIEW IF EXISTS {db}.mv_run_deliveries;
DROP VIEW IF EXISTS {db}.mv_event_keys_of_runs;
