package endpoints

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/eventrelay/relay/api/frame"
	"github.com/eventrelay/relay/api/wire"
	"github.com/eventrelay/relay/pkg/config"
	"github.com/eventrelay/relay/pkg/config/filter"
	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/id"
	"github.com/eventrelay/relay/pkg/web"
)

// Bounds of the preview of a filter: events, bytes of their bodies, and time.
const (
	maxFiltered      = 100
	maxFilteredBytes = 16 << 20
	filterTime       = 5 * time.Second
)

// previewFilter says which of the newest events of an endpoint pass a filter. It stores nothing.
func (a *previews) previewFilter(w http.ResponseWriter, r *http.Request, key *config.Key) error {
	e, err := a.EndpointInPath(r, key)
	if err != nil {
		return err
	}
	if err := a.pace(key); err != nil {
		return err
	}
	body, err := a.Body(r)
	if err != nil {
		return err
	}
	in := &endpointInput{}
	o, d, of := in.NewObject("", body), config.Destination{}, ""
	if o.Text("destination_id", 1, maxHeaderName, &of); of != "" {
		if saved := e.Destination(of); saved != nil {
			d = *saved
		} else {
			o.Fail("destination_id", "is not a destination of this endpoint")
		}
	}
	in.filter(o, &d)
	o.WarnUnknown()
	if in.Err != nil {
		return in.Err
	}
	end, ok := a.turns.Take(r.Context())
	if !ok {
		return web.ServiceUnavailable(nil, "this node is making other previews; try again")
	}
	defer end()
	view := wire.FilterPreview{Data: []wire.FilteredEvent{}, Warnings: in.Warnings}
	if err := a.filterEvents(r.Context(), key, e, d.Filter, &view); err != nil {
		return err
	}
	return web.Answer(w, http.StatusOK, view)
}

// filterEvents fills a preview with the newest events, as many as there is time and room for.
func (a *previews) filterEvents(
	ctx context.Context, key *config.Key, e *config.Endpoint, f *filter.Filter, view *wire.FilterPreview,
) error {
	ctx, cancel := context.WithTimeout(ctx, filterTime)
	defer cancel()
	page, err := a.Events.Events(ctx, event.Query{Account: key.Account, Endpoints: []string{e.ID}, Limit: maxFiltered})
	if err != nil {
		return err
	}
	conditions, size := filter.NewConditions([]*filter.Filter{f}), 0
	for i := range page.Rows {
		row := &page.Rows[i]
		x := wire.FilteredEvent{EventID: row.ID.Text(id.Event), ReceivedAt: web.Time(row.ID.Time()),
			Type: frame.OrNull(string(a.ViewerOf(key).MaskTokens([]byte(row.Type)))), Passes: f.MatchesType(row.Type)}
		if x.Passes && f.HasConditions() {
			if size += row.Size; size > maxFilteredBytes || !a.Erasures.ErasedAt(row.ID).IsZero() {
				continue
			}
			detail, err := a.Events.Event(ctx, key.Account, row.ID)
			switch {
			case ctx.Err() != nil:
				return nil // what was looked at is an answer
			case errors.Is(err, event.ErrNotFound):
				continue
			case err != nil:
				return err
			}
			ev, _ := a.masked(key, detail.Event)
			if x.Passes, err = conditions.HoldFor(0, &ev, e.Tenant); err != nil {
				x.Passes, x.Error = false, frame.OrNull(err.Error())
				view.Failed++
			}
		}
		if x.Passes {
			view.Passed++
		}
		view.Data = append(view.Data, x)
	}
	return nil
}
