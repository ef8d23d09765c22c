package node

import "github.com/eventrelay/relay/pkg/spans"

// Traces returns how traces are recorded and exported.
func (s Config) Traces() spans.Config {
	return spans.Config{
		URL: s.TracesURL, Headers: s.TracesHeaders, Sample: s.TracesSample, Node: s.NodeName, Version: s.Version,
		CAFile: s.EgressCAFile, DNSServer: s.DNSServer,
	}
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
