package dashboard

import (
	"maps"
	"math"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/eventrelay/relay/api/wire"
)

// destinationPage is the data of the pages of one destination.
type destinationPage struct {
	*endpointPage
	Destination *destinationData    // nil: a new one
	Traffic     *destinationTraffic // nil: not read
}

func newDestinationPage(e *endpointData, d *destinationData, f *form) *destinationPage {
	p := &destinationPage{endpointPage: newEndpointPage(e), Destination: d}
	p.Form = f
	return p
}

// Self is the path of the destination's page.
func (p *destinationPage) Self() string { return destinationPageOf(p.ID, p.Destination.ID) }

// destinationFields are the settings of a destination.
var destinationFields = fieldTable{
	{optionalText, "name"}, {trimmedField, "url"}, {checkbox, "enabled"}, {numberField, "timeout_seconds max_in_flight"},
}

// Fields of a destination that destinationBody reads one by one.
var (
	filterFields = fieldTable{{lineField, "filter.types"}, {jsonField, "filter.body"}}
	rateFields   = fieldTable{{numberField, "rate_limit.per_second rate_limit.burst"}}
)

// destinationValues returns what the fields of a destination show. Their names are the API's parameters.
func destinationValues(d *destinationData) url.Values {
	values := destinationFields.values(d)
	maps.Copy(values, filterFields.values(d))
	maps.Copy(values, rateFields.values(d))
	var lines []string
	for _, name := range slices.Sorted(maps.Keys(d.Headers)) {
		lines = append(lines, name+": "+d.Headers[name])
	}
	values.Set("headers", strings.Join(lines, "\n"))
	values.Set("signing.secret", "") // write-only
	return values
}

// newDestination has the defaults of the API.
func newDestination() *destinationData {
	return &destinationData{wire.Destination{Enabled: true, TimeoutSeconds: 15, MaxInFlight: 64}}
}

// destinationBody returns the members of a destination that a form changes, or what is wrong with it.
func destinationBody(f *form, stored url.Values, d *destinationData) (map[string]any, error) {
	x := newEdit(f, stored)
	x.set(destinationFields)
	x.rateLimit()
	if x.changed("headers") {
		headers, err := headersOf(x.value("headers"), d.Headers)
		if err != nil {
			return nil, err
		}
		x.body["headers"] = headers
	}
	if x.changed("filter.types", "filter.body") {
		maps.Copy(x.body, filterFields.all(f))
		if len(asLines(x.value("filter.types"))) == 0 && strings.TrimSpace(x.value("filter.body")) == "" {
			x.body["filter"] = nil
		}
	}
	if secret := strings.TrimSpace(x.value("signing.secret")); secret != "" {
		x.put("signing.secret", secret)
	}
	return x.body, nil
}

// rateLimit sets the rate limit. Without a burst it is that of one second.
func (x *edit) rateLimit() {
	const name = "rate_limit"
	if !x.changed(name+".per_second", name+".burst") {
		return
	}
	rate, burst := strings.TrimSpace(x.value(name+".per_second")), x.value(name+".burst")
	if rate == "" {
		x.body[name] = nil
		return
	}
	x.put(name+".per_second", asNumber(rate))
	n, err := strconv.ParseFloat(rate, 64)
	switch {
	case strings.TrimSpace(burst) != "":
		x.put(name+".burst", asNumber(burst))
	case x.stored.Get(name+".burst") != "" && err == nil && n > 0 && n <= 1e6:
		x.put(name+".burst", int(math.Ceil(n)))
	}
}

// headersOf returns the headers in lines of the form Name: value, and null for the stored ones that are gone.
func headersOf(text string, stored map[string]string) (map[string]any, error) {
	headers := map[string]any{}
	for i, line := range asLines(text) {
		name, value, ok := strings.Cut(line, ":")
		name = strings.TrimSpace(name)
		if _, twice := headers[name]; !ok || twice {
			if twice {
				return nil, fault("headers", "line %d repeats the header %s", i+1, name)
			}
			return nil, fault("headers", "line %d must be a name, a colon and a value, such as X-Team: billing", i+1)
		}
		headers[name] = strings.TrimSpace(value)
	}
	for name := range stored {
		if !slices.ContainsFunc(slices.Collect(maps.Keys(headers)), func(kept string) bool {
			return strings.EqualFold(kept, name)
		}) {
			headers[name] = nil
		}
	}
	return headers, nil
}

// newDestinationForm shows the form of a new destination.
func newDestinationForm(v *visit, e *endpointData) error {
	return v.page("destination", newDestinationPage(e, nil, newForm(destinationValues(newDestination()), "")))
}

// addDestination adds a destination and shows its signing secret, once.
func addDestination(v *visit, f *form, e *endpointData) error {
	d := &destinationData{}
	body, err := destinationBody(f, destinationValues(newDestination()), newDestination())
	if err == nil {
		err = v.do("POST "+endpointAPI+"/destinations", f, body, d)
	}
	return v.answer(f, err, func() error {
		p := newDestinationPage(e, nil, f)
		p.Open = true
		return v.page("destination", p)
	}, func() error { return showSecret(v, e, d, "Added "+d.Title()) })
}

// showSecret shows the signing secret of one destination.
func showSecret(v *visit, e *endpointData, d *destinationData, title string) error {
	p := newEndpointPage(e)
	p.Warnings = d.Warnings
	return v.page("endpoint-created", created{endpointPage: p, Title: title, Secrets: []destinationData{*d},
		Repeated: v.replayed, Next: destinationPageOf(e.ID, d.ID), NextText: "Go on to the destination"})
}

// showDestination shows one destination and the form of its settings.
func showDestination(v *visit, at place) error {
	traffic, err := readTraffic(v)
	if err != nil {
		return err
	}
	p := newDestinationPage(at.e, at.d, editForm(destinationValues(at.d)))
	p.Traffic = traffic.of(at.d)
	return v.page("destination", p)
}

// DestinationStatus is the state of the destination, with what its requests of the last hour say of it.
func (p *destinationPage) DestinationStatus() status {
	if p.Traffic != nil {
		return p.Traffic.Status()
	}
	return p.Destination.Status()
}

// DestinationState explains it.
func (p *destinationPage) DestinationState() string {
	d, x := p.Destination, p.Traffic
	switch {
	case x == nil:
		return d.Why()
	case x.Why() != "":
		return x.Why()
	case !x.Known:
		return "Whether its requests succeed is not known at the moment."
	}
	return "Events are delivered to it as they arrive."
}

// saveDestination saves the settings of a destination.
func saveDestination(v *visit, f *form, at place) error {
	stored, p := destinationValues(at.d), newDestinationPage(at.e, at.d, f)
	p.Open = true
	again := func() error { return v.page("destination", p) }
	body, err := destinationBody(f, stored, at.d)
	if err != nil {
		if status, stale := f.isStale(stored); stale {
			v.status = status
		} else if !v.refused(f, err) {
			return err
		}
		return again()
	}
	after := &destinationData{}
	return v.save(saving{form: f, stored: stored, body: body, call: "PATCH " + destinationAPI, out: after,
		back: p.Self(), again: again, then: func() error {
			if len(after.Warnings) == 0 {
				return v.redirect(p.Self(), "Saved")
			}
			p = newDestinationPage(at.e, after, editForm(destinationValues(after)))
			p.Warnings = after.Warnings
			return again()
		}})
}

// rotateSecret gives a destination another signing secret and shows it, once.
func rotateSecret(v *visit, f *form, at place) error {
	after := &destinationData{}
	body := members{"overlap_seconds": asNumber(f.Value("overlap_seconds"))}
	if err := v.do("POST "+destinationAPI+"/rotate_secret", f, body, after); err != nil {
		return err
	}
	return showSecret(v, at.e, after, "New signing secret of "+after.Title())
}

// removeDestination removes a destination from its endpoint.
func removeDestination(v *visit, f *form, at place) error {
	if err := v.do("DELETE "+destinationAPI, f, nil, nil); err != nil {
		return err
	}
	return v.redirect(at.e.Path(), "Removed "+truncate(at.d.Title(), 100))
}

// purgePage is the data of the page that asks before open deliveries are ended.
type purgePage struct {
	*destinationPage
	Open        int    // deliveries that are open
	More        bool   // there are more than Open
	Unavailable string // why they could not be counted
	Before      string // time of the form; empty: now
}

// maxCountedPages bounds the reads of a count: each page has 100 events.
const maxCountedPages = 10

// Count is the number of open deliveries in words.
func (p *purgePage) Count() string {
	if p.More {
		return "more than " + plural(p.Open, "delivery", "deliveries")
	}
	return plural(p.Open, "delivery", "deliveries")
}

// Nothing reports whether it is certain that no delivery is open.
func (p *purgePage) Nothing() bool { return p.Unavailable == "" && p.Open == 0 && !p.More }

// localTime matches a time without a zone, to the minute.
var localTime = regexp.MustCompile(`^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}$`)

// purgeTime returns the time in a form as the API takes it.
func purgeTime(f *form) string {
	before := strings.TrimSpace(f.Value("before"))
	if localTime.MatchString(before) {
		before += ":00Z"
	}
	return before
}

// confirmPurge counts the deliveries that a purge would end. It ends none.
func confirmPurge(v *visit, at place) error {
	return showPurge(v, at, newForm(url.Values{"before": {v.r.URL.Query().Get("before")}}, ""))
}

// showPurge shows the number of deliveries that the form ends, and asks.
func showPurge(v *visit, at place, f *form) error {
	p := &purgePage{destinationPage: newDestinationPage(at.e, at.d, f), Before: purgeTime(f)}
	if f.Error == "" {
		if err := p.count(v); err != nil {
			return err
		}
	}
	return v.page("destination-purge", p)
}

// count counts the open deliveries of the events that were received before the time of the form.
func (p *purgePage) count(v *visit) error {
	query := url.Values{"destination_id": {p.Destination.ID}, "status": {waitingStatuses},
		"limit": {"100"}}
	if p.Before != "" {
		query.Set("until", p.Before)
	}
	for range maxCountedPages {
		list, err := readRows[eventRow](v, "/v1/events", query)
		if isUnavailable(err) || statusOf(err) == http.StatusTooManyRequests {
			p.Unavailable = messageOf(err)
			return nil
		}
		if x, ok := badRequest(err); ok {
			x.Param, p.Form.ReadOnly = "before", true
			v.status = p.Form.setError(x)
			return nil
		} else if err != nil {
			return err
		}
		for _, e := range list.Data {
			if slices.ContainsFunc(e.Deliveries, func(d wire.DeliveryState) bool {
				return d.DestinationID == p.Destination.ID && isOpen(d.Status)
			}) {
				p.Open++
			}
		}
		if p.More = list.NextCursor != ""; !p.More {
			return nil
		}
		query.Set("cursor", list.NextCursor)
	}
	return nil
}

// purgeDestination ends the open deliveries of a destination.
func purgeDestination(v *visit, f *form, at place) error {
	body := map[string]any{}
	if before := purgeTime(f); before != "" {
		body["before"] = before
	}
	f.Refused = "Not purged"
	return v.ask("POST "+destinationAPI+"/purge", f, body, nil, func() error { return showPurge(v, at, f) },
		opens(v, destinationPageOf(at.e.ID, at.d.ID), "Purged. Open deliveries end as skipped."))
}
