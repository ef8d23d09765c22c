package dashboard

import (
	"fmt"
	"math"
	"net/url"
	"slices"
	"strconv"
	"time"

	"github.com/eventrelay/relay/api/wire"
)

// hidden is how many things are not shown.
func hidden[T any](c *wire.Counted[T]) int { return c.Total - len(c.Data) }

// endpointTrafficData is an endpoint with its traffic.
type endpointTrafficData struct {
	wire.OverviewEndpoint
	Strip strip
}

// Title is the name of the endpoint, or its id if it was deleted.
func (e *endpointTrafficData) Title() string {
	if e.Name == nil {
		return e.EndpointID
	}
	return *e.Name
}

// Path is the page of the endpoint, empty if it was deleted.
func (e *endpointTrafficData) Path() string {
	if e.Name == nil {
		return ""
	}
	return endpointsPath + "/" + url.PathEscape(e.EndpointID)
}

// perMinute returns a number of an hour as an average of its minutes.
func perMinute(n int64) string {
	switch rate := float64(n) / 60; {
	case rate == 0:
		return "0"
	case rate < 0.1:
		return "< 0.1"
	case rate < 10:
		return strconv.FormatFloat(rate, 'f', 1, 64)
	default:
		return number(int64(math.Round(rate)))
	}
}

// problem says how many requests have failed; empty if none has.
func problem(requests, failed int64) string {
	if failed == 0 {
		return ""
	}
	return fmt.Sprintf("%s of %s in the last hour failed.", number(failed), plural(int(requests), "request", "requests"))
}

// milliseconds returns a duration in its unit.
func milliseconds(ms int64) string {
	if ms < 10_000 {
		return number(ms) + "\u00a0ms"
	}
	return strconv.FormatFloat(float64(ms)/1000, 'f', 1, 64) + "\u00a0s"
}

// percent returns a part of a whole. It is 100 % only if nothing is missing, and 0 % only if nothing is there.
func percent(part, whole int64) string {
	if whole == 0 {
		return "–"
	}
	tenths := math.Round(1000 * float64(part) / float64(whole))
	if part < whole {
		tenths = min(tenths, 999)
	}
	if part > 0 {
		tenths = max(tenths, 1)
	}
	return strconv.FormatFloat(tenths/10, 'f', -1, 64) + "\u00a0%"
}

// hourStrip returns the strip of the last 24 hours, of which the last is that of now.
func hourStrip(name string, hours []wire.Hour, now time.Time) strip {
	line := newTimeline(now, time.Hour, 24)
	s := strip{Classes: slices.Repeat([]string{colourNone}, line.steps)}
	var requests, failed int64
	for _, h := range hours {
		if i, ok := line.index(time.Time(h.At)); ok {
			s.Classes[i] = requestsClass(h.Requests, h.Failed)
			requests, failed = requests+h.Requests, failed+h.Failed
		}
	}
	s.Title = fmt.Sprintf("%s, last 24 h: %s, %s failed", name, plural(int(requests), "request", "requests"),
		number(failed))
	return s
}

// timeline is a number of steps of time, of which the last is that of now.
type timeline struct {
	first time.Time
	step  time.Duration
	steps int
}

func newTimeline(now time.Time, step time.Duration, steps int) timeline {
	return timeline{now.UTC().Truncate(step).Add(-time.Duration(steps-1) * step), step, steps}
}

// index returns the step of a time.
func (t timeline) index(at time.Time) (i int, ok bool) {
	i = int(at.Sub(t.first) / t.step)
	return i, !at.Before(t.first) && i < t.steps
}

// rows returns the rows of a bar chart, with a number of values that are 0.
func (t timeline) rows(values int) []chartRow {
	rows := make([]chartRow, t.steps)
	for i := range rows {
		rows[i] = chartRow{t.first.Add(time.Duration(i) * t.step).Format("15:04"), make([]int64, values)}
	}
	return rows
}

// unknown returns the values of a sparkline, none of which is known.
func (t timeline) unknown() []float64 { return slices.Repeat([]float64{math.NaN()}, t.steps) }

// hoursOf returns steps without what a strip does not show.
func hoursOf(steps []wire.MeasuredStep) []wire.Hour {
	hours := make([]wire.Hour, len(steps))
	for i, s := range steps {
		hours[i] = wire.Hour{At: s.At, Requests: s.Requests, Delivered: s.Delivered, Failed: s.Failed}
	}
	return hours
}

// latencyOf is the p95, NaN without a request.
func latencyOf(m *wire.MeasuredRequests) float64 {
	if m.LatencyMS == nil {
		return math.NaN()
	}
	return float64(m.LatencyMS.P95)
}
