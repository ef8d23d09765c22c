package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/eventrelay/relay/test/kit"
)

// disk is a file system in a file, of which the file has only what was synced: the kernel writes nothing back by itself
// for ten minutes. A copy of the file is what a power cut leaves.
type disk struct {
	t     *testing.T
	image string
	dir   string // where it is mounted
}

func newDisk(t *testing.T) *disk {
	d := &disk{t: t, image: filepath.Join(t.TempDir(), "image"), dir: filepath.Join(t.TempDir(), "disk")}
	f, err := os.Create(d.image)
	if err != nil {
		t.Fatal(err)
	}
	if err := f.Truncate(1 << 30); err != nil { // a hole
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("mkfs.ext4", "-q", d.image).CombinedOutput(); err != nil {
		kit.SkipMissing(t, "a file system whose power can be cut: mkfs.ext4: %v %s", err, out)
	}
	d.mount()
	return d
}

func (d *disk) mount() {
	d.t.Helper()
	if err := os.MkdirAll(d.dir, 0o700); err != nil {
		d.t.Fatal(err)
	}
	if out, err := exec.Command("mount", "-o", "loop,commit=600", d.image, d.dir).CombinedOutput(); err != nil {
		kit.SkipMissing(d.t, "a file system whose power can be cut: mount: %v %s", err, out)
	}
	d.t.Cleanup(func() {
		if err := syscall.Unmount(d.dir, syscall.MNT_DETACH); err != nil {
			d.t.Error(err)
		}
	})
}

// cut returns the disk as it is found when power comes back. Nothing may be writing to it.
func (d *disk) cut() *disk {
	d.t.Helper()
	after := &disk{t: d.t, image: d.image + ".after", dir: d.dir + ".after"}
	if out, err := exec.Command("cp", "--sparse=always", d.image, after.image).CombinedOutput(); err != nil {
		d.t.Fatalf("copy the disk: %v %s", err, out)
	}
	after.mount()
	return after
}

// TestPowerCut cuts the power of a machine under traffic. Of its disk only what was synced is there afterwards, and
// that has everything which was answered 2xx: it is delivered, listed and counted.
func TestPowerCut(t *testing.T) {
	long(t)
	t.Parallel()
	dest := newSink(t, nil)
	d := newDisk(t)
	p := startDevProcess(t, filepath.Join(d.dir, "data"))
	endpoint, in, _ := p.endpoint(map[string]any{"destinations": []any{dest.URL}})
	tr := startTraffic(8, time.Millisecond, in)
	tr.wait(t, 500)
	listed := len(p.list("&endpoint_id="+endpoint, 100)) // so that some have been in the store for a while
	time.Sleep(1500 * time.Millisecond)                  // and their offsets are committed
	child := childOf(t, p.cmd.Process.Pid)
	for _, pid := range []int{child, p.cmd.Process.Pid} {
		if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
			t.Fatal(err)
		}
	}
	time.Sleep(500 * time.Millisecond) // a sync that is under way ends
	after := d.cut()
	p.kill()
	accepted := tr.finish()

	p = startDevProcess(t, filepath.Join(after.dir, "data"))
	nothingLost(t, p.topics())
	rows := p.list("&endpoint_id="+endpoint, 100)
	duplicates := settle(t, p.client, dest, "&endpoint_id="+endpoint, accepted, time.Minute)
	// What was delivered and not answered before the cut may be gone.
	if r := settledLedger(t, p.topics()); r.Delivered < len(accepted) {
		t.Errorf("%d were answered 2xx, and the ledger is %v", len(accepted), r.Counts)
	}
	t.Logf("%d accepted, 0 lost, %d duplicates; %d were listed before the cut, %d at once after it", len(accepted),
		duplicates, listed, len(rows))
}
