package doctor

import (
	"bufio"
	"context"
	"fmt"
	"io/fs"
	"path"
	"strconv"
	"strings"
)

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
