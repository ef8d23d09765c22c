-- A merge waits for more parts of like size: with the default of 5 each row was merged twice as often, which cost as much as a
-- seventh of the inserts.
ALTER TABLE {db}.events MODIFY SETTING merge_selector_base = 16;

ALTER TABLE {db}.event_keys MODIFY SETTING merge_selector_base = 16;

ALTER TABLE {db}.events_by_endpoint MODIFY SETTING merge_selector_base = 16;

ALTER TABLE {db}.attempts MODIFY SETTING merge_selector_base = 16;

ALTER TABLE {db}.deliveries MODIFY SETTING merge_selector_base = 16;
