package api

import (
	"bytes"
	"context"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/eventrelay/relay/pkg/config"
	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/id"
	"github.com/eventrelay/relay/pkg/wait"
	"github.com/eventrelay/relay/pkg/web"
)

// core is what the handlers of all resources share: the time, the bodies of requests, and what paths name.
type core struct {
	maxBody       int64
	retentionDays int
	clock         func() time.Time
	ids           *id.Generator
	config        configReader
	// repeats that wait for the first call with their Idempotency-Key, and replays for their turn
	waitingRequests atomic.Int64
}

// view is what every resource may read of the configuration.
type configReader interface {
	Endpoint(id string) (*config.Endpoint, config.Presence)
	Endpoints(account string, beforeSeq int64, limit int) ([]*config.Endpoint, bool)
	Sync(ctx context.Context) error
}

func (c *core) now() time.Time { return c.clock().UTC().Truncate(time.Millisecond) }

// requestTime is the present moment of the request: that of the first call under its key.
func (c *core) requestTime(r *http.Request) time.Time {
	if x := callOf(r); x != nil {
		return x.claim.CreatedAt.UTC().Truncate(time.Millisecond)
	}
	return c.now()
}

// body reads the JSON body of a write, `{}` when there is none, and judges the headers that go with it.
func (c *core) body(w http.ResponseWriter, r *http.Request) ([]byte, error) {
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

// endpointInPath is the endpoint that the path names.
func (c *core) endpointInPath(r *http.Request, key *config.Key) (*config.Endpoint, error) {
	name := web.InfoOf(r).Vars["endpoint"]
	e, presence := c.config.Endpoint(name)
	if presence == config.Unknown { // another node may have made it a moment ago
		c.catchUp(r.Context())
		e, presence = c.config.Endpoint(name)
	}
	if presence != config.Present || e.Account != key.Account {
		return nil, web.Missing("there is no such endpoint")
	}
	return e, nil
}

// destinationInPath is the endpoint and the destination that the path names.
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

// presentEndpoint is the endpoint with that id, nil when the account has none.
func (c *core) presentEndpoint(name, account string) *config.Endpoint {
	e, presence := c.config.Endpoint(name)
	if presence != config.Present || e.Account != account {
		return nil
	}
	return e
}

// catchUp lets this node catch up with the others: a client may be sent to another node with each request, and what
// one has shown the next must not take back. While the log is away what is known is shown.
func (c *core) catchUp(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, preparationWait)
	defer cancel()
	_ = c.config.Sync(ctx)
}

// eventInPath is the event that the path names, as long as it can be read.
func (c *core) eventInPath(r *http.Request) (id.ID, error) {
	d, err := id.Parse(id.Event, web.InfoOf(r).Vars["event"])
	if err != nil || !c.now().Before(c.expiry(d)) {
		return d, toWebError(event.ErrNotFound)
	}
	return d, nil
}

// expiry is when an event can no longer be read.
func (c *core) expiry(d id.ID) time.Time { return d.Time().AddDate(0, 0, c.retentionDays) }

// untilNow is the end of a window, zero where it is not in the past: nothing is newer than now.
func (c *core) untilNow(until time.Time) time.Time {
	if until.After(c.now()) {
		return time.Time{}
	}
	return until
}

// wait tries until it is done, with growing pauses, at most for idempotencyWait. It returns the error of the last try.
func (c *core) retryUntilDone(ctx context.Context, try func() (done bool, err error)) error {
	done, err := try()
	if done {
		return err
	}
	defer c.waitingRequests.Add(-1)
	if c.waitingRequests.Add(1) > maxWaitingRequests {
		return err
	}
	limited, cancel := context.WithTimeout(ctx, idempotencyWait)
	defer cancel()
	for n := 0; wait.For(limited, claimBackoff.After(n)) == nil; n++ {
		if done, err = try(); done {
			return err
		}
	}
	return err
}
