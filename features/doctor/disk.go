package doctor

import (
	"bufio"
	"context"
	"fmt"
	"io/fs"
	"math"
	"path"
	"strconv"
	"strings"
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

// warnMemory is the share of the memory in use from which it is a warning: a merge of ClickHouse may need the rest.
const warnMemory = 0.9

func (x *checker) memory(context.Context) Check {
	const advice = "give the machine or the control group (MemoryMax in systemd, --memory in Docker) more memory, or " +
		"stop what else uses it: without memory the system kills the relay or its store"
	used, limit, err := readMemory(x.Memory)
	if err != nil {
		return warn("make /proc and /sys readable for the node", "cannot read the memory in use: %v", err)
	}
	const format = "%.1f of %.1f GiB of memory in use"
	text := []any{used / (1 << 30), limit / (1 << 30)}
	if used > warnMemory*limit {
		return warn(advice, format, text...)
	}
	return ok(format, text...)
}

// readMemory returns the memory in use and its limit, in bytes: of the machine, or of the control group (version 2)
// with the least memory left. Files that the system would drop from its cache do not count.
func readMemory(system fs.FS) (used, limit float64, err error) {
	machine, err := readNumbers(system, "proc/meminfo")
	if err != nil {
		return 0, 0, err
	}
	limit = machine["MemTotal:"] * 1024
	used = limit - machine["MemAvailable:"]*1024
	groups, _ := fs.ReadFile(system, "proc/self/cgroup")
	_, dir, found := strings.Cut("\n"+string(groups), "\n0::/")
	if !found {
		return used, limit, nil
	}
	dir, _, _ = strings.Cut(dir, "\n")
	for dir = path.Join("sys/fs/cgroup", dir); strings.HasPrefix(dir, "sys/fs/cgroup"); dir = path.Dir(dir) {
		most, limited := readNumber(system, dir+"/memory.max")
		current, known := readNumber(system, dir+"/memory.current")
		stat, err := readNumbers(system, dir+"/memory.stat")
		if current -= stat["inactive_file"]; limited && known && err == nil && most-current < limit-used {
			used, limit = current, most
		}
	}
	return used, limit, nil
}

// readNumber reads a file with one number; "max" is none.
func readNumber(system fs.FS, name string) (float64, bool) {
	text, _ := fs.ReadFile(system, name)
	n, err := strconv.ParseFloat(strings.TrimSpace(string(text)), 64)
	return n, err == nil
}

// readNumbers reads lines with a name and a number.
func readNumbers(system fs.FS, name string) (map[string]float64, error) {
	f, err := system.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	numbers := make(map[string]float64)
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		if fields := strings.Fields(lines.Text()); len(fields) > 1 {
			if n, err := strconv.ParseFloat(fields[1], 64); err == nil {
				numbers[fields[0]] = n
			}
		}
	}
	if lines.Err() == nil && len(numbers) == 0 {
		return nil, fmt.Errorf("%s has no numbers", name)
	}
	return numbers, lines.Err()
}
