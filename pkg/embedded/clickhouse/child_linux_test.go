package clickhouse_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/eventrelay/relay/test/kit"
)

// niceness returns that of each thread of a process, but for one that the engine gives a priority itself.
func niceness(t *testing.T, process string) (all []int) {
	t.Helper()
	stats, err := filepath.Glob("/proc/" + process + "/task/*/stat")
	if err != nil {
		t.Fatal(err)
	}
	for _, stat := range stats {
		b, err := os.ReadFile(stat)
		if err != nil {
			continue // the thread has ended
		}
		open, end := strings.IndexByte(string(b), '('), strings.LastIndexByte(string(b), ')')
		if string(b[open+1:end]) == "MemoryWorker" {
			continue
		}
		// proc_pid_stat(5): the 19th, and these begin with the 3rd
		n, err := strconv.Atoi(strings.Fields(string(b[end+1:]))[16])
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, n)
	}
	return all
}

// The engine's threads give way to those of the process that started it, which stay what they are.
func TestEngineGivesWay(t *testing.T) {
	before := niceness(t, "self")[0]
	child, stop := startChild(t, childConfig(t.TempDir(), kit.ChdbLibrary(t)))
	for _, n := range niceness(t, fmt.Sprint(child.PID())) {
		if n != min(before+5, 19) {
			t.Errorf("a thread of the engine has niceness %d, want 5 more than %d", n, before)
		}
	}
	if err := child.Sync(); err != nil {
		t.Errorf("sync: %v", err)
	}
	stop()
	eventually(t, "no thread of this process is nicer", func() bool {
		return !slices.ContainsFunc(niceness(t, "self"), func(n int) bool { return n != before })
	})
}
