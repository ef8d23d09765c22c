package doctor

import (
	"context"
	"sync"
	"syscall"
	"time"
)

const (
	diskInterval = 10 * time.Minute
	diskSpan     = 6 * time.Hour // of which the growth is measured
	diskLeast    = time.Hour     // shorter spans say nothing: merges of the store need space for a while
)

// diskHistory knows how much of the data directory's disk was free in the last hours.
type diskHistory struct {
	free func() (uint64, error)
	now  func() time.Time

	mu      sync.Mutex
	samples []diskSample // the oldest first, at most diskSpan old
}

type diskSample struct {
	at   time.Time
	free uint64
}

func newDiskHistory(dataDir string, now func() time.Time) *diskHistory {
	return &diskHistory{now: now, free: func() (uint64, error) {
		var fs syscall.Statfs_t
		err := syscall.Statfs(dataDir, &fs)
		return uint64(fs.Bavail) * uint64(fs.Bsize), err // the types differ between systems
	}}
}

// Run takes a sample every diskInterval until ctx ends.
func (d *diskHistory) Run(ctx context.Context) error {
	tick := time.NewTicker(diskInterval)
	defer tick.Stop()
	for {
		if free, err := d.free(); err == nil { // the doctor reports an error itself
			d.mu.Lock()
			d.samples = append(d.samples, diskSample{d.now(), free})
			for d.now().Sub(d.samples[0].at) > diskSpan {
				d.samples = d.samples[1:]
			}
			d.mu.Unlock()
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// before returns the oldest sample; 0 = there is none that is old enough.
func (d *diskHistory) before() (free uint64, ago time.Duration) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.samples) == 0 {
		return 0, 0
	}
	if ago = d.now().Sub(d.samples[0].at); ago < diskLeast {
		return 0, 0
	}
	return d.samples[0].free, ago
}
