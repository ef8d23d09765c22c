package bench

import (
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"time"
)

// table prints a result as text.
func table(w io.Writer, r *Result) {
	fmt.Fprintf(w, "%s, %s: %d accepted, %d refused, %d lost, %d duplicates\n", r.Scenario, r.Settings, r.Accepted,
		r.Refused, r.Lost, r.Duplicates)
	relay := r.relayCost()
	fmt.Fprintf(w, "  accepted/s %.0f   delivered/s %.0f   CPU µs/event %.0f (%s)   mallocs/event %.0f   B/event %.0f\n",
		rate(r.Accepted, r.PostSeconds), rate(r.Delivered, r.AllSeconds), relay, r.costs(), r.Mallocs, r.Bytes)
	streamLines(w, r.Streams)
	ready := ""
	if r.ReadyMS > 0 {
		ready = fmt.Sprintf("ready in %v   ", time.Duration(r.ReadyMS)*time.Millisecond)
	}
	each := ""
	for _, p := range r.CPU {
		if p.RSSMax > 0 {
			each += fmt.Sprintf("; %s %d, max %d", p.Name, p.RSS>>20, p.RSSMax>>20)
		}
	}
	fmt.Fprintf(w, "  %sRSS idle %d MB, loaded %d MB, max %d MB%s   disk %d B/event   load average %.1f → %.1f\n",
		ready, r.RSSIdle>>20, r.RSSLoaded>>20, r.RSSMax>>20, each, r.Disk, r.Machine.LoadBefore, r.Machine.LoadAfter)
	fmt.Fprintf(w, "  %s\n", r.Machine.Disk)
	for _, line := range memoryLines(r) {
		fmt.Fprintf(w, "  %s\n", line)
	}
	for _, f := range r.Figures {
		fmt.Fprintf(w, "  %s: %s %s\n", f.Name, number(f.Value), f.Unit)
	}
	if len(r.Batches) > 0 {
		parts := make([]string, len(r.Batches))
		for i, b := range r.Batches {
			parts[i] = fmt.Sprintf("%s %s", b.Name, number(b.Mean))
		}
		fmt.Fprintf(w, "  batches: %s\n", strings.Join(parts, ", "))
	}
	if len(r.Idle) > 0 {
		parts := make([]string, len(r.Idle))
		for i, p := range r.Idle {
			parts[i] = fmt.Sprintf("%s %.2f %%", p.Name, 100*p.Cores)
		}
		fmt.Fprintf(w, "  idle: %s of a core\n", strings.Join(parts, ", "))
	}
	for _, s := range r.Stages {
		fmt.Fprintf(w, "  %-14s %5.1f %%  %6.1f µs/event  in system calls %3.0f %%", s.Name, 100*s.Share, s.PerEvent,
			100*s.Syscalls)
		if s.Mallocs > 0 {
			fmt.Fprintf(w, "  mallocs/event %5.1f  B/event %6.0f", s.Mallocs, s.Bytes)
		}
		fmt.Fprintln(w)
	}
}

// streamLines prints the results of each stream.
func streamLines(w io.Writer, streams []Stream) {
	for _, s := range streams {
		name := ""
		if len(streams) > 1 {
			name = s.Name + ": "
			fmt.Fprintf(w, "  %s%d accepted, %d refused\n", name, s.Accepted, s.Refused)
		}
		fmt.Fprintf(w, "  %-22s %s\n", name+"accept", s.Accept)
		for _, a := range s.Arrivals {
			to := name + "post→arrival"
			if len(s.Arrivals) > 1 {
				to += fmt.Sprintf(" %d", a.Destination)
			}
			fmt.Fprintf(w, "  %-22s %s%s\n", to, a.Latency, a.faults())
		}
		if s.Late > 0 {
			fmt.Fprintf(w, "  %s%d events were posted more than 10 ms late, because a connection or CPU was missing; their "+
				"latency counts from their due time\n", name, s.Late)
		}
		if s.Refused > 0 {
			fmt.Fprintf(w, "  %sanswers by status (0 = none): %s\n", name, statusCounts(s.Answers))
			if s.NoAnswer != "" {
				fmt.Fprintf(w, "  %sthe first without an answer: %s\n", name, s.NoAnswer)
			}
		}
	}
}

// relayCost returns the CPU time of the relay and its engines, in microseconds per event.
func (r *Result) relayCost() (sum float64) {
	for _, p := range r.CPU {
		if p.Name != "load" && p.Name != "sink" {
			sum += p.PerEvent
		}
	}
	return sum
}

func (r *Result) costs() string {
	parts := make([]string, len(r.CPU))
	for i, p := range r.CPU {
		parts[i] = fmt.Sprintf("%s %.1f", p.Name, p.PerEvent)
		if p.Name == "load" {
			parts[i] = "benchmark: " + parts[i]
		}
	}
	return strings.Join(parts, ", ")
}

// String returns the quantiles for a table.
func (l Latency) String() string {
	ms := func(v float64) time.Duration { return time.Duration(v*1000) * time.Microsecond }
	return fmt.Sprintf("p50 %v  p99 %v  p99.9 %v  max %v", ms(l.P50), ms(l.P99), ms(l.P999), ms(l.Max))
}

func (a Arrival) faults() string {
	var s string
	if a.Lost > 0 {
		s += fmt.Sprintf("  %d lost", a.Lost)
	}
	if a.Duplicates > 0 {
		s += fmt.Sprintf("  %d duplicates", a.Duplicates)
	}
	if a.Requests > a.Arrived+a.Duplicates {
		s += fmt.Sprintf("  %d requests", a.Requests)
	}
	return s
}

func statusCounts(m map[int]int64) string {
	var parts []string
	for status, n := range m {
		parts = append(parts, fmt.Sprintf("%d × %d", status, n))
	}
	slices.Sort(parts)
	return strings.Join(parts, ", ")
}

func rate(n int64, seconds float64) float64 {
	if seconds <= 0 {
		return 0
	}
	return float64(n) / seconds
}

// number formats a value with three significant digits.
func number(v float64) string {
	switch a := math.Abs(v); {
	case a >= 100:
		return fmt.Sprintf("%.0f", v)
	case a >= 10:
		return fmt.Sprintf("%.1f", v)
	}
	return fmt.Sprintf("%.2f", v)
}
