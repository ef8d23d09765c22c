package bench

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

const (
	// linesSeconds is how long a run must last for its memory to be printed, slopeSeconds for its slope: heaps and
	// caches grow during the first minutes.
	linesSeconds, slopeSeconds = 60, 300
	// warmUpShare is the share of a run after which heaps and caches have reached their size.
	warmUpShare = 0.25
	// memoryEvery is the interval of the printed memory figures, in seconds.
	memoryEvery = 10
)

// slopes returns how fast the memory of each process grew after the first quarter of a run, by linear regression.
func slopes(series []Sample) (out []Figure) {
	if len(series) == 0 || series[len(series)-1].At < slopeSeconds {
		return nil
	}
	last := series[len(series)-1]
	for _, name := range slices.Sorted(maps.Keys(last.Memory)) {
		var n, sumX, sumY, sumXX, sumXY float64
		for _, s := range series {
			if s.At < warmUpShare*last.At {
				continue
			}
			x, y := s.At/3600, float64(s.Memory[name])/(1<<20)
			n, sumX, sumY, sumXX, sumXY = n+1, sumX+x, sumY+y, sumXX+x*x, sumXY+x*y
		}
		if d := n*sumXX - sumX*sumX; d > 0 {
			out = append(out, Figure{"memory of " + name, (n*sumXY - sumX*sumY) / d, "MB more per hour"})
		}
	}
	return out
}

// consumerLags returns the lag of each consumer group at the end of a long run. A group that is slower than the load
// shows it here, and in memory and disk use, because the log is not trimmed.
func consumerLags(series []Sample, metrics map[string]float64) (out []Figure) {
	if len(series) == 0 || series[len(series)-1].At < slopeSeconds {
		return nil
	}
	for _, name := range slices.Sorted(maps.Keys(metrics)) {
		if group, ok := strings.CutPrefix(name, `relay_log_unread_records{group="`); ok {
			out = append(out, Figure{"lag of " + strings.TrimSuffix(group, `"}`), metrics[name], "records in the log"})
		}
	}
	return out
}

// memoryLines returns the memory of each process every ten seconds, for runs that are long enough.
func memoryLines(r *Result) (out []string) {
	if len(r.Series) == 0 || r.Series[len(r.Series)-1].At < linesSeconds {
		return nil
	}
	for _, name := range slices.Sorted(maps.Keys(r.Series[len(r.Series)-1].Memory)) {
		var values []string
		next := 0.0
		for _, s := range r.Series {
			if s.At >= next {
				values, next = append(values, fmt.Sprint(s.Memory[name]>>20)), next+memoryEvery
			}
		}
		out = append(out, fmt.Sprintf("MB of %s every %d s: %s", name, memoryEvery, strings.Join(values, " ")))
	}
	return out
}
