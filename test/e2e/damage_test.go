package e2e

import (
	"crypto/rand"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/eventrelay/relay/features/doctor"
	"github.com/eventrelay/relay/test/must"
)

// The doctor notices a damaged part of the store, and a store that was removed.
func TestDoctorFindsADamagedStore(t *testing.T) {
	t.Parallel()
	skipShort(t)
	p := startDevProcess(t, t.TempDir())
	ep, _, _ := p.endpoint(map[string]any{
		"destinations": []any{map[string]any{"url": "https://example.com/h", "enabled": false}}})
	for n := range 50 {
		p.must(202, "POST", "/v1/endpoints/"+ep+"/events",
			map[string]any{"type": "a.b", "data": map[string]any{"n": n,
				"x": rand.Text() + rand.Text() + rand.Text() + rand.Text()}})
	}
	eventually(t, arrival, func() string {
		if n := len(p.list("&endpoint_id="+ep, 100)); n != 50 {
			return fmt.Sprint(n, " are listed")
		}
		return ""
	})
	store := func() doctor.Check {
		t.Helper()
		checks, _ := p.runDoctor()
		return checks["clickhouse"]
	}
	if c := store(); c.State != doctor.StateOK {
		t.Fatalf("before: %+v", c)
	}
	stop := func() { must.Do(t, p.stop(syscall.SIGTERM), "ended with: %s", p.logs) }

	stop()
	flipLargest(t, filepath.Join(p.dir, "clickhouse"), "data.bin")
	p.start()
	if c := store(); c.State != doctor.StateFail || !strings.Contains(strings.Join(c.Details, " "), "damaged") &&
		!strings.Contains(strings.Join(c.Details, " "), "checksums") {
		t.Errorf("with a flipped byte: %+v", c)
	}

	stop()
	must.Do(t, os.RemoveAll(filepath.Join(p.dir, "clickhouse")))
	p.start()
	if c := store(); c.State != doctor.StateFail || !strings.Contains(strings.Join(c.Details, " "), "are missing") {
		t.Errorf("without its data: %+v", c)
	}
}

// flipLargest changes a byte in the middle of the largest file of a name.
func flipLargest(t *testing.T, dir, name string) {
	t.Helper()
	largest, size := "", int64(0)
	must.Do(t, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.Name() != name {
			return err
		}
		info, err := d.Info()
		if err == nil && info.Size() > size {
			largest, size = path, info.Size()
		}
		return err
	}))
	b := must.Get(os.ReadFile(largest))(t)
	b[len(b)/2] ^= 1
	must.Do(t, os.WriteFile(largest, b, 0o600))
}
