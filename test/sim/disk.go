package sim

import (
	"bytes"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/eventrelay/relay/pkg/segment"
)

// disk is the disk of a machine with the kernel's page cache over it. A power cut leaves what was synced, and by chance
// more: of what was written to a file nothing, all, a prefix that may end in the middle of a write, or sectors of any
// moment; of the names of files those of the last sync of the directory, and the first changes after it: journals keep
// their order.
type disk struct {
	w *World

	mu        sync.Mutex        // guards the fields below
	names     map[string]*inode // as processes see them
	onDisk    map[string]*inode // as of the last sync of the directory
	changes   []change          // of names, since then
	holder    *life             // has the lock
	full      bool
	room      int // bytes that files may still grow while it is full
	slow      time.Duration
	failSync  bool // the next sync fails
	countdown int  // operations until end is called; 0: it is not
	end       func(*life)
}

// inode is the content of a file.
type inode struct {
	cached []byte
	synced []byte
	first  int      // number of the first operation of dirty
	dirty  []fileOp // since the last sync
}

// fileOp is a write, or a truncation if data is nil.
type fileOp struct {
	data []byte
	at   int
}

// change is a new, renamed or removed name.
type change struct {
	name string
	file *inode // nil: the name is removed
	from string // the name that goes away with it; "": none
}

const sectorBytes = 512

func newDisk(w *World) *disk {
	return &disk{w: w, names: make(map[string]*inode), onDisk: make(map[string]*inode)}
}

func (o fileOp) apply(b []byte) []byte {
	if grow := o.at + len(o.data) - len(b); grow > 0 {
		b = append(b, make([]byte, grow)...)
	}
	if o.data == nil {
		return b[:o.at:o.at]
	}
	copy(b[o.at:], o.data)
	return b
}

func (c change) apply(names map[string]*inode) {
	delete(names, c.from)
	if c.file == nil {
		delete(names, c.name)
	} else {
		names[c.name] = c.file
	}
}

// keepCache lets the page cache outlive the process; the caller holds mu.
func (d *disk) keepCache() { d.holder = nil }

// forget makes the disk and the page cache what a machine finds after a power cut; the caller holds mu.
func (d *disk) forget() {
	for _, c := range d.changes[:d.w.intn(len(d.changes)+1)] {
		c.apply(d.onDisk)
	}
	d.names, d.changes, d.holder = maps.Clone(d.onDisk), nil, nil
	for _, name := range slices.Sorted(maps.Keys(d.names)) {
		f := d.names[name]
		f.forget(d.w, len(f.dirty))
	}
}

// forget leaves of the first n operations that were not synced what a power cut may leave.
func (f *inode) forget(w *World, n int) {
	if n == 0 {
		f.setAll(f.synced, n)
		return
	}
	after := [][]byte{f.synced}
	for _, o := range f.dirty[:n] {
		after = append(after, o.apply(bytes.Clone(after[len(after)-1])))
	}
	switch w.intn(4) {
	case 0:
		f.setAll(f.synced, n)
	case 1:
		f.setAll(after[n], n)
	case 2:
		at := w.intn(n)
		o := f.dirty[at]
		if len(o.data) > 0 {
			o.data = o.data[:w.intn(len(o.data)+1)]
		}
		f.setAll(o.apply(after[at]), n)
	default: // the length is that of one moment, and each sector that of another
		b := bytes.Clone(after[w.intn(n+1)])
		for from := 0; from < len(b); from += sectorBytes {
			sector := b[from:min(from+sectorBytes, len(b))]
			clear(sector)
			if of := after[w.intn(n+1)]; from < len(of) {
				copy(sector, of[from:])
			}
		}
		f.setAll(b, n)
	}
}

// setAll makes b what is on disk and in the page cache.
func (f *inode) setAll(b []byte, n int) {
	f.cached, f.synced, f.first, f.dirty = bytes.Clone(b), b, f.first+n, nil
}

// mount is the disk as one process sees it: a process that is killed changes nothing any more.
type mount struct {
	*disk
	life *life
}

// enter waits while the process is paused, and locks the disk.
func (m mount) enter() error {
	m.life.node.gate()
	m.mu.Lock()
	if m.life.dead.Load() || m.life.unlocked.Load() {
		m.mu.Unlock()
		return errCut
	}
	if m.countdown > 0 {
		if m.countdown--; m.countdown == 0 {
			m.end(m.life)
			m.mu.Unlock()
			return errCut
		}
	}
	return nil
}

// takes lets time pass for an operation of the disk. Without the runtime of the simulation, whose clock stands while
// somebody waits for a mutex, an operation takes no time.
func (m mount) takes(d time.Duration) {
	if seeded {
		time.Sleep(d)
	}
}

// Lock implements segment.Disk.
func (m mount) Lock(string) (unlock func(), err error) {
	if err := m.enter(); err != nil {
		return nil, err
	}
	defer m.mu.Unlock()
	if h := m.holder; h != nil && !h.dead.Load() {
		return nil, fmt.Errorf("life %d of %s has the lock", h.number, h.node.name)
	}
	m.holder = m.life
	return func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		if m.holder == m.life {
			m.holder = nil
			m.life.unlocked.Store(true)
		}
	}, nil
}

// ReadDir implements segment.Disk.
func (m mount) ReadDir(dir string) (names []string, err error) {
	if err := m.enter(); err != nil {
		return nil, err
	}
	defer m.mu.Unlock()
	for _, path := range slices.Sorted(maps.Keys(m.names)) {
		if filepath.Dir(path) == dir {
			names = append(names, filepath.Base(path))
		}
	}
	return names, nil
}

// SyncDir implements segment.Disk. There is one directory.
func (m mount) SyncDir(string) error {
	if err := m.enter(); err != nil {
		return err
	}
	n, took := len(m.changes), m.syncTime()
	m.mu.Unlock()
	m.takes(took)
	if err := m.enter(); err != nil {
		return err
	}
	defer m.mu.Unlock()
	n = min(n, len(m.changes)) // two at once
	for _, c := range m.changes[:n] {
		c.apply(m.onDisk)
	}
	m.changes = m.changes[n:]
	return nil
}

// syncTime is how long a sync takes; the caller holds mu.
func (m mount) syncTime() time.Duration {
	return m.w.latency() + time.Duration(m.w.intn(int(m.slow/time.Millisecond)+1))*time.Millisecond
}

// Open implements segment.Disk.
func (m mount) Open(path string, flag int) (segment.File, error) {
	if err := m.enter(); err != nil {
		return nil, err
	}
	defer m.mu.Unlock()
	f := m.names[path]
	switch {
	case f == nil && flag&os.O_CREATE == 0:
		return nil, &fs.PathError{Op: "open", Path: path, Err: fs.ErrNotExist}
	case f == nil && m.full && m.room <= 0:
		return nil, &fs.PathError{Op: "open", Path: path, Err: syscall.ENOSPC}
	case f == nil:
		f = new(inode)
		m.change(change{name: path, file: f})
	case flag&os.O_TRUNC != 0:
		f.do(fileOp{})
	}
	return &handle{m, f, path}, nil
}

func (m mount) change(c change) {
	c.apply(m.names)
	m.changes = append(m.changes, c)
}

// Rename implements segment.Disk.
func (m mount) Rename(from, to string) error {
	if err := m.enter(); err != nil {
		return err
	}
	defer m.mu.Unlock()
	m.change(change{name: to, file: m.names[from], from: from})
	return nil
}

// Remove implements segment.Disk.
func (m mount) Remove(path string) error {
	if err := m.enter(); err != nil {
		return err
	}
	defer m.mu.Unlock()
	if m.names[path] == nil {
		return &fs.PathError{Op: "remove", Path: path, Err: fs.ErrNotExist}
	}
	m.change(change{name: path})
	return nil
}

func (f *inode) do(o fileOp) {
	f.cached = o.apply(f.cached)
	f.dirty = append(f.dirty, o)
}

// handle is an open file.
type handle struct {
	mount
	*inode
	path string
}

// ReadAt implements segment.File.
func (h *handle) ReadAt(b []byte, at int64) (int, error) {
	if err := h.enter(); err != nil {
		return 0, err
	}
	defer h.mu.Unlock()
	if len(b) == 0 {
		return 0, nil
	}
	return bytes.NewReader(h.cached).ReadAt(b, at)
}

// WriteAt implements segment.File. A disk that is full takes a part.
func (h *handle) WriteAt(b []byte, at int64) (int, error) {
	if h.w.intn(8) == 0 {
		h.takes(h.w.latency())
	}
	if err := h.enter(); err != nil {
		return 0, err
	}
	defer h.mu.Unlock()
	n := len(b)
	if grow := int(at) + n - len(h.cached); h.full && grow > 0 {
		n -= max(grow-h.room, 0)
		h.room = max(h.room-grow, 0)
	}
	if n > 0 {
		h.do(fileOp{bytes.Clone(b[:n]), int(at)})
	}
	if n < len(b) {
		return n, &fs.PathError{Op: "write", Path: h.path, Err: syscall.ENOSPC}
	}
	return n, nil
}

// Size implements segment.File.
func (h *handle) Size() (int64, error) {
	if err := h.enter(); err != nil {
		return 0, err
	}
	defer h.mu.Unlock()
	return int64(len(h.cached)), nil
}

// Truncate implements segment.File.
func (h *handle) Truncate(size int64) error {
	if err := h.enter(); err != nil {
		return err
	}
	defer h.mu.Unlock()
	h.room += max(len(h.cached)-int(size), 0)
	h.do(fileOp{nil, int(size)})
	return nil
}

// Sync implements segment.File. What was written when it began is on disk when it ends. One that fails drops it from
// the page cache, too.
func (h *handle) Sync() error {
	if err := h.enter(); err != nil {
		return err
	}
	until, took := h.first+len(h.dirty), h.syncTime()
	h.mu.Unlock()
	h.takes(took)
	if err := h.enter(); err != nil {
		return err
	}
	defer h.mu.Unlock()
	if h.failSync {
		h.failSync = false
		h.w.trace("a sync of %s fails", h.path)
		h.forget(h.w, len(h.dirty))
		return &fs.PathError{Op: "fdatasync", Path: h.path, Err: syscall.EIO}
	}
	for _, o := range h.dirty[:max(until-h.first, 0)] {
		h.synced = o.apply(h.synced)
	}
	h.dirty, h.first = h.dirty[max(until-h.first, 0):], max(until, h.first)
	return nil
}

// Close implements segment.File.
func (h *handle) Close() error { return nil }

var _ segment.Disk = mount{}
