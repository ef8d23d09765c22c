package doctor

import (
	"context"
	"syscall"
)

// Shares of a disk that should be free: a log that finds no room refuses events.
const (
	warnFree = 0.15
	failFree = 0.05
)

func (x *examination) disk(context.Context) Check {
	var fs syscall.Statfs_t
	if err := syscall.Statfs(x.DataDir, &fs); err != nil {
		return warn("name the data directory with --data-dir", "the data directory %s cannot be looked at: %v",
			x.DataDir, err)
	}
	return judgeDisk(x.DataDir, uint64(fs.Bavail)*uint64(fs.Bsize),
		uint64(fs.Blocks)*uint64(fs.Bsize)) //nolint:unconvert // their types differ between systems
}

func judgeDisk(dir string, free, size uint64) Check {
	const advice = "make room: a full disk stops what keeps its data there"
	share := 1.0
	if size > 0 {
		share = float64(free) / float64(size)
	}
	text := []any{float64(free) / (1 << 30), share * 100, dir}
	const format = "%.1f GiB (%.0f %%) are free where %s is"
	switch {
	case share < failFree:
		return fail(advice, format, text...)
	case share < warnFree:
		return warn(advice, format, text...)
	}
	return ok(format, text...)
}
