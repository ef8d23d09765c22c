-- deliveries.behind is the event for which a delivery of an ordered destination waits.
ALTER TABLE {db}.deliveries ADD COLUMN IF NOT EXISTS behind String CODEC(ZSTD(1)) AFTER code;
