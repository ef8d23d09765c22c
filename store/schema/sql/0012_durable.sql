-- What the log cannot bring back is on the disk before the insert is answered, also on a server that syncs no part: a
-- recovery job relies on its selection from then on.
ALTER TABLE {db}.recovery_items MODIFY SETTING fsync_after_insert = 1, fsync_part_directory = 1;
