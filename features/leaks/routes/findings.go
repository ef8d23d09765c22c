package routes

import (
	"cmp"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"math"
	"net/http"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/eventrelay/relay/api/frame"
	"github.com/eventrelay/relay/api/wire"
	"github.com/eventrelay/relay/pkg/config"
	"github.com/eventrelay/relay/pkg/config/entity"
	"github.com/eventrelay/relay/pkg/config/leak"
	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/finding"
	"github.com/eventrelay/relay/pkg/id"
	"github.com/eventrelay/relay/pkg/secrets"
	"github.com/eventrelay/relay/pkg/web"
)

// findings serves findings. Their state is in the configuration, their hits are in the store.
type findings struct {
	area
	rules map[string]*secrets.Rule
}

func newFindings(of area) *findings {
	f := &findings{of, map[string]*secrets.Rule{}}
	rules := of.LeakScanner.Rules()
	for i := range rules {
		f.rules[rules[i].ID] = &rules[i]
	}
	return f
}

// maxNamedFindings is how many ids a query of the store may name; of more findings the store's rows are filtered.
const maxNamedFindings = 1000

func (a *findings) listFindings(w http.ResponseWriter, r *http.Request, key *config.Key) error {
	params := frame.NewQuery(r, "findings "+key.Account)
	q, filter := a.findingQuery(params, key.Account)
	q.Limit = params.Limit()
	q.After = frame.ReadCursor(params, func(text string) (finding.Key, error) {
		at, last, err := timedKey(params.Hash, text)
		return finding.Key{FirstSeen: at, ID: last.Text(finding.Prefix)}, err
	})
	if params.Err != nil {
		return params.Err
	}
	if q.After.IsZero() {
		a.CatchUp(r.Context())
	}
	a.selectStates(&q, filter)
	page, err := a.Findings.Findings(r.Context(), q)
	if err != nil {
		return err
	}
	out := frame.List[*wire.Finding]{Data: []*wire.Finding{}}
	for i := range page.Rows {
		row := &page.Rows[i]
		// The state may have been forgotten since the row was read.
		if f, presence := a.Control.Finding(row.ID); presence == entity.Present && f.Account == key.Account {
			out.Data = append(out.Data, a.view(f, row))
		}
	}
	if page.More {
		last := page.Rows[len(page.Rows)-1].Key()
		d, err := id.Parse(finding.Prefix, last.ID)
		if err != nil {
			return err
		}
		out.NextCursor = timedCursor(params.Hash, last.FirstSeen, d)
	}
	frame.SetAsOf(w, page.AsOf)
	return web.Answer(w, http.StatusOK, out)
}

// severities lists the severities of findings, lowest first.
var severities = []string{"low", "medium", "high", "critical"}

// findingQuery reads the filters of the list: those that the store knows, and those that the configuration knows.
func (a *findings) findingQuery(q *frame.Query, account string) (finding.Query, leak.FindingFilter) {
	out, filter := finding.Query{Account: account}, leak.FindingFilter{}
	filter.Statuses = frame.EnumFilter(q, "status", finding.Statuses...)
	words := q.List("severity")
	frame.CheckEnum(q, "severity", words, severities)
	for _, word := range words {
		if s, err := finding.ParseSeverity(word); err == nil {
			filter.Severities = append(filter.Severities, s)
		}
	}
	out.Sources = frame.EnumFilter(q, "source", finding.Sources...)
	out.Kinds = frame.EnumFilter(q, "kind", finding.Secret, finding.ExposedFile, finding.Tripwire)
	out.Rules = q.List("rule")
	span := a.PastWindow(q, frame.SinceNames[:1], frame.UntilNames[:1])
	out.Since, out.Until = span.Since, span.Until
	q.RefuseUnknown()
	return out, filter
}

// selectStates makes the query keep the findings that a filter of the configuration selects.
func (a *findings) selectStates(q *finding.Query, filter leak.FindingFilter) {
	if len(filter.Statuses)+len(filter.Severities) == 0 {
		q.Keep = func(name string) bool {
			_, presence := a.Control.Finding(name)
			return presence == entity.Present
		}
		return
	}
	ids := a.Control.FindingIDs(filter)
	selected := make(map[string]bool, len(ids))
	for _, name := range ids {
		selected[name] = true
	}
	q.Keep = func(name string) bool { return selected[name] }
	if len(ids) <= maxNamedFindings {
		q.IDs = append([]string{}, ids...) // not nil: nil selects all
	}
}

func (a *findings) readFinding(w http.ResponseWriter, r *http.Request, key *config.Key) error {
	a.CatchUp(r.Context())
	f, err := a.inPath(r, key)
	if err != nil {
		return err
	}
	row, asOf, err := a.Findings.Finding(r.Context(), f.Account, f.ID)
	if errors.Is(err, event.ErrNotFound) { // the store is behind
		row, err = firstHitOf(f), nil
	}
	if err != nil {
		return err
	}
	frame.SetAsOf(w, asOf)
	return web.Answer(w, http.StatusOK, a.view(f, &row))
}

func (a *findings) listOccurrences(w http.ResponseWriter, r *http.Request, key *config.Key) error {
	f, err := a.inPath(r, key)
	if err != nil {
		return err
	}
	params := frame.NewQuery(r, "occurrences "+f.ID)
	params.RefuseUnknown()
	q := finding.OccurrenceQuery{Account: f.Account, Finding: f.ID, Limit: params.Limit()}
	q.After = frame.ReadCursor(params, func(text string) (finding.OccurrenceKey, error) {
		at, hit, err := timedKey(params.Hash, text)
		return finding.OccurrenceKey{At: at, Hit: hit}, err
	})
	if params.Err != nil {
		return params.Err
	}
	page, err := a.Findings.Occurrences(r.Context(), q)
	if err != nil {
		return err
	}
	out := frame.List[Occurrence]{Data: make([]Occurrence, len(page.Rows))}
	for i := range page.Rows {
		out.Data[i] = a.occurrence(&page.Rows[i])
	}
	if page.More {
		last := page.Rows[len(page.Rows)-1].OccurrenceKey
		out.NextCursor = timedCursor(params.Hash, last.At, last.Hit)
	}
	frame.SetAsOf(w, page.AsOf)
	return web.Answer(w, http.StatusOK, out)
}

// updateFinding changes the status of a finding, or its note. It does not need the store: without it the
// answer knows the first hit only.
func (a *findings) updateFinding(w http.ResponseWriter, r *http.Request, key *config.Key) error {
	f, err := a.inPath(r, key)
	if err != nil {
		return err
	}
	body, err := a.Body(r)
	if err != nil {
		return err
	}
	in := &frame.Input{}
	update := a.readUpdate(in, body)
	if in.Err != nil {
		return in.Err
	}
	if f, err = a.Control.UpdateFinding(r.Context(), f.ID, update); err != nil {
		return updateError(err)
	}
	row, asOf, err := a.Findings.Finding(r.Context(), f.Account, f.ID)
	if err != nil {
		row = firstHitOf(f)
		asOf = row.LastSeen
	}
	view := a.view(f, &row)
	view.Warnings = in.Warnings
	frame.SetAsOf(w, asOf)
	return web.Answer(w, http.StatusOK, view)
}

// readUpdate reads the body of a PATCH. A member that is null stands for none, so that a finding can be sent back.
func (a *findings) readUpdate(in *frame.Input, body []byte) (m leak.FindingUpdate) {
	o := in.NewObject("", body)
	o.Decode(&wire.Finding{}) // marks its members as known
	m = a.readChange(o)
	m.Version = frame.Optional(o, "version", func(name string, dst *int) { o.Integer(name, 1, 1<<53, dst) })
	o.WarnUnknown()
	return m
}

// readChange reads the members that change a finding.
func (a *findings) readChange(o *frame.Object) leak.FindingUpdate {
	var x FindingChange
	o.Decode(&x)
	if x.Note != nil {
		masked, _ := a.LeakScanner.MaskAll(nil, []byte(*x.Note))
		*x.Note = string(masked)
	}
	return leak.FindingUpdate{Status: (*finding.Status)(x.Status), Resolution: x.Resolution, Note: x.Note,
		IgnoreReason: x.IgnoreReason, IgnoreUntil: (*time.Time)(x.IgnoreUntil)}
}

// updateError translates the errors of UpdateFinding.
func updateError(err error) error {
	if invalid, ok := errors.AsType[*entity.InvalidError](err); ok {
		return web.Invalid(invalid.Param, "%s", invalid.Message)
	}
	if refused, ok := errors.AsType[*leak.FindingStatusError](err); ok {
		return web.WrongState("status", "%v", refused)
	}
	if errors.Is(err, leak.ErrFindingChanged) {
		return &web.Error{Status: http.StatusBadRequest, Type: web.Conflict, Param: "version",
			Message: "is not the current one: read the finding again, and send the version that you have seen"}
	}
	return err
}

func errNoFinding() error {
	return web.Missing("there is no such finding, or it had no hit for 400 days")
}

// inPath returns the finding that the path names, or the 404.
func (a *findings) inPath(r *http.Request, key *config.Key) (*leak.Finding, error) {
	name := web.InfoOf(r).Vars["finding"]
	f, presence := a.Control.Finding(name)
	if presence == entity.Unknown && finding.Valid(name) { // another node may have created it a moment ago
		a.CatchUp(r.Context())
		f, presence = a.Control.Finding(name)
	}
	if presence != entity.Present || f.Account != key.Account {
		return nil, errNoFinding()
	}
	return f, nil
}

// timedKeyLen is the length of a position in a list that is ordered by time and 16 bytes.
const timedKeyLen = 8 + frame.KeyLen

func timedCursor(h frame.FilterHash, at time.Time, d id.ID) string {
	return h.Encode(frame.CursorVersion, append(binary.BigEndian.AppendUint64(nil, uint64(at.UnixMilli())), d[:]...))
}

func timedKey(h frame.FilterHash, text string) (at time.Time, d id.ID, err error) {
	b, err := h.Decode(text, frame.CursorVersion, timedKeyLen)
	if err != nil {
		return at, d, err
	}
	copy(d[:], b[8:])
	return time.UnixMilli(int64(binary.BigEndian.Uint64(b))).UTC(), d, nil
}

// names of rules that are not about a kind of key.
var ruleNames = map[string]string{
	finding.RuleFlood:    "More secrets than a sender may report",
	finding.RuleTripwire: "A tripwire was touched",
}

// view joins the state of a finding with its hits. Locations and occurrences are the store's; what a finding is, and
// how bad, the configuration decides.
func (a *findings) view(f *leak.Finding, row *finding.Row) *wire.Finding {
	v := &wire.Finding{
		ID: f.ID, Object: "finding", Kind: f.Kind, Rule: f.Rule, Severity: f.Severity.String(),
		Status: f.Status, Masked: frame.OrNull(f.Masked), Fingerprint: frame.OrNull(f.Fingerprint), Sources: row.Sources,
		FirstSeen: web.Time(row.FirstSeen), LastSeen: web.Time(row.LastSeen), Occurrences: row.Occurrences,
		Unverified: f.Unverified, Test: f.Test, KeyID: frame.OrNull(f.KeyID), Environment: frame.OrNull(row.Environment),
		Release: frame.OrNull(row.Release), Locations: make([]wire.FindingLocation, len(row.Locations)),
		Resolution: frame.OrNull(f.Resolution), IgnoreReason: frame.OrNull(f.IgnoreReason),
		IgnoreUntil: web.Time(f.IgnoreUntil),
		ResolvedAt:  web.Time(f.ResolvedAt), RegressedAt: web.Time(f.RegressedAt), Note: frame.OrNull(f.Note),
		UpdatedBy: frame.OrNull(f.UpdatedBy), Version: f.Version,
	}
	provider, docs := "", ""
	v.Name, provider, docs = a.describeRule(f)
	v.Provider, v.DocsURL = frame.OrNull(provider), frame.OrNull(docs)
	for i, l := range row.Locations {
		v.Locations[i] = wire.FindingLocation{Location: a.hidePayload(l.Location), Lines: l.Lines, Count: l.Count,
			LastSeen: web.Time(l.LastSeen)}
	}
	return v
}

// describeRule returns the name of a finding's rule, and its provider and page if they are known. A rule of the account
// may be deleted, or another version's: then the finding knows its name.
func (a *findings) describeRule(f *leak.Finding) (name, provider, docs string) {
	if rule := a.rules[f.Rule]; rule != nil {
		return rule.Name, rule.Provider, rule.Docs
	}
	if strings.HasPrefix(f.Rule, finding.CustomPrefix) {
		if rule := a.Control.Settings().Detection.Rule(f.Rule); rule != nil {
			return rule.Name, "", rule.Docs
		}
	}
	return cmp.Or(ruleNames[f.Rule], f.RuleName, strings.TrimPrefix(f.Rule, finding.CustomPrefix)), "", ""
}

// firstHitOf is what the configuration knows of the hits of a finding.
func firstHitOf(f *leak.Finding) finding.Row {
	return finding.Row{Sources: []finding.Source{f.First.Source}, FirstSeen: f.First.At, LastSeen: f.First.At,
		Occurrences: 1}
}

// payloadEnded reports whether the location is in an event whose payload was erased or whose retention has ended.
// Records of erasures are removed a day after that.
func (a *findings) payloadEnded(l finding.Location) bool {
	d, err := id.Parse(id.Event, l.EventID)
	return err == nil && (!a.Erasures.ErasedAt(d).IsZero() || !a.Now().Before(a.Expiry(d)))
}

// hidePayload removes the pointer of a location in an event whose payload has ended: it consists of names of members
// and headers.
func (a *findings) hidePayload(l finding.Location) finding.Location {
	if a.payloadEnded(l) {
		l.Pointer = ""
	}
	return l
}

func (a *findings) occurrence(o *finding.Occurrence) Occurrence {
	v := Occurrence{
		Object: "occurrence", At: web.Time(o.At), ObservedAt: web.Time(o.ObservedAt), Count: o.N, Source: o.Source,
		Channel: frame.OrNull(o.Channel), Severity: o.Severity.String(), Unverified: o.Unverified, Test: o.Test,
		Location: a.hidePayload(o.Location), Environment: frame.OrNull(o.Environment), Release: frame.OrNull(o.Release),
		Method: frame.OrNull(o.Method), UserAgent: frame.OrNull(o.Agent),
	}
	if a.payloadEnded(o.Location) {
		v.UserAgent = nil // a header of the event
	}
	if o.RemoteIP.IsValid() {
		v.RemoteIP = frame.OrNull(o.RemoteIP.String())
	}
	if o.RemoteNet.IsValid() {
		v.RemoteNet = frame.OrNull(o.RemoteNet.String())
	}
	return v
}

const (
	// maxFindingUpdates is the maximum number of findings that one call updates. Each is a record of the configuration
	// log, with an entry in the audit log.
	maxFindingUpdates = 100
	// parallelFindingUpdates is how many of them are written at the same time.
	parallelFindingUpdates = 8
)

// findingsUpdate is the body of POST /v1/findings/update: the findings, by their ids or by drain and rule, and what
// changes.
type findingsUpdate struct {
	ids         []string
	drain, rule string
	change      leak.FindingUpdate
}

// updateFindings changes the status of many findings. Sent again, it changes nothing more.
func (a *findings) updateFindings(w http.ResponseWriter, r *http.Request, key *config.Key) error {
	body, err := a.Body(r)
	if err != nil {
		return err
	}
	in := &frame.Input{}
	u := a.readFindingsUpdate(in, body)
	if in.Err != nil {
		return in.Err
	}
	out := FindingsUpdated{Object: "findings_update", Failed: []FailedFinding{}}
	a.CatchUp(r.Context())
	if u.ids == nil {
		u.ids, out.More = a.selectFindings(u)
	}
	results := make([]error, len(u.ids))
	group, ctx := errgroup.WithContext(r.Context())
	group.SetLimit(parallelFindingUpdates)
	for i, name := range u.ids {
		group.Go(func() error {
			results[i] = a.updateOne(ctx, key, name, u.change)
			_, refused := errors.AsType[*web.Error](results[i])
			if refused || errors.Is(results[i], errFindingUnchanged) {
				return nil
			}
			return results[i]
		})
	}
	if err := group.Wait(); err != nil {
		return err
	}
	for i, err := range results {
		refused, ok := errors.AsType[*web.Error](err)
		switch {
		case err == nil:
			out.Updated++
		case !ok:
			out.Unchanged++
		default:
			out.Failed = append(out.Failed, FailedFinding{ID: u.ids[i], Type: refused.Type, Message: refused.Message})
		}
	}
	return web.Answer(w, http.StatusOK, out)
}

// errFindingUnchanged means that a finding was before as it should become.
var errFindingUnchanged = errors.New("the finding is not changed")

// updateOne changes one finding. It returns errFindingUnchanged, or a *web.Error if this finding cannot be changed.
func (a *findings) updateOne(ctx context.Context, key *config.Key, name string, change leak.FindingUpdate) error {
	before, presence := a.Control.Finding(name)
	if presence != entity.Present || before.Account != key.Account {
		return errNoFinding()
	}
	after, err := a.Control.UpdateFinding(ctx, name, change)
	switch {
	case errors.Is(err, config.ErrNotFound):
		return errNoFinding()
	case err == nil && after.Version == before.Version:
		return errFindingUnchanged
	}
	return updateError(err)
}

// selectFindings returns the findings of a drain and rule that can get the status, newest first, and whether there are
// more. Those of our own API keys are updated by their ids only: whoever makes up keys must not hide them.
func (a *findings) selectFindings(u *findingsUpdate) (ids []string, more bool) {
	filter := leak.FindingFilter{Sender: u.drain, Rule: u.rule}
	for _, s := range finding.Statuses {
		if s.MayBecome(*u.change.Status) {
			filter.Statuses = append(filter.Statuses, s)
		}
	}
	for _, name := range a.Control.FindingIDs(filter) {
		if f, presence := a.Control.Finding(name); presence != entity.Present || f.KeyID != "" {
			continue
		}
		if len(ids) == maxFindingUpdates {
			return ids, true
		}
		ids = append(ids, name)
	}
	return ids, false
}

// readFindingsUpdate reads the body of an update of many findings.
func (a *findings) readFindingsUpdate(in *frame.Input, body []byte) *findingsUpdate {
	o := in.NewObject("", body)
	u := &findingsUpdate{change: a.readChange(o)}
	for _, raw := range o.Array("ids", maxFindingUpdates) {
		var name string
		if err := json.Unmarshal(raw, &name); err != nil || !finding.Valid(name) {
			o.Fail("ids", "must be ids of findings, fnd_…")
			break
		}
		if !slices.Contains(u.ids, name) {
			u.ids = append(u.ids, name)
		}
	}
	u.change.Version = frame.Optional(o, "version", func(name string, dst *int) { o.Integer(name, 1, math.MaxInt32, dst) })
	u.change.Repeatable = true
	if u.change.Version != nil && len(u.ids) != 1 {
		o.Fail("version", "can be sent with one id only")
	}
	for name, dst := range map[string]*string{"drain_id": &u.drain, "rule": &u.rule} {
		if _, ok := o.Raw(name); ok && !o.IsNull(name) {
			o.Text(name, 1, frame.MaxIDText, dst)
		}
	}
	switch {
	case len(u.ids) > 0 && (u.drain != "" || u.rule != ""):
		o.Fail("ids", "must not be combined with drain_id and rule")
	case len(u.ids) == 0 && u.drain == "" && u.rule == "":
		o.Fail("ids", "must name findings, at most %d; or send drain_id and rule", maxFindingUpdates)
	case len(u.ids) == 0 && u.drain == "":
		o.Fail("drain_id", "is required together with rule")
	case len(u.ids) == 0 && u.rule == "":
		o.Fail("rule", "is required together with drain_id")
	}
	c := &u.change
	switch {
	case c.Status == nil:
		o.Fail("status", "is required")
	case *c.Status == finding.Resolved && c.Resolution == nil:
		o.Fail("resolution", "is required for the status resolved")
	case *c.Status == finding.Ignored && c.IgnoreReason == nil:
		o.Fail("ignore_reason", "is required for the status ignored")
	}
	o.RefuseUnknown()
	return u
}
