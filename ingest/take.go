package ingest

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"sync"
	"time"

	"github.com/eventrelay/relay/pkg/claim"
	"github.com/eventrelay/relay/pkg/config"
	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/stream"
	"github.com/eventrelay/relay/pkg/wait"
)

const (
	// takenWindow is how long the key of a taken record is remembered after it was stored. A source commits its position
	// every second, so only what it took since then can come again.
	takenWindow = time.Hour
	// maxTaking is how many keys of one call are claimed at the same time.
	maxTaking = 64
	// maxMarks is how often a key is marked as stored, which takes six seconds: less than a claim lasts.
	maxMarks = 7
)

var markPause = wait.Backoff{First: 100 * time.Millisecond, Longest: 5 * time.Second}

// ErrPending means that another node may be storing some of the records: take them again.
var ErrPending = errors.New("another node has begun to store a record")

var errUnknown = errors.New("redis, which knows what has arrived, is unavailable: nothing was fetched")

// Record is a record of an endpoint's source.
type Record struct {
	Key    string // the same whenever the record is read
	Header []event.Field
	Body   []byte
}

// MaxBody is the largest body of an event, in bytes.
func (g *Ingest) MaxBody() int64 { return g.cfg.MaxBody }

// Take stores records of an endpoint's source as events, in their order, but those that were stored before. It returns
// how many it has stored. After an error some are stored: take all of them again.
func (g *Ingest) Take(ctx context.Context, ep *config.Endpoint, records []Record) (stored int, err error) {
	return g.take(ctx, ep, records, nil, func(e *event.Event, p *prepared, r Record) (string, time.Duration) {
		e.Source, e.Verdict = event.SourceProvider, event.VerdictUnverified
		return "source\x00" + ep.ID + "\x00" + r.Key, takenWindow
	})
}

// TakeFetched is Take for events that the provider's API has given out. Those that arrived at the ingest URL are left
// out, and one that arrives afterwards is a duplicate: both have the deduplication key of the endpoint. While Redis
// is down nothing is stored, since the provider lists the events of weeks and will list them again.
func (g *Ingest) TakeFetched(ctx context.Context, ep *config.Endpoint, records []Record) (stored int, err error) {
	return g.take(ctx, ep, records, errUnknown, func(e *event.Event, p *prepared, r Record) (string, time.Duration) {
		e.Source, e.Verdict = event.SourceReconcile, event.VerdictVerified
		value, ok := r.Key, false
		if p.dedup != nil {
			if value, ok = p.dedup.OfReceived(headerOf(r), r.Body); !ok {
				value = r.Key
			}
		}
		return claimKey(ep, e.Verdict, value), ep.DedupWindow()
	})
}

func headerOf(r Record) http.Header {
	header := http.Header{}
	for _, f := range r.Header {
		header[f.Name] = append(header[f.Name], f.Value)
	}
	return header
}

// take stores records. claimOf completes an event, and returns its deduplication key and how long that is remembered.
// While claims are unavailable, take returns the error unclaimed; if that is nil, it stores the records all the same.
func (g *Ingest) take(ctx context.Context, ep *config.Endpoint, records []Record, unclaimed error,
	claimOf func(e *event.Event, p *prepared, r Record) (string, time.Duration)) (stored int, err error) {
	p, err := g.preparer.get(ep)
	if err != nil {
		return 0, err
	}
	claims, held := make([]*claim.Request, len(records)), make([]claim.State, len(records))
	events := make([]*event.Event, len(records))
	for i, r := range records {
		events[i] = newTaken(ep, p, r)
		g.validate(ep, events[i])
		if err := g.acceptor.assignID(events[i], ep); err != nil {
			return 0, err
		}
		key, window := claimOf(events[i], p, r)
		claims[i] = &claim.Request{Account: ep.Account, Key: key, Event: events[i].ID,
			Size: int64(waitingOverhead + len(r.Body)), Window: window}
	}
	until, cancel := context.WithTimeout(ctx, g.claimWait)
	defer cancel()
	first := map[string]bool{} // a repeat within the call would wait for the first one
	for i, c := range claims {
		if first[c.Key] {
			held[i] = claim.Stored
		}
		first[c.Key] = true
	}
	inParallel(len(records), func(i int) {
		if held[i] != claim.Stored {
			held[i] = g.claims.Begin(until, claims[i]).State
		}
	})
	var fresh []*event.Event
	var at []int
	for i, state := range held {
		switch state {
		case claim.New, claim.Unavailable, claim.Off:
			events[i].ID = claims[i].Event // that of an earlier call, if its event was not stored
			fresh, at = append(fresh, events[i]), append(at, i)
			if state != claim.New {
				err = cmp.Or(err, unclaimed)
			}
		case claim.Pending:
			err = ErrPending
		}
	}
	if err != nil {
		inParallel(len(at), func(i int) { _ = g.claims.Finish(ctx, claims[at[i]], stream.ErrNotStored) })
		return 0, err
	}
	errs := g.acceptor.AcceptAll(ctx, fresh, ep)
	inParallel(len(at), func(i int) {
		if held[at[i]] != claim.New {
			return
		}
		for try := 0; g.claims.Finish(ctx, claims[at[i]], errs[i]) != nil && try < maxMarks-1; try++ {
			_ = wait.For(ctx, markPause.After(try)) // a provider lists the event again after the claim has ended
		}
	})
	for _, failed := range errs {
		if failed == nil {
			stored++
		}
		err = cmp.Or(err, failed) // report only the first
	}
	return stored, err
}

func newTaken(ep *config.Endpoint, p *prepared, r Record) *event.Event {
	e := &event.Event{Method: http.MethodPost, Header: r.Header, Body: r.Body, Dests: p.dests}
	if e.Type = p.types.Of(headerOf(r), r.Body); len(e.Dests) == 0 {
		e.Reason = event.NoDestination
	}
	e.SkipIfLoop(ep.ID)
	return e
}

// inParallel calls f with 0 to n-1, maxTaking at a time.
func inParallel(n int, f func(int)) {
	var all sync.WaitGroup
	turns := make(chan struct{}, maxTaking)
	for i := range n {
		turns <- struct{}{}
		all.Go(func() {
			defer func() { <-turns }()
			f(i)
		})
	}
	all.Wait()
}
