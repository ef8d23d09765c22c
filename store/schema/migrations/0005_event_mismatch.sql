-- Where the data of an event does not match the schema of its type, as JSON.
ALTER TABLE {db}.events ADD COLUMN IF NOT EXISTS mismatch String CODEC(ZSTD(1)) AFTER trace;
