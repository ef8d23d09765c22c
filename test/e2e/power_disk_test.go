package e2e

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/hanwen/go-fuse/v2/fs"
	"github.com/hanwen/go-fuse/v2/fuse"

	"github.com/eventrelay/relay/test/kit"
	"github.com/eventrelay/relay/test/must"
)

// powerDisk is ext4 on a disk with a volatile write cache: what was written since the last flush may be lost in a power
// cut, wholly or in part. The disk is a file of a FUSE file system behind a loop device, so that the kernel's flushes
// arrive here.
type powerDisk struct {
	t      *testing.T
	dir    string // where ext4 is mounted
	file   *os.File
	path   string // of the file in FUSE
	device string // the loop device

	mu    sync.Mutex // guards what follows
	off   bool       // no power: everything fails
	cache []diskWrite
}

// diskWrite is a write since the last flush.
type diskWrite struct {
	at       int64
	old, new []byte
}

const (
	powerDiskBytes = 2 << 30 // sparse
	sectorBytes    = 512
)

func newPowerDisk(t *testing.T) *powerDisk {
	dir := t.TempDir()
	d := &powerDisk{t: t, dir: filepath.Join(dir, "disk"), file: must.Get(os.Create(filepath.Join(dir, "image")))(t)}
	must.Do(t, d.file.Truncate(powerDiskBytes))
	d.run("mkfs.ext4", "-q", d.file.Name())
	fuseDir := filepath.Join(dir, "fuse")
	must.Do(t, os.Mkdir(fuseDir, 0o700))
	must.Do(t, os.Mkdir(d.dir, 0o700))
	server, err := fs.Mount(fuseDir, &diskRoot{disk: d},
		&fs.Options{MountOptions: fuse.MountOptions{DirectMountStrict: true, MaxWrite: 1 << 20}})
	if err != nil {
		kit.SkipMissing(t, "cannot mount a disk that loses power: %v", err)
	}
	d.path = filepath.Join(fuseDir, "disk")
	t.Cleanup(func() {
		d.unmount()
		must.Do(t, server.Unmount())
		must.Do(t, d.file.Close())
	})
	d.mount()
	return d
}

func (d *powerDisk) run(name string, args ...string) string {
	d.t.Helper()
	out, err := exec.Command(name, args...).CombinedOutput()
	if err != nil {
		kit.SkipMissing(d.t, "cannot make a disk that loses power: %s: %v %s", name, err, out)
	}
	return strings.TrimSpace(string(out))
}

func (d *powerDisk) mount() {
	d.t.Helper()
	d.device = d.run("losetup", "--find", "--show", d.path)
	d.run("mount", d.device, d.dir)
}

func (d *powerDisk) unmount() {
	d.t.Helper()
	eventually(d.t, time.Minute, func() string { // a killed process ends a moment later
		if err := syscall.Unmount(d.dir, 0); err != nil {
			return fmt.Sprintf("cannot unmount %s: %v", d.dir, err)
		}
		return ""
	})
	d.run("losetup", "--detach", d.device)
}

// cut turns the power off. Of what is in the cache the disk keeps a part.
func (d *powerDisk) cut(random *rand.Rand) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.off = true
	for i := len(d.cache) - 1; i >= 0; i-- {
		must.Get(d.file.WriteAt(d.cache[i].old, d.cache[i].at))(d.t)
	}
	keep := func(w diskWrite, from, to int) { must.Get(d.file.WriteAt(w.new[from:to], w.at+int64(from)))(d.t) }
	torn := func(w diskWrite, size int) int { return random.IntN(size/sectorBytes+1) * sectorBytes }
	switch random.IntN(4) {
	case 0: // nothing
	case 1: // all
		for _, w := range d.cache {
			keep(w, 0, len(w.new))
		}
	case 2: // the first writes, and a part of the next one
		if n := len(d.cache); n > 0 {
			last := random.IntN(n)
			for _, w := range d.cache[:last] {
				keep(w, 0, len(w.new))
			}
			keep(d.cache[last], 0, torn(d.cache[last], len(d.cache[last].new)))
		}
	case 3: // any pages, some in part
		for _, w := range d.cache {
			for from := 0; from < len(w.new); from += 4096 {
				to := min(from+4096, len(w.new))
				switch random.IntN(10) {
				case 0:
					keep(w, from, from+torn(w, to-from))
				case 1, 2, 3, 4:
					keep(w, from, to)
				}
			}
		}
	}
	d.cache = nil
}

// restore turns the power on again, and mounts what the disk has.
func (d *powerDisk) restore() {
	d.t.Helper()
	d.unmount()
	d.mu.Lock()
	d.off = false
	d.mu.Unlock()
	d.mount()
}

// diskRoot is the directory of the FUSE file system.
type diskRoot struct {
	fs.Inode
	disk *powerDisk
}

func (r *diskRoot) OnAdd(ctx context.Context) {
	r.AddChild("disk", r.NewPersistentInode(ctx, &diskNode{disk: r.disk}, fs.StableAttr{}), false)
}

// diskNode is the disk.
type diskNode struct {
	fs.Inode
	disk *powerDisk
}

func (n *diskNode) Getattr(_ context.Context, _ fs.FileHandle, out *fuse.AttrOut) syscall.Errno {
	out.Mode, out.Size = 0o600, powerDiskBytes
	return 0
}

func (n *diskNode) Open(context.Context, uint32) (fs.FileHandle, uint32, syscall.Errno) {
	return nil, 0, 0
}

func (n *diskNode) Read(_ context.Context, _ fs.FileHandle, b []byte, at int64) (fuse.ReadResult, syscall.Errno) {
	read, err := n.disk.file.ReadAt(b, at)
	if err != nil && read == 0 {
		return nil, syscall.EIO
	}
	return fuse.ReadResultData(b[:read]), 0
}

func (n *diskNode) Write(_ context.Context, _ fs.FileHandle, b []byte, at int64) (uint32, syscall.Errno) {
	d := n.disk
	d.mu.Lock()
	defer d.mu.Unlock()
	w := diskWrite{at, make([]byte, len(b)), append([]byte(nil), b...)}
	if d.off {
		return 0, syscall.EIO
	}
	if _, err := d.file.ReadAt(w.old, at); err != nil {
		return 0, syscall.EIO
	}
	if _, err := d.file.WriteAt(b, at); err != nil {
		return 0, syscall.EIO
	}
	d.cache = append(d.cache, w)
	return uint32(len(b)), 0
}

func (n *diskNode) Fsync(context.Context, fs.FileHandle, uint32) syscall.Errno {
	n.disk.mu.Lock()
	defer n.disk.mu.Unlock()
	if n.disk.off {
		return syscall.EIO
	}
	n.disk.cache = nil
	return 0
}
