-- The writer inserts event_keys and events_by_endpoint itself. Until then both do, which makes equal rows that merges remove.
DROP VIEW IF EXISTS {db}.mv_event_keys;

DROP VIEW IF EXISTS {db}.mv_events_by_endpoint;
