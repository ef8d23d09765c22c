package report

import (
	"context"
	"fmt"
	"net/http"
	"net/netip"
	"time"

	"github.com/eventrelay/relay/features/leaks/intake"
	"github.com/eventrelay/relay/pkg/config/leak"
	"github.com/eventrelay/relay/pkg/finding"
	"github.com/eventrelay/relay/pkg/web"
)

// newFindings bounds the new findings of a DSN and UTC day, by its platform. Anybody who opens a page can send the
// reports of a browser.
var newFindings = map[string]intake.Limits{
	leak.DSNServer:  {Severe: 750, Minor: 250, OfRule: 10},
	leak.DSNBrowser: {Severe: 15, Minor: 5},
}

// offsetOfSum takes the place of the index in the identity of a hit that counts several.
const offsetOfSum = -1

// hits turns the reports of one batch into hits.
type hits struct {
	in       *Intake
	to       *leak.DSN
	batch    *batch
	keys     finding.Keys
	at       time.Time // the arrival
	agent    string
	remoteIP netip.Addr
}

// store produces the hits of a batch, and returns when the log has acknowledged all of them, and the number of secrets.
func (in *Intake) store(ctx context.Context, r *http.Request, to *leak.DSN, b *batch) (answer, uint64, error) {
	got := answer{Rejected: []rejection{}}
	reject := func(i int, why reason) {
		in.metrics.rejected.WithLabelValues(string(why)).Inc()
		got.Rejected = append(got.Rejected, rejection{i, why})
	}
	checked := make([]*report, len(b.Reports))
	valid := 0
	for i, text := range b.Reports {
		var why reason
		if checked[i], why = in.parseReport(text); why != accepted {
			reject(i, why)
			continue
		}
		valid++
	}
	room := in.takeQuota(ctx, to, valid)
	for i, x := range checked {
		switch {
		case x == nil:
		case got.Accepted == room:
			reject(i, overQuota)
			checked[i] = nil
		default:
			got.Accepted++
		}
	}
	if got.Accepted == 0 {
		return got, 0, nil
	}
	keys, err := in.deps.Config.FindingKeys(ctx)
	if err != nil {
		return got, 0, web.ServiceUnavailable(err, "the reports could not be checked now; send them again")
	}
	h := &hits{in, to, b, keys, in.deps.Now().UTC(), r.UserAgent(), web.InfoOf(r).Client}
	var all []*finding.Hit
	total := uint64(0)
	for i, x := range checked {
		if x != nil {
			total += uint64(x.count)
			all = append(all, h.hit(x, i))
		}
	}
	records, beyond := h.bound(ctx, all)
	if err := in.stage.Store(ctx, records, "the log did not confirm the reports; send the batch again"); err != nil {
		return answer{}, 0, err
	}
	if len(beyond) > 0 {
		in.produceSums(ctx, h.count(beyond))
	}
	return got, total, nil
}

// takeQuota returns how many of n reports the DSN may still send today, and counts them.
func (in *Intake) takeQuota(ctx context.Context, to *leak.DSN, n int) int {
	if to.DailyQuota == 0 || n == 0 {
		return n
	}
	return take(ctx, in.deps.Days, to.ID+" "+in.deps.Now().UTC().Format(time.DateOnly), n, to.DailyQuota)
}

// bound returns the hits to produce, and those that are only counted: in the finding of the flood if their own is not
// admitted.
func (h *hits) bound(ctx context.Context, all []*finding.Hit) (records, beyond []*finding.Hit) {
	admitted, flooded := h.in.stage.Admit(ctx, newFindings[h.to.Platform], all)
	records, beyond = h.rows(ctx, admitted)
	if flooded > 0 {
		beyond = append(beyond, h.flood(flooded))
	}
	return records, beyond
}

func (h *hits) isBrowser() bool { return h.to.Platform == leak.DSNBrowser }

// hit returns the hit of report number i.
func (h *hits) hit(r *report, i int) *finding.Hit {
	x := h.newHit(r.rule, int64(i))
	x.N, x.Channel, x.Masked = r.count, r.kind, r.masked
	x.ObservedAt = h.observedAt(r)
	x.Test = r.known != nil && r.known.Test
	x.Billed = x.Billed && !x.Test
	x.Location = h.location(r)
	x.LocationHash = x.Location.Hash()
	if r.where.Method != nil {
		x.Method = *r.where.Method
	}
	if r.fingerprint1 != nil {
		x.Fingerprint = h.keys.Fingerprint(*r.fingerprint1)
	}
	x.Finding = h.keys.ID(r.rule, x.Fingerprint, x.LocationHash)
	about := finding.Context{Rule: r.rule, Severity: finding.Medium, Kind: finding.Secret}
	if r.known != nil {
		about = finding.ContextOf(r.known)
	}
	about.Public = r.kind == typeResponse && !h.isBrowser()
	intake.SetSeverity(h.in.deps.Config, x, about) // nobody can make up a key of ours: its hash needs the key
	intake.SeenTripwire(h.in.deps.Config, x, &h.keys)
	return x
}

// observedAt returns when a secret was seen last, by our clock. The sender's clock may be wrong; how long before the
// batch it was seen is not.
func (h *hits) observedAt(r *report) time.Time {
	return h.at.Add(-max(0, h.batch.sentAt.Sub(r.lastAt)))
}

// newHit returns what the hits of a batch have in common.
func (h *hits) newHit(rule string, offset int64) *finding.Hit {
	agent := fmt.Sprintf("%s/%s %s", h.batch.SDK.Name, h.batch.SDK.Version, h.agent)
	x := &finding.Hit{
		Account: h.to.Account, ID: finding.HitID(h.to.ID, h.batch.ID, offset), At: h.at, ObservedAt: h.at, N: 1,
		Kind: finding.Secret, Rule: rule, Source: finding.SDK, Sender: h.to.ID,
		Unverified: h.isBrowser(), Billed: !h.isBrowser(), Agent: h.clean(agent), RemoteIP: h.remoteIP,
	}
	if h.batch.Environment != nil {
		x.Environment = h.clean(*h.batch.Environment)
	}
	if h.batch.Release != nil {
		x.Release = h.clean(*h.batch.Release)
	}
	return x
}

func (h *hits) location(r *report) finding.Location {
	text := func(s *string) string {
		if s == nil {
			return ""
		}
		return h.clean(*s)
	}
	l := finding.Location{
		Source: finding.SDK, Label: h.clean(h.to.Name), DSNID: h.to.ID,
		File: text(r.where.File), Function: text(r.where.Function), URL: text(r.where.Path),
	}
	if r.where.Line != nil {
		l.Line = int(*r.where.Line)
	}
	return l
}

// flood returns the hit of n secrets in the finding of the flood.
func (h *hits) flood(n uint64) *finding.Hit {
	x := h.newHit(finding.RuleFlood, offsetOfSum)
	x.Channel = typeLog
	x.Location = finding.Location{Source: finding.SDK, Label: h.clean(h.to.Name), DSNID: h.to.ID}
	// The location of reports does not depend on the DSN; each DSN has a flood of its own.
	x.LocationHash = finding.Location{Source: finding.SDK, File: h.to.ID}.Hash()
	intake.SetFlood(x, n, &h.keys)
	return x
}

func (h *hits) clean(text string) string { return intake.CleanText(h.in.deps.Scanner, text) }
