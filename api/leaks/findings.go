package leaks

import (
	"encoding/binary"
	"errors"
	"net/http"
	"time"

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
	*frame.Core
	states Findings
	hits   FindingReader
	leaks  *secrets.Scanner // masks keys in notes
	rules  map[string]*secrets.Rule
	own    DetectionSettings // rules of the account
	// erasures says whose payload was erased: a finding then shows no header and no names of that event.
	erasures frame.Erasures
}

func newFindings(d *Deps) *findings {
	f := &findings{Core: d.Core, states: d.Config, hits: d.Findings, leaks: d.Leaks,
		rules: map[string]*secrets.Rule{}, own: d.Config, erasures: d.Erasures}
	rules := d.Leaks.Rules()
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
	page, err := a.hits.Findings(r.Context(), q)
	if err != nil {
		return err
	}
	out := frame.List[*wire.Finding]{Data: []*wire.Finding{}}
	for i := range page.Rows {
		row := &page.Rows[i]
		// The state may have been forgotten since the row was read.
		if f, presence := a.states.Finding(row.ID); presence == entity.Present && f.Account == key.Account {
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
	web.WriteJSON(w, http.StatusOK, out)
	return nil
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
			_, presence := a.states.Finding(name)
			return presence == entity.Present
		}
		return
	}
	ids := a.states.FindingIDs(filter)
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
	row, asOf, err := a.hits.Finding(r.Context(), f.Account, f.ID)
	if errors.Is(err, event.ErrNotFound) { // the store is behind
		row, err = firstHitOf(f), nil
	}
	if err != nil {
		return err
	}
	frame.SetAsOf(w, asOf)
	web.WriteJSON(w, http.StatusOK, a.view(f, &row))
	return nil
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
	page, err := a.hits.Occurrences(r.Context(), q)
	if err != nil {
		return err
	}
	out := frame.List[wire.Occurrence]{Data: make([]wire.Occurrence, len(page.Rows))}
	for i := range page.Rows {
		out.Data[i] = a.occurrence(&page.Rows[i])
	}
	if page.More {
		last := page.Rows[len(page.Rows)-1].OccurrenceKey
		out.NextCursor = timedCursor(params.Hash, last.At, last.Hit)
	}
	frame.SetAsOf(w, page.AsOf)
	web.WriteJSON(w, http.StatusOK, out)
	return nil
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
	if f, err = a.states.UpdateFinding(r.Context(), f.ID, update); err != nil {
		return updateError(err)
	}
	row, asOf, err := a.hits.Finding(r.Context(), f.Account, f.ID)
	if err != nil {
		row = firstHitOf(f)
		asOf = row.LastSeen
	}
	view := a.view(f, &row)
	view.Warnings = in.Warnings
	frame.SetAsOf(w, asOf)
	web.WriteJSON(w, http.StatusOK, view)
	return nil
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
	var x wire.FindingChange
	o.Decode(&x)
	if x.Note != nil {
		masked, _ := a.leaks.MaskAll(nil, []byte(*x.Note))
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
	f, presence := a.states.Finding(name)
	if presence == entity.Unknown && finding.Valid(name) { // another node may have created it a moment ago
		a.CatchUp(r.Context())
		f, presence = a.states.Finding(name)
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
