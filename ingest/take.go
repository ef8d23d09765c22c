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
)

const (
	// takenWindow is how long the key of a taken record is remembered after it was stored. A source commits its position
	// every second, so only what it took since then can come again.
	takenWindow = time.Hour
	// maxTaking is how many keys of one call are claimed at the same time.
	maxTaking = 64
)

// ErrPending means that another node may be storing some of the records: take them again.
var ErrPending = errors.New("another node has begun to store a record")

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
	p, err := g.preparer.get(ep)
	if err != nil {
		return 0, err
	}
	claims, held := make([]*claim.Request, len(records)), make([]claim.State, len(records))
	events := make([]*event.Event, len(records))
	for i, r := range records {
		events[i] = newTaken(ep, p, r)
		if err := g.acceptor.assignID(events[i], ep); err != nil {
			return 0, err
		}
		claims[i] = &claim.Request{Account: ep.Account, Key: "source\x00" + ep.ID + "\x00" + r.Key, Event: events[i].ID,
			Size: int64(waitingOverhead + len(r.Body)), Window: takenWindow}
	}
	until, cancel := context.WithTimeout(ctx, g.claimWait)
	defer cancel()
	inParallel(len(records), func(i int) { held[i] = g.claims.Begin(until, claims[i]).State })
	var fresh []*event.Event
	var at []int
	for i, state := range held {
		switch state {
		case claim.New, claim.Unavailable:
			fresh, at = append(fresh, events[i]), append(at, i)
		case claim.Pending:
			err = ErrPending
		}
	}
	if err != nil {
		inParallel(len(at), func(i int) { g.deps.Claims.Release(ctx, claims[at[i]].Key, fresh[i].ID) })
		return 0, err
	}
	errs := g.acceptor.AcceptAll(ctx, fresh, ep)
	inParallel(len(at), func(i int) {
		if held[at[i]] == claim.New {
			_ = g.claims.Finish(ctx, claims[at[i]], errs[i]) // if this fails, a repeat searches the log
		}
	})
	for _, failed := range errs {
		if failed == nil {
			stored++
		}
		err = cmp.Or(err, failed) // one says enough
	}
	return stored, err
}

func newTaken(ep *config.Endpoint, p *prepared, r Record) *event.Event {
	e := &event.Event{Source: event.SourceProvider, Verdict: event.VerdictUnverified, Method: http.MethodPost,
		Header: r.Header, Body: r.Body, Dests: p.dests}
	header := http.Header{}
	for _, f := range r.Header {
		header[f.Name] = append(header[f.Name], f.Value)
	}
	if e.Type = p.types.Of(header, r.Body); len(e.Dests) == 0 {
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
