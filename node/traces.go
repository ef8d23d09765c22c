package node

import (
	"time"

	"github.com/eventrelay/relay/pkg/otlp"
	"github.com/eventrelay/relay/pkg/spans"
)

// Traces returns how traces are recorded and exported.
func (s Config) Traces() spans.Config {
	return spans.Config{
		URL: s.TracesURL, Headers: s.TracesHeaders, Sample: s.TracesSample, Node: s.NodeName, Version: s.Version,
		CAFile: s.EgressCAFile, DNSServer: s.DNSServer,
	}
}

// OTLP returns how metrics and log lines are exported.
func (s Config) OTLP() otlp.Config {
	return otlp.Config{
		Metrics: s.collector(s.MetricsURL, s.MetricsHeaders), Logs: s.collector(s.LogsURL, s.LogsHeaders),
		Every: time.Duration(s.MetricsSeconds) * time.Second, Node: s.NodeName, Version: s.Version,
	}
}

func (s Config) collector(url, headers string) otlp.Collector {
	return otlp.Collector{URL: url, Headers: headers, CAFile: s.EgressCAFile, DNSServer: s.DNSServer}
}

// newTraces creates the recorder of traces. Without RELAY_TRACES_URL it is nil, which its users accept.
func newTraces(n *Node) (runFunc, error) {
	var err error
	n.spans, err = spans.New(n.settings.Traces(), spans.Deps{Log: n.log, Metrics: n.registry, Now: n.now})
	if err != nil || n.spans == nil {
		return nil, err
	}
	return n.spans.Run, nil
}

// newMetricsExport creates what exports the metrics, if RELAY_METRICS_URL is set.
func newMetricsExport(n *Node) (runFunc, error) {
	m, err := otlp.NewMetrics(n.settings.OTLP(), n.registry, n.log)
	if err != nil || m == nil {
		return nil, err
	}
	return m.Run, nil
}
