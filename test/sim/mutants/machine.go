package main

// onMachine are faults of the log of one machine: worlds with the flag -machine look for them.
var onMachine = []mutant{
	{"acknowledge before the sync", "pkg/segment/ack.go", "	if a.syncs && err == nil {\n", "	if false {\n"},
	{"forget the name of a new file", "pkg/segment/partition.go", "	if err := disk.SyncDir(p.log.cfg.Dir); err != nil {\n",
		"	if err != nil {\n"},
	{"leave a full file without a sync", "pkg/segment/partition.go",
		"	if p.file != nil && p.synced.Load() < p.end.Load() {", "	if p.file != nil && base < 0 {"},
	{"a torn record counts", "pkg/segment/frame.go",
		"	return f, size, ok && crc32.Update(seed, castagnoli, b[prefixBytes:size]) == binary.LittleEndian.Uint32(b[4:])\n",
		"	return f, size, ok\n"},
	{"commit before the records are on disk", "pkg/segment/state.go", "		if err := l.syncDirty(); err != nil {\n",
		"		if err := l.err(); err != nil {\n"},
	{"try a failed sync again", "pkg/segment/partition.go", "		return err\n	}\n" +
		"	if err := p.file.Sync(); err != nil {\n		p.log.fail(err)\n		return p.log.err()\n	}\n	p.synced",
		"		return err\n	}\n	if err := p.file.Sync(); err != nil && p.file.Sync() != nil {\n		p.log.fail(err)\n" +
			"		return p.log.err()\n	}\n	p.synced"},
	{"cut off a whole record", "pkg/segment/recover.go", "	for end = from; end < len(b); {\n",
		"	for end = from; end+600 < len(b); {\n"},
	{"a write on a full disk counts", "pkg/segment/partition.go", "		if err != nil {\n			p.failLocked(b, err)\n",
		"		if err != nil && p.log.err() != nil {\n			p.failLocked(b, err)\n"},
	{"trim the file that has the start", "pkg/segment/partition.go",
		"	for len(p.segments) > 1 && p.segments[1].base <= p.start {\n",
		"	for len(p.segments) > 1 && p.segments[0].base <= p.start {\n"},
	{"skip a record", "pkg/stream/local_group.go", "		b.of.next = b.records[len(b.records)-1].Offset + 1\n",
		"		b.of.next = b.records[len(b.records)-1].Offset + 1 + int64(len(b.records)/3)\n"},
	{"cut off a failed write in memory only", "pkg/segment/partition.go",
		"(size); err != nil {\n		return err\n	}\n	if err := p.file.Sync(); err != nil {",
		"(size); err != nil {\n		return err\n	}\n	if err := p.log.err(); err != nil {"},
	{"a torn write is not stored", "pkg/stream/local_producer.go", " && !errors.Is(err, segment.ErrTorn) &&\n", " &&\n"},
}
