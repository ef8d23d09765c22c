package report

import (
	"context"
	"math"
	"sync"
	"time"

	"github.com/eventrelay/relay/features/leaks/intake"
	"github.com/eventrelay/relay/pkg/config/leak"
	"github.com/eventrelay/relay/pkg/finding"
	"github.com/eventrelay/relay/pkg/wait"
)

// maxRows bounds the rows of a DSN, over all nodes. An application that shows ten secrets in sixty processes makes 600
// rows a minute; 50,000 a day are one each two seconds. Anybody who opens a page can send the reports of a browser.
var maxRows = map[string]rowBounds{
	leak.DSNServer:  {600, 50_000},
	leak.DSNBrowser: {120, 10_000},
}

// rowBounds are the most rows of a minute and of a UTC day.
type rowBounds struct{ minute, day int }

// rows returns those of the admitted hits that become rows, and the others. Hits of findings that are new, of our own
// API keys and of tripwires take nothing of maxRows once a minute and finding: those that anybody can make must not
// hide them.
func (h *hits) rows(ctx context.Context, admitted []*finding.Hit) (rows, others []*finding.Hit) {
	free := make([]bool, len(admitted))
	wanted := 0
	for i, x := range admitted {
		special := x.KeyID != "" || x.Kind == finding.Tripwire || !h.in.deps.Config.HasFinding(x.Finding)
		if free[i] = special && h.in.deps.Minutes.Claim(ctx, h.to.ID+" "+x.Finding, 1) == 0; !free[i] {
			wanted++
		}
	}
	room := h.in.takeRows(ctx, h.to, h.at, wanted)
	for i, x := range admitted {
		switch {
		case free[i]:
			rows = append(rows, x)
		case room > 0:
			room--
			rows = append(rows, x)
		default:
			others = append(others, x)
		}
	}
	return rows, others
}

// takeRows returns how many of n rows the DSN may still make in this minute and on this day, and counts them.
func (in *Intake) takeRows(ctx context.Context, to *leak.DSN, at time.Time, n int) int {
	most := in.rows[to.Platform]
	n = take(ctx, in.deps.Minutes, to.ID+" rows", n, most.minute)
	return take(ctx, in.deps.Days, to.ID+" rows "+at.Format(time.DateOnly), n, most.day)
}

// take counts n occurrences of a key and returns how many of them are within its bound, whatever other calls do.
func take(ctx context.Context, w Window, key string, n, most int) int {
	if n == 0 {
		return 0
	}
	return n - min(n, max(0, w.AddMany(ctx, key, n)-most))
}

// maxSums bounds the findings of a DSN that have a sum, beside the one of the flood.
const maxSums = 5

// sums counts the hits beyond maxRows, by finding, and in the finding of the flood what is beyond any bound. Each has
// one row for each minute and node: the first hit of a minute is produced with its request, the others with the next
// row or by Run. A node that dies loses what it has counted since the last row.
type sums struct {
	node      string
	mu        sync.Mutex // guards what follows
	byFinding map[string]*sum
	ofSender  map[string]int // of byFinding
}

type sum struct {
	n      uint64       // secrets that are in no row
	hit    *finding.Hit // the last one
	minute time.Time    // of the last row
}

// count counts hits that are beyond the bounds, and returns the rows to produce now.
func (h *hits) count(beyond []*finding.Hit) (rows []*finding.Hit) {
	flood := h.flood(0)
	for _, x := range beyond {
		row, flooded := h.in.sums.add(x, flood)
		if row != nil {
			rows = append(rows, row)
		}
		if flooded {
			h.in.stage.Flooded.Add(float64(x.N))
		}
	}
	return rows
}

// add counts a hit, in the flood if its sender has too many sums. It returns the row to produce; nil: this minute has
// one.
func (s *sums) add(hit, flood *finding.Hit) (row *finding.Hit, flooded bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := uint64(hit.N)
	if s.byFinding[hit.Finding] == nil && s.ofSender[hit.Sender] >= maxSums {
		hit = flood
	}
	x := s.getLocked(hit)
	x.n, x.hit = x.n+n, hit
	if !x.minute.Equal(hit.At.Truncate(time.Minute)) {
		row = s.takeLocked(x, hit.At)
	}
	return row, hit.Rule == finding.RuleFlood
}

func (s *sums) getLocked(hit *finding.Hit) *sum {
	x := s.byFinding[hit.Finding]
	if x == nil {
		x = &sum{hit: hit}
		s.byFinding[hit.Finding] = x
		if hit.Rule != finding.RuleFlood {
			s.ofSender[hit.Sender]++
		}
	}
	return x
}

// takeLocked returns the row of what is counted. Its identity is not that of a batch: it counts what other batches had,
// and a sender may give all of them one id.
func (s *sums) takeLocked(x *sum, at time.Time) *finding.Hit {
	row := *x.hit
	row.ID = finding.HitID(row.Sender, "sum "+row.Finding+" "+s.node+" "+at.Format(time.RFC3339Nano), offsetOfSum)
	row.At, row.ObservedAt, row.Day, row.N = at, at, "", uint32(min(x.n, math.MaxUint32))
	x.n, x.minute = 0, at.Truncate(time.Minute)
	return &row
}

// due returns the rows of earlier minutes, or of all, and forgets the sums that have none.
func (s *sums) due(now time.Time, all bool) (rows []*finding.Hit) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for id, x := range s.byFinding {
		switch {
		case !all && x.minute.Equal(now.Truncate(time.Minute)):
		case x.n > 0:
			rows = append(rows, s.takeLocked(x, now))
		default:
			delete(s.byFinding, id)
			if x.hit.Rule == finding.RuleFlood {
				continue
			}
			if s.ofSender[x.hit.Sender]--; s.ofSender[x.hit.Sender] == 0 {
				delete(s.ofSender, x.hit.Sender)
			}
		}
	}
	return rows
}

// putBack counts the secrets of rows that may not be in the log.
func (s *sums) putBack(rows []*finding.Hit) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, row := range rows {
		s.getLocked(row).n += uint64(row.N)
	}
}

// produceSums produces rows. What the log does not confirm is counted again.
func (in *Intake) produceSums(ctx context.Context, rows []*finding.Hit) {
	if in.stage.Store(ctx, rows, "the log did not confirm the sums") != nil {
		in.sums.putBack(rows)
	}
}

// runSums produces the rows of earlier minutes until ctx ends, and then what is left.
func (in *Intake) runSums(ctx context.Context) {
	for last := false; !last; {
		last = wait.For(ctx, intake.ReportInterval) != nil
		limited, cancel := context.WithTimeout(context.WithoutCancel(ctx), intake.LastReportTimeout)
		in.produceSums(limited, in.sums.due(in.deps.Now().UTC(), last))
		cancel()
	}
}
