package dashboard

import (
	"errors"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
)

// purgePage is the data of the page that asks before open deliveries are ended.
type purgePage struct {
	*destinationPage
	Open        int    // deliveries that are open
	More        bool   // there are more than Open
	Unavailable string // why they could not be counted
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

// One reports whether it is a single delivery.
func (p *purgePage) One() bool { return p.Open == 1 && !p.More }

// Before is the time of the form; empty: now.
func (p *purgePage) Before() string { return purgeTime(p.Form) }

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
	p := &purgePage{destinationPage: newDestinationPage(at.e, at.d, f)}
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
	if before := purgeTime(p.Form); before != "" {
		query.Set("until", before)
	}
	for range maxCountedPages {
		list, err := readRows[eventRow](v, "/v1/events", query)
		if x, ok := errors.AsType[*apiError](err); ok && (x.isUnavailable() || x.Status == http.StatusTooManyRequests) {
			p.Unavailable = sentence(x.Message)
			return nil
		} else if ok && x.Status == http.StatusBadRequest {
			x.Param, p.Form.ReadOnly = "before", true
			v.status = p.Form.setError(x)
			return nil
		} else if err != nil {
			return err
		}
		for _, e := range list.Data {
			if slices.ContainsFunc(e.Deliveries, func(d deliveryState) bool {
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
	done, err := v.ask("POST "+destinationAPI+"/purge", f, body, nil, func() error { return showPurge(v, at, f) })
	if !done {
		return err
	}
	return v.redirect(at.e.DestinationPath(at.d), "Purged. Open deliveries end as skipped.")
}
