package doctor

import (
	"context"
	"math"
	"syscall"
	"time"
)

// Shares of a disk below which free space is a warning or a failure: a log on a full disk rejects events.
const (
	warnFree = 0.15
	failFree = 0.05
)

// Times until a disk is full, at its growth of the last hours, below which it is a warning or a failure.
const (
	warnFull = 7 * 24 * time.Hour
	failFull = 24 * time.Hour
)

func (x *checker) disk(context.Context) Check {
	var fs syscall.Statfs_t
	if err := syscall.Statfs(x.DataDir, &fs); err != nil {
		return warn("pass the data directory of the node with --data-dir",
			"cannot read the disk of the data directory %s: %v",
			x.DataDir, err)
	}
	block := uint64(fs.Bsize) // the types differ between systems
	free, size := uint64(fs.Bavail)*block, uint64(fs.Blocks)*block
	var left, over time.Duration
	if x.FreeBefore != nil {
		before, ago := x.FreeBefore()
		left, over = untilFull(free, before, ago), ago
	}
	return checkDisk(x.DataDir, free, size, left, over)
}

// untilFull returns when a disk will be full if it fills as fast as before; 0 = it does not fill, or it is unknown.
func untilFull(free, before uint64, ago time.Duration) time.Duration {
	if ago <= 0 || before <= free {
		return 0
	}
	return time.Duration(min(float64(free)/float64(before-free)*float64(ago), math.MaxInt64/2))
}

// checkDisk checks the free space, and the time left until there is none at the growth over the last hours.
func checkDisk(dir string, free, size uint64, left, over time.Duration) Check {
	const advice = "delete files or enlarge the disk, or lower RELAY_RETENTION_DAYS: a full disk stops the engines " +
		"that use it"
	share := 1.0
	if size > 0 {
		share = float64(free) / float64(size)
	}
	text := []any{float64(free) / (1 << 30), share * 100, dir}
	format := "%.1f GiB (%.0f %%) free on the disk of %s"
	if left > 0 {
		format += "; at the growth of the last %s it is full in %.1f days"
		text = append(text, formatAge(over), left.Hours()/24)
	}
	switch {
	case share < failFree, left > 0 && left < failFull:
		return fail(advice, format, text...)
	case share < warnFree, left > 0 && left < warnFull:
		return warn(advice, format, text...)
	}
	return ok(format, text...)
}
