package clickhouse_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/eventrelay/relay/test/is"
	"github.com/eventrelay/relay/test/kit"
	"github.com/eventrelay/relay/test/must"
)

// niceness returns the nice value of each thread of a process, except for threads whose priority the engine itself
// sets.
func niceness(t *testing.T, process string) (all []int) {
	t.Helper()
	stats := must.Get(filepath.Glob("/proc/" + process + "/task/*/stat"))(t)
	for _, stat := range stats {
		b, err := os.ReadFile(stat)
		if err != nil {
			continue // the thread has ended
		}
		open, end := strings.IndexByte(string(b), '('), strings.LastIndexByte(string(b), ')')
		if string(b[open+1:end]) == "MemoryWorker" {
			continue
		}
		// proc_pid_stat(5): nice is field 19, and these begin with field 3
		n := must.Get(strconv.Atoi(strings.Fields(string(b[end+1:]))[16]))(t)
		all = append(all, n)
	}
	return all
}

// TestEngineHasLowerPriority: the engine's threads are nicer than those of the process that started it, which do not
// change.
func TestEngineHasLowerPriority(t *testing.T) {
	before := niceness(t, "self")[0]
	child, stop := startChild(t, childConfig(t.TempDir(), kit.ChdbLibrary(t)))
	for _, n := range niceness(t, fmt.Sprint(child.PID())) {
		if n != min(before+5, 19) {
			t.Errorf("a thread of the engine has nice value %d, want 5 more than %d", n, before)
		}
	}
	is.OK(t, child.Sync(), "sync")
	stop()
	kit.WaitFor(t, "no thread of this process is nicer", func() bool {
		return !slices.ContainsFunc(niceness(t, "self"), func(n int) bool { return n != before })
	})
}
