package node

import (
	"math"
	"strings"
	"syscall"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"github.com/eventrelay/relay/pkg/nodeconfig"
	"github.com/eventrelay/relay/pkg/otlp"
	"github.com/eventrelay/relay/pkg/spans"
)

// nodeMetrics returns what tells nodes apart, and when their certificates expire.
func nodeMetrics(s nodeconfig.Config) []prometheus.Collector {
	info := prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "relay_node_info", Help: "Always 1; the labels are the node's name, version and roles.",
		ConstLabels: prometheus.Labels{"node": s.NodeName, "version": s.Version, "roles": strings.Join(s.Roles, ",")},
	})
	info.Set(1)
	return []prometheus.Collector{info, certificateExpiry(certificateFiles(s))}
}

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

// newTraces creates the recorder of traces. Without RELAY_TRACES_URL it is nil, which its users accept.
func newTraces(n *Node) (runFunc, error) {
	var err error
	n.spans, err = spans.New(n.Settings.Traces(), spans.Deps{Log: n.Log, Metrics: n.registry, Now: n.Now})
	if err != nil || n.spans == nil {
		return nil, err
	}
	return n.spans.Run, nil
}

// newMetricsExport creates what exports the metrics, if RELAY_METRICS_URL is set.
func newMetricsExport(n *Node) (runFunc, error) {
	m, err := otlp.NewMetrics(n.Settings.OTLP(), n.registry, n.Log)
	if err != nil || m == nil {
		return nil, err
	}
	return m.Run, nil
}
