package jobs

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/eventrelay/relay/api/frame"
	"github.com/eventrelay/relay/pkg/config"
	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/web"
)

// Limits of a replay of a selection. Larger ones need a recovery job.
const (
	maxReplayWindow     = 31 * 24 * time.Hour
	maxReplayDeliveries = 100_000
	maxReplayBytes      = 1 << 30   // bytes of bodies, each counted for every delivery
	maxReplayEvents     = 1_000_000 // matching events, with or without a destination
	// Limits of the events whose bodies must be read to decide: rejected events, and events for body filters.
	maxReplayRead      = 100_000
	maxReplayReadBytes = 1 << 30
	maxReplayRate      = 100 // deliveries a second
	defaultReplayRate  = 50
	// windowGrace extends a window that ends now, so that a client that subtracts exactly 31 days is not refused
	// because of the duration of the request.
	windowGrace = time.Minute
)

// selection is the validated request of a replay.
type selection struct {
	tenant       string      // of the key, empty: the account's
	query        event.Query // Destinations is empty: they restrict where events go, not which events
	destinations []string    // ids; empty = all enabled destinations
	undelivered  bool        // only destinations that have not got the event, see awaits
	rate         int
	dryRun       bool
	filter       json.RawMessage // the filter as the run shows it
}

// selectionInput reads the body of a replay. Filters may be at its top or inside filter.
type selectionInput struct {
	frame.Input
	top, inner *frame.Object // inner is nil without a filter member
	now        time.Time
}

// planner validates what a replay selects and counts what it will send.
type planner struct {
	*area
}

func (a *planner) newSelection(body []byte, key *config.Key) (*selection, *selectionInput) {
	in := &selectionInput{now: a.Now()}
	in.top = in.NewObject("", body)
	in.inner = in.top.Object("filter")
	// A filter or dry_run that is null stays an error: without it, more would be sent.
	times := slices.Concat(frame.SinceNames, frame.UntilNames)
	in.top.IgnoreNulls(append(times, "rate_per_second")...)
	if in.inner != nil {
		in.inner.IgnoreNulls(times...)
	}
	s := &selection{tenant: key.Tenant, rate: defaultReplayRate, query: event.Query{Account: key.Account}}
	filters := slices.DeleteFunc(slices.Clone(event.Filters), func(f event.Filter) bool { return !f.Replay })
	frame.ReadFilters(in, filters, &s.query)
	if key.Tenant == "" {
		a.OfTenant(in, key, &s.query)
	}
	in.readTimes(in.now, a.IDs.Ahead(), &s.query)
	in.top.Integer("rate_per_second", 1, maxReplayRate, &s.rate)
	in.top.Boolean("dry_run", &s.dryRun)
	in.top.Boolean(onlyUndelivered, &s.undelivered)
	in.top.RefuseUnknown()
	if in.inner != nil {
		in.inner.RefuseUnknown()
	}
	var names []string
	for _, f := range filters {
		names = append(names, f.Name)
	}
	if s.filter = filterJSON(filters, &s.query); len(s.filter) == len("{}") {
		in.Fail("", "send at least one of %s: without one, every event would be replayed", strings.Join(names, ", "))
	}
	if key.Tenant != "" { // after the check: its own endpoints are no choice
		a.OfTenant(in, key, &s.query)
	}
	if s.undelivered {
		s.filter = append(s.filter[:len(s.filter)-1], `,"`+onlyUndelivered+`":true}`...)
	}
	s.destinations, s.query.Destinations = s.query.Destinations, nil
	return s, in
}

// onlyUndelivered is the parameter that leaves out destinations which have the event, or which it is on its way to.
const onlyUndelivered = "only_undelivered"

// hasOrAwaits reports whether a destination has the event, or whether its delivery goes on.
func hasOrAwaits(deliveries []event.Delivery, dest string) bool {
	return slices.ContainsFunc(deliveries, func(d event.Delivery) bool {
		return d.Destination == dest && (d.Status == event.Delivered || !d.Status.Terminal())
	})
}

// member finds a member by any of its names, at the top or inside filter.
func (in *selectionInput) member(names ...string) (o *frame.Object, name string, raw []byte) {
	for _, at := range []*frame.Object{in.top, in.inner} {
		if at == nil {
			continue
		}
		for _, n := range names {
			value, ok := at.Raw(n)
			switch {
			case !ok:
			case o != nil:
				at.Fail(n, "means the same as %s; send only one of them", o.Param(name))
			default:
				o, name, raw = at, n, value
			}
		}
	}
	return o, name, raw
}

// List reads one value, several separated by commas, or an array. The elements of an array are values as they are: the
// type of an event may contain a comma. An empty value is refused: if it counted as absent, as in a list, the replay
// would send more than the client meant.
func (in *selectionInput) List(names ...string) (values []string) {
	o, name, raw := in.member(names...)
	if o == nil {
		return nil
	}
	if values = oneOrMore(o, name, raw); in.Err == nil && len(values) == 0 {
		o.Fail(name, "must not be empty; leave it out to select by the other filters")
	}
	return values
}

// oneOrMore reads one value, several separated by commas, or an array; see list.
func oneOrMore(o *frame.Object, name string, raw []byte) (values []string) {
	isArray, elements := frame.KindOf(raw) == frame.KindArray, [][]byte{raw}
	if isArray {
		elements = o.Array(name, frame.MaxFilterValues)
	}
	for _, element := range elements {
		text, good := stringOf(element)
		if !good {
			o.Fail(name, "must be a string or an array of strings")
			return nil
		}
		if isArray {
			values = append(values, text)
			continue
		}
		for part := range strings.SplitSeq(text, ",") {
			values = append(values, strings.TrimSpace(part))
		}
	}
	if slices.ContainsFunc(values, func(v string) bool { return v == "" || len(v) > frame.MaxFilterValue }) {
		o.Fail(name, "must have values of 1 to %d bytes; leave it out to select by the other filters", frame.MaxFilterValue)
	}
	if len(values) > frame.MaxFilterValues {
		o.Fail(name, "may have at most %d values", frame.MaxFilterValues)
	}
	return values
}

// stringOf decodes a JSON string; false for any other kind.
func stringOf(raw []byte) (string, bool) {
	if frame.KindOf(raw) != frame.KindString {
		return "", false
	}
	text, err := web.DecodeString(raw)
	return text, err == nil
}

// Param returns the name by which a member was sent, or its first name if it was not.
func (in *selectionInput) Param(names ...string) string {
	if o, name, _ := in.member(names...); o != nil {
		return o.Param(name)
	}
	return names[0]
}

func (in *selectionInput) Time(names ...string) (t time.Time, sent string) {
	o, name, raw := in.member(names...)
	if o == nil {
		return t, ""
	}
	text, _ := stringOf(raw)
	t, good := web.ParseMoment(text, in.now)
	if !good {
		o.Fail(name, web.MomentForms)
	}
	return t, o.Param(name)
}

// readTimes reads the window. The upper end is fixed here, at the end of the current millisecond or of the highest
// id of this node, so that everything acknowledged before the call is inside.
func (in *selectionInput) readTimes(now time.Time, ahead time.Duration, q *event.Query) {
	edge := now.Add(max(ahead, 0)).Truncate(time.Millisecond).Add(time.Millisecond)
	span := frame.ReadWindow(in, frame.SinceNames, frame.UntilNames)
	q.Since, q.Until = span.Since, span.Until
	longest := maxReplayWindow
	switch {
	case span.SinceName == "":
		in.Fail("since", "is required")
	case !q.Since.Before(edge):
		in.Fail(span.SinceName, "must not be in the future")
	case span.UntilName == "" || q.Until.After(edge):
		q.Until = edge
		longest += windowGrace
	}
	if in.Err == nil && q.Until.Sub(q.Since) > longest {
		in.Err = errSelectionTooLarge(span.SinceName, "the window is longer than 31 days")
	}
}

// errSelectionTooLarge is the 400 for a selection that one call may not queue.
func errSelectionTooLarge(param, what string) error {
	return &web.Error{Status: http.StatusBadRequest, Type: web.SelectionTooLarge, Param: param,
		Message: what + ": narrow the selection, or recover failed deliveries with POST /v1/recoveries; nothing was queued"}
}

// filterJSON returns the filter of a run as it is shown.
func filterJSON(filters []event.Filter, q *event.Query) json.RawMessage {
	text := []byte("{")
	for i := range filters {
		var value any
		switch values := filters[i].Values(q); len(values) {
		case 0:
			continue
		case 1:
			value = values[0]
		default:
			value = values
		}
		if len(text) > 1 {
			text = append(text, ',')
		}
		text = append(text, filterText(filters[i].Name)...)
		text = append(append(text, ':'), filterText(value)...)
	}
	return append(text, '}')
}

func filterText(v any) json.RawMessage {
	text, err := json.Marshal(v)
	if err != nil {
		panic(fmt.Sprintf("BUG: encode a filter: %v", err))
	}
	return text
}

// resolveDestinations restricts the selection to the endpoints of the requested destinations. It refuses unknown
// destinations and warns about endpoints that do not exist.
func (a *planner) resolveDestinations(ctx context.Context, s *selection, in *selectionInput) error {
	missing := slices.Clone(s.destinations)
	// ownsMissing removes the endpoint's destinations from missing, and reports whether there were any.
	ownsMissing := func(e *config.Endpoint) bool {
		before := len(missing)
		missing = slices.DeleteFunc(missing, func(d string) bool { return e.Destination(d) != nil })
		return len(missing) < before
	}
	for _, name := range s.query.Endpoints {
		e := a.PresentEndpoint(name, s.query.Account)
		if name == frame.NoEndpoint {
			in.Warn(in.Param("endpoint_id", "tenant"), "selects no endpoint of the tenant")
			continue
		}
		if e == nil {
			in.Warn(in.Param("endpoint_id", "endpoint"), "endpoint "+name+" does not exist; its events are not delivered")
			continue
		}
		ownsMissing(e)
	}
	if len(s.query.Endpoints) == 0 && len(s.destinations) > 0 {
		owners, err := a.endpointsWhere(ctx, s.query.Account, func(e *config.Endpoint) (bool, bool) {
			return ownsMissing(e), len(missing) == 0
		})
		if err != nil {
			return err
		}
		s.query.Endpoints = owners
	}
	if len(missing) > 0 {
		const text = "has %q, which is not a destination of the selected endpoints"
		return web.Invalid(in.Param("destination_id"), text, missing[0])
	}
	return nil
}

// endpointsPage is how many endpoints one read of the configuration returns.
const endpointsPage = 500

// endpointsWhere returns the ids of the account's endpoints that match. It stops when match reports that they are
// enough.
func (a *planner) endpointsWhere(
	ctx context.Context, account string, match func(*config.Endpoint) (yes, enough bool),
) (names []string, err error) {
	for before, more := int64(0), true; more; {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		var page []*config.Endpoint
		page, more = a.Config.Endpoints(account, before, endpointsPage)
		for _, e := range page {
			yes, enough := match(e)
			if yes {
				names = append(names, e.ID)
			}
			if enough {
				return names, nil
			}
			before = e.Seq
		}
	}
	return names, nil
}
