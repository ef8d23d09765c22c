-- Lists by what few of the troubled are (held, pending, a rare type) pass over granules without any. A row that a later one
-- has replaced may be found by its old status: deliveries FINAL answers.
ALTER TABLE {db}.troubled ADD INDEX IF NOT EXISTS by_status status TYPE set(8) GRANULARITY 1;
ALTER TABLE {db}.troubled ADD INDEX IF NOT EXISTS by_type type TYPE set(64) GRANULARITY 1;
