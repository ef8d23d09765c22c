package node

import (
	"math"
	"syscall"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
)

// processMetrics returns the metrics of the Go runtime and of the process, and the size and free space of the file
// system that holds the data directory: a full disk stops the embedded engines. Both are NaN if the file system cannot
// be read, so that no alert fires.
func processMetrics(dir string) []prometheus.Collector {
	gauge := func(name, help string, blocks func(*syscall.Statfs_t) uint64) prometheus.Collector {
		return prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, func() float64 {
			var fs syscall.Statfs_t
			if err := syscall.Statfs(dir, &fs); err != nil {
				return math.NaN()
			}
			return float64(blocks(&fs)) * float64(fs.Bsize)
		})
	}
	return []prometheus.Collector{
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
		gauge("relay_data_dir_free_bytes", "Free bytes of the file system that holds the data directory.",
			func(fs *syscall.Statfs_t) uint64 { return fs.Bavail }),
		gauge("relay_data_dir_size_bytes", "Size in bytes of the file system that holds the data directory.",
			func(fs *syscall.Statfs_t) uint64 { return fs.Blocks }),
	}
}
