package api

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/eventrelay/relay/pkg/config"
	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/id"
	"github.com/eventrelay/relay/pkg/wait"
	"github.com/eventrelay/relay/pkg/web"
)

// preparationWait is how long the answer to a new job waits for the job to become ready, and how long catchUp waits for
// the configuration log.
const preparationWait = 2 * time.Second

// core is shared by the handlers of all resources: the clock, request bodies, and the lookup of what a path names.
type core struct {
	maxBody       int64
	retentionDays int
	clock         func() time.Time
	ids           *id.Generator
	configReader  configReader
	// waiting is the room for repeats that wait for the first call with their Idempotency-Key, and for replays that wait
	// for another replay.
	waiting *wait.Room
}

// configReader finds in the configuration what a path or a body may name. A resource has the rest of the configuration
// that it needs as a field of its own.
type configReader interface {
	Endpoint(id string) (*config.Endpoint, config.Presence)
	EndpointByToken(token string) *config.Endpoint
	Endpoints(account string, beforeSeq int64, limit int) ([]*config.Endpoint, bool)
	Sync(ctx context.Context) error
}

func (c *core) now() time.Time { return c.clock().UTC().Truncate(time.Millisecond) }

// requestTime returns the time of the request; for a repeat, that of the first call with its Idempotency-Key.
func (c *core) requestTime(r *http.Request) time.Time {
	if x := callOf(r); x != nil {
		return x.claim.CreatedAt.UTC().Truncate(time.Millisecond)
	}
	return c.now()
}

// body validates Idempotency-Key and Content-Type of a write and reads its JSON body. An empty body is returned as {}.
func (c *core) body(r *http.Request) ([]byte, error) {
	if _, err := idempotencyKey(r); err != nil {
		return nil, err
	}
	if err := web.CheckContentType(r); err != nil {
		return nil, err
	}
	var buf bytes.Buffer
	if err := web.ReadBody(r, &buf, c.maxBody); err != nil {
		return nil, err
	}
	if buf.Len() == 0 {
		return []byte("{}"), nil
	}
	return buf.Bytes(), nil
}

// find returns what has an id, nil if it does not exist. When this node does not know the id, it reads again after it
// has caught up: another node may have created it a moment ago.
func find[P any](ctx context.Context, c *core, read func(id string) (P, config.Presence), name string) (none P) {
	x, presence := read(name)
	if presence == config.Unknown {
		c.catchUp(ctx)
		x, presence = read(name)
	}
	if presence != config.Present {
		return none
	}
	return x
}

// createOnce creates x. If its id exists, the first call with the Idempotency-Key has created it: that is returned.
func createOnce[P any](ctx context.Context, create func(context.Context, P) (P, error), x P,
	read func(id string) (P, config.Presence), name string) (P, error) {
	created, err := create(ctx, x)
	if errors.Is(err, config.ErrConflict) {
		if earlier, presence := read(name); presence == config.Present {
			return earlier, nil
		}
	}
	return created, err
}

// endpointInPath returns the endpoint that the path names, or the 404.
func (c *core) endpointInPath(r *http.Request, key *config.Key) (*config.Endpoint, error) {
	e := find(r.Context(), c, c.configReader.Endpoint, web.InfoOf(r).Vars["endpoint"])
	if e == nil || e.Account != key.Account {
		return nil, web.Missing("there is no such endpoint")
	}
	return e, nil
}

// destinationInPath returns the endpoint and the id of the destination that the path names, or the 404.
func (c *core) destinationInPath(r *http.Request, key *config.Key) (*config.Endpoint, string, error) {
	e, err := c.endpointInPath(r, key)
	if err != nil {
		return nil, "", err
	}
	name := web.InfoOf(r).Vars["destination"]
	if e.Destination(name) == nil {
		return nil, "", errNoDestination()
	}
	return e, name, nil
}

// presentEndpoint returns the account's endpoint with that id, or nil if it does not exist or was deleted.
func (c *core) presentEndpoint(name, account string) *config.Endpoint {
	e, presence := c.configReader.Endpoint(name)
	if presence != config.Present || e.Account != account {
		return nil
	}
	return e
}

// catchUp waits until this node has applied the configuration log up to now. A load balancer may send each request
// to another node, and a client must not see an older state than before. After preparationWait (2 s) the node
// answers with what it has.
func (c *core) catchUp(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, preparationWait)
	defer cancel()
	_ = c.configReader.Sync(ctx)
}

// eventInPath returns the id of the event that the path names, or the 404 when the id is malformed or the event's
// retention has ended. It does not check that the event exists.
func (c *core) eventInPath(r *http.Request) (id.ID, error) {
	d, err := id.Parse(id.Event, web.InfoOf(r).Vars["event"])
	if err != nil || !c.now().Before(c.expiry(d)) {
		return d, toWebError(event.ErrNotFound)
	}
	return d, nil
}

// expiry returns when the retention of an event ends.
func (c *core) expiry(d id.ID) time.Time { return d.Time().AddDate(0, 0, c.retentionDays) }

// pastWindow reads the time window of a list. An end in the future means now, for which it has the zero time (no end).
func (c *core) pastWindow(q *query, sinceNames, untilNames []string) window {
	w := readWindow(q, sinceNames, untilNames)
	if now := c.now(); w.until.After(now) {
		if !w.since.Before(now) {
			q.fail(w.untilName, "is in the future, so it means now; send a since in the past")
		}
		w.until = time.Time{}
	}
	return w
}

// retryUntilDone calls try with growing pauses until it is done, for at most idempotencyWait (5 s), and returns the
// error of the last call. When maxWaitingRequests already wait, it does not wait.
func (c *core) retryUntilDone(ctx context.Context, try func() (done bool, err error)) (err error) {
	ctx, cancel := context.WithTimeout(ctx, idempotencyWait)
	defer cancel()
	c.waiting.Retry(ctx, 1, claimBackoff, func() (done bool) {
		done, err = try()
		return done
	})
	return err
}

func errNoDestination() error { return web.Missing("there is no such destination") }
