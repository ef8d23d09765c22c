package doctor

import (
	"context"
	"syscall"
)

// Shares of a disk below which free space is a warning or a failure: a log on a full disk rejects events.
const (
	warnFree = 0.15
	failFree = 0.05
)

func (x *checker) disk(context.Context) Check {
	var fs syscall.Statfs_t
	if err := syscall.Statfs(x.DataDir, &fs); err != nil {
		return warn("pass the data directory of the node with --data-dir",
			"cannot read the disk of the data directory %s: %v",
			x.DataDir, err)
	}
	return checkDisk(x.DataDir, uint64(fs.Bavail)*uint64(fs.Bsize),
		uint64(fs.Blocks)*uint64(fs.Bsize)) // the types differ between systems
}

func checkDisk(dir string, free, size uint64) Check {
	const advice = "delete files or enlarge the disk, or lower RELAY_RETENTION_DAYS: a full disk stops the engines " +
		"that use it"
	share := 1.0
	if size > 0 {
		share = float64(free) / float64(size)
	}
	text := []any{float64(free) / (1 << 30), share * 100, dir}
	const format = "%.1f GiB (%.0f %%) free on the disk of %s"
	switch {
	case share < failFree:
		return fail(advice, format, text...)
	case share < warnFree:
		return warn(advice, format, text...)
	}
	return ok(format, text...)
}
