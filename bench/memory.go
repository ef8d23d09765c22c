package bench

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

const (
	// linesSeconds is how long a run must last for its memory to be printed, slopeSeconds for the slope of it: in the
	// first minutes heaps and caches grow to the size that the load makes them.
	linesSeconds, slopeSeconds = 60, 300
	// grownUp is the share of a run after which caches and heaps are as large as the load makes them.
	grownUp = 0.25
	// memoryEvery is the time from one memory figure to the next that is printed, in seconds.
	memoryEvery = 10
)

// slopes say how fast the memory of each process has grown after the first quarter of a run: the line through its
// samples that has the least squares.
func slopes(series []Sample) (out []Figure) {
	if len(series) == 0 || series[len(series)-1].At < slopeSeconds {
		return nil
	}
	last := series[len(series)-1]
	for _, name := range slices.Sorted(maps.Keys(last.Memory)) {
		var n, sumX, sumY, sumXX, sumXY float64
		for _, s := range series {
			if s.At < grownUp*last.At {
				continue
			}
			x, y := s.At/3600, float64(s.Memory[name])/(1<<20)
			n, sumX, sumY, sumXX, sumXY = n+1, sumX+x, sumY+y, sumXX+x*x, sumXY+x*y
		}
		if d := n*sumXX - sumX*sumX; d > 0 {
			out = append(out, Figure{"memory of " + name, (n*sumXY - sumX*sumY) / d, "MB more an hour"})
		}
	}
	return out
}

// behind is what each group had left undone in the log at the end of a long run, as it was looked at last. One that is
// slower than events come shows it here, and in memory and disk, for the log is not trimmed.
func behind(series []Sample, metrics map[string]float64) (out []Figure) {
	if len(series) == 0 || series[len(series)-1].At < slopeSeconds {
		return nil
	}
	for _, name := range slices.Sorted(maps.Keys(metrics)) {
		if group, ok := strings.CutPrefix(name, `relay_log_unread_records{group="`); ok {
			out = append(out, Figure{"left by " + strings.TrimSuffix(group, `"}`), metrics[name], "records in the log"})
		}
	}
	return out
}

// memoryLines are the memory of each process every ten seconds, of a run that is long enough.
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
