// Package pages has the page of the sample shop.
package pages

import (
	"crypto/rand"
	"embed"
	"net/url"
	"strconv"
	"time"

	"github.com/eventrelay/relay/api/wire"
	"github.com/eventrelay/relay/dashboard/model"
	"github.com/eventrelay/relay/dashboard/ui"
	"github.com/eventrelay/relay/features/demo/shop"
	"github.com/eventrelay/relay/pkg/config"
	"github.com/eventrelay/relay/pkg/event"
)

// Area returns the pages of this package.
func Area() ui.Area {
	return ui.Area{Pages: files, Routes: []ui.Route{
		{"GET", ui.SamplePath, ui.Reader, show},
		{"POST", ui.SamplePath, ui.Writer, ui.Submit(start)},
		{"POST", ui.SamplePath + "/remove", ui.Writer, ui.Submit(remove)},
	}}
}

//go:embed pages
var files embed.FS

const (
	// maxSearched is how many endpoints, the newest first, are searched for the sample.
	maxSearched = 1000
	shownEvents = 8
)

// find returns the endpoint of the sample and when it began; nil: there is none.
func find(v *ui.Visit) (*config.Endpoint, time.Time) {
	all, _ := v.Deps.Control.Endpoints(v.Person.Account, 0, maxSearched)
	for _, ep := range all {
		if at, ok := shop.BeganAt(ep); ok {
			return ep, at
		}
	}
	return nil, time.Time{}
}

func start(v *ui.Visit, f *ui.Form) error {
	if ep, _ := find(v); ep == nil {
		if err := v.Do("POST /v1/endpoints", f, shop.Body(v.Now(), rand.Text()), nil); err != nil {
			return err
		}
	}
	return v.Redirect(ui.SamplePath, "")
}

func remove(v *ui.Visit, f *ui.Form) error {
	if ep, _ := find(v); ep != nil {
		if err := v.Do("DELETE /v1/endpoints/"+ep.ID, f, nil, nil); err != nil {
			return err
		}
	}
	return v.Redirect("/app", "Removed the sample")
}

// page is the data of the page of the sample.
type page struct {
	Endpoint  *config.Endpoint // nil: there is none
	Steps     []step
	Counts    []model.StatusCount
	Events    []*model.EventRow
	EventsAll string // path of all of them
	Recover   string // path of the form that recovers what failed; empty: nothing has
	Running   bool   // events come
}

// step is a part of the story.
type step struct {
	Icon, Title, Text string
	At                time.Time // when it begins; zero: it has begun
}

func show(v *ui.Visit) error {
	ep, began := find(v)
	p := page{Endpoint: ep}
	if ep == nil {
		return v.Page("sample", p)
	}
	about := url.Values{"endpoint_id": {ep.ID}}
	p.EventsAll = ui.WithQuery(ui.EventsPath, about)
	n, err := model.CountEvents(v, about)
	if err != nil {
		return err
	}
	failed, known := 0, n != nil
	if known {
		failed = n.Statuses.Failed
		for _, c := range n.ByStatus() {
			if c.Path = ui.WithQuery(ui.EventsPath, about, "status", c.Name); c.Count != "" {
				p.Counts = append(p.Counts, c)
			}
		}
	}
	about.Set("limit", strconv.Itoa(shownEvents))
	var rows wire.List[wire.EventRow]
	if _, err := v.TryGet("/v1/events", about, &rows); err != nil {
		return err
	}
	p.Events = model.EventRows(rows.Data)
	for _, e := range p.Events {
		e.SetNames(v)
	}
	now := v.Now()
	p.Running = now.Before(began.Add(shop.Lasts))
	if now.After(began.Add(shop.Works+shop.Broken)) && failed > 0 && v.CanWrite() {
		p.Recover = ui.WithQuery(ui.NewRecoveryPath, nil, "endpoint_id", ep.ID,
			"since", began.UTC().Truncate(time.Minute).Format(time.RFC3339))
	}
	p.Steps = steps(now.Sub(began), began, failed, known)
	return v.Page("sample", p)
}

// steps returns what has happened so far and what comes next. failed is the number of events that failed for good.
func steps(age time.Duration, began time.Time, failed int, known bool) []step {
	done, next := string(event.Delivered), string(event.Pending)
	all := []step{{done, "Orders arrive",
		"Twice a second the shop posts a signed event. The relay verifies and stores it, and delivers it to a mailer and a " +
			"warehouse.", time.Time{}}}
	breaks := step{next, "The warehouse breaks", "It answers 503 for 25 seconds. The mailer is not affected.",
		began.Add(shop.Works)}
	works := step{next, "The warehouse works again", "New orders arrive there.", began.Add(shop.Works + shop.Broken)}
	recovered := step{Icon: next, Title: "You recover what failed",
		Text: "Five deliveries first, the canary; the others after your approval."}
	switch {
	case age >= shop.Works+shop.Broken:
		breaks.Icon, breaks.At, works.Icon, works.At = done, time.Time{}, done, time.Time{}
		works.Text = "New orders arrive there. " + ui.Plural(failed, "event was", "events were") +
			" given up after two attempts."
		switch {
		case !known:
			works.Text = "New orders arrive there."
		case failed > 0:
			recovered.Icon = "recover"
		case age >= shop.Works+shop.Broken+settles:
			works.Text = "New orders arrive there."
			recovered = step{Icon: done, Title: "All has arrived", Text: "What had failed was recovered."}
		}
	case age >= shop.Works:
		breaks.Icon, breaks.At = string(event.Failed), time.Time{}
	}
	return append(all, breaks, works, recovered)
}

// settles is how long after the break a delivery may still fail for the last time, and its outcome may not be counted.
const settles = 10 * time.Second
