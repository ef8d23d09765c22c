package reconcile

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"time"

	"github.com/eventrelay/relay/ingest"
	"github.com/eventrelay/relay/pkg/event"
)

// maxID bounds the id of an event or a delivery, in bytes.
const maxID = 100

// errTooMany ends a pass over more than the provider may list.
var errTooMany = fmt.Errorf("the provider lists more than %d events since that time: set since to a later one",
	perPage*maxPages)

// settled is how old an event must be: younger ones may be on their way.
const settled = 15 * time.Second

// stripe fetches events that Stripe could not deliver to all webhook endpoints of the account:
// https://docs.stripe.com/webhooks/process-undelivered-events, https://docs.stripe.com/api/events/list. Those that this
// endpoint got are among them if another one failed; ingest.TakeFetched leaves them out.
type stripe struct {
	*client
	base    string
	types   []string
	maxBody int64
}

func newStripe(c *client, base string, types []string, maxBody int64) *stripe {
	c.header = http.Header{"Authorization": {"Bearer " + c.credential}, "Accept": {"application/json"}}
	c.rights = "the right to read events (Events: Read)"
	return &stripe{c, base, types, maxBody}
}

// pass fetches the events since from, newest page first, the oldest of each page first.
func (s *stripe) pass(ctx context.Context, from time.Time, count *Counts, take takeFunc) error {
	query := url.Values{"limit": {"100"}, "delivery_success": {"false"},
		"created[gte]": {strconv.FormatInt(from.Unix(), 10)},
		"created[lte]": {strconv.FormatInt(time.Now().Add(-settled).Unix(), 10)}}
	if len(s.types) > 0 {
		query["types[]"] = s.types
	}
	var tooLarge error // said when all others are stored
	for range maxPages {
		var listed struct {
			Data    page[json.RawMessage] `json:"data"`
			HasMore bool                  `json:"has_more"`
		}
		if _, err := s.ask(ctx, http.MethodGet, at(s.base, "/v1/events", query), &listed); err != nil {
			return err
		}
		last, records := "", make([]ingest.Record, 0, len(listed.Data))
		for _, body := range slices.Backward(listed.Data) {
			var e struct{ ID string }
			if json.Unmarshal(body, &e) != nil || e.ID == "" || len(e.ID) > maxID {
				return errOdd
			}
			if last == "" {
				last = e.ID
			}
			if int64(len(body)) > s.maxBody {
				tooLarge = fmt.Errorf("the event %s has %d bytes, more than an event may have: set since to a later time",
					e.ID, len(body))
				continue
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
		if !listed.HasMore || last == "" {
			return tooLarge
		}
		query.Set("starting_after", last)
	}
	return errTooMany
}
