package reconcile

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"time"

	"github.com/eventrelay/relay/ingest"
	"github.com/eventrelay/relay/pkg/event"
)

// settled is how old an event must be: younger ones may be on their way.
const settled = 15 * time.Second

// stripe fetches events that Stripe could not deliver to all webhook endpoints of the account:
// https://docs.stripe.com/webhooks/process-undelivered-events, https://docs.stripe.com/api/events/list. Those that this
// endpoint got are among them if another one failed; ingest.Take leaves them out.
type stripe struct {
	*client
	base  string
	types []string
}

func newStripe(c *client, base string, types []string) *stripe {
	c.header = http.Header{"Authorization": {"Bearer " + c.credential}, "Accept": {"application/json"}}
	c.rights = "the right to read events (Events: Read)"
	return &stripe{c, base, types}
}

// pass fetches the events since from, newest page first, the oldest of each page first.
func (s *stripe) pass(ctx context.Context, from time.Time, count *Counts, take takeFunc) error {
	query := url.Values{"limit": {"100"}, "delivery_success": {"false"},
		"created[gte]": {strconv.FormatInt(from.Unix(), 10)},
		"created[lte]": {strconv.FormatInt(time.Now().Add(-settled).Unix(), 10)}}
	if len(s.types) > 0 {
		query["types[]"] = s.types
	}
	for {
		var page struct {
			Data    []json.RawMessage `json:"data"`
			HasMore bool              `json:"has_more"`
		}
		if _, err := s.ask(ctx, http.MethodGet, at(s.base, "/v1/events", query), &page); err != nil {
			return err
		}
		last, records := "", make([]ingest.Record, 0, len(page.Data))
		for _, body := range slices.Backward(page.Data) {
			var e struct{ ID string }
			if json.Unmarshal(body, &e) != nil || e.ID == "" {
				return errors.New("an event of Stripe has no id")
			}
			if last == "" {
				last = e.ID
			}
			records = append(records, ingest.Record{Key: e.ID, Body: bytes.Clone(body),
				Header: []event.Field{{Name: "Content-Type", Value: "application/json; charset=utf-8"}}})
		}
		stored, err := take(ctx, records)
		count.Found += len(records)
		count.Stored += stored
		if err != nil {
			return err
		}
		if !page.HasMore || last == "" {
			return nil
		}
		query.Set("starting_after", last)
	}
}
