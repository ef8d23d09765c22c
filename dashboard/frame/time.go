package frame

import (
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/eventrelay/relay/api/wire"
)

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
		return Number(int64(math.Round(rate)))
	}
}

// milliseconds returns a duration in its unit.
func milliseconds(ms int64) string {
	if ms < 10_000 {
		return Number(ms) + "\u00a0ms"
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

// timeline is a number of steps of time, of which the last is that of now.
type timeline struct {
	first time.Time
	step  time.Duration
	Steps int
}

func NewTimeline(now time.Time, step time.Duration, steps int) timeline {
	return timeline{now.UTC().Truncate(step).Add(-time.Duration(steps-1) * step), step, steps}
}

// Index returns the step of a time.
func (t timeline) Index(at time.Time) (i int, ok bool) {
	i = int(at.Sub(t.first) / t.step)
	return i, !at.Before(t.first) && i < t.Steps
}

// Rows returns the rows of a bar chart, with a number of values that are 0.
func (t timeline) Rows(values int) []ChartRow {
	rows := make([]ChartRow, t.Steps)
	for i := range rows {
		rows[i] = ChartRow{t.first.Add(time.Duration(i) * t.step).Format("15:04"), make([]int64, values)}
	}
	return rows
}

// Unknown returns the values of a sparkline, none of which is known.
func (t timeline) Unknown() []float64 { return slices.Repeat([]float64{math.NaN()}, t.Steps) }

// LatencyOf is the p95, NaN without a request.
func LatencyOf(m *wire.MeasuredRequests) float64 {
	if m.LatencyMS == nil {
		return math.NaN()
	}
	return float64(m.LatencyMS.P95)
}
