package capacity

import "fmt"

// measurements is where the figures of costs.go were measured.
const measurements = "tools/bench/capacity.md"

// assumptions lists every figure of the plan that is not of the work itself.
func (w Work) assumptions(p Plan) []Assumption {
	cpu := func(process string) string {
		return fmt.Sprintf("%.2f cores + %s µs an event", costs[process].running, number(w.microseconds(process)))
	}
	out := []Assumption{
		{"peak", number(w.Peak) + " times the mean", "--peak"},
		{"log", number(p.LogBytes) + " B an event in each of " + number(replicas) + " replicas", "measured, not compressed"},
		{"log's disks", fmt.Sprintf("room for %d h without ClickHouse and %d min at the peak, %.0f %% full", w.LogHours,
			keepMinutes, 100*full), "--log-hours; RELAY_LOG_KEEP_MINUTES"},
		{"store", number(p.StoreBytes) + " B an event, bodies at " + number(w.Compression) + " of their size",
			"measured after merges; --compression"},
		{"store's disks", fmt.Sprintf("%d days of the mean rate, %.0f %% full, up to %.0f TB a server", w.RetentionDays,
			100*full, shardBytes/1e12), "--retention"},
	}
	for _, process := range append(Nodes, Kafka, ClickHouse, Redis) {
		out = append(out, Assumption{"CPU of " + process, cpu(process), "measured"})
	}
	return append(out,
		Assumption{"merging", fmt.Sprintf("%d µs of ClickHouse's CPU an event besides", merging),
			"measured: all parts merged once"},
		Assumption{"range", "a linear model of 60 to 1,000 events a second and 70 to 930 requests; more is extrapolated",
			measurements},
		Assumption{"not included", "reads and searches, TLS at ingest, transformations, destinations that hang",
			"the other part of the load is for them"},
		Assumption{"load", fmt.Sprintf("%.0f %% of %d cores at the peak", 100*load, w.Cores), "60 % is assumed; --cores"},
		Assumption{"failures", "one broker and one node of each role may fail",
			"assumed; ClickHouse and Redis have no spare"},
		Assumption{"partitions", fmt.Sprintf("%d for each node that dispatches, up to %d requests a second each",
			partitionsPerNode, requestsPerPartition), "tools/bench/README.md: one took six times as many"},
		Assumption{"memory of a node", fmt.Sprintf("%d GB", nodeGB), "measured 0.4 GB at most; the rest is for bursts"},
		Assumption{"memory of a broker", fmt.Sprintf("%d GB and %d s of the log", brokerGB, cachedSeconds),
			"assumed; its process took 0.7 GB"},
		Assumption{"memory of ClickHouse", fmt.Sprintf("%d GB a core, at least %d", clickhouseCoreGB, clickhouseGB),
			"assumed; its process took 0.5 GB while it wrote"},
		Assumption{"memory of Redis", fmt.Sprintf("1 GB, and %d B for each event of %d h that is deduplicated: %s of all",
			claimBytes, claimSeconds/3600, number(w.Deduplicated)), "measured; --deduplicated"},
	)
}

// microseconds is the CPU of a kind of process for one event, without what it uses while it runs.
func (w Work) microseconds(process string) float64 {
	return (w.CPU(process, 1) - costs[process].running) * 1e6
}
