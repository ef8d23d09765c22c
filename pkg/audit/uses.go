package audit

import (
	"context"
	"errors"
	"log/slog"
	"net/netip"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/eventrelay/relay/pkg/id"
	"github.com/eventrelay/relay/pkg/stream"
)

// Every is how often the use of one key is written while it is used: what a node that is killed loses.
const WriteEvery = time.Minute

const (
	// look is how often it is looked whether something is to be written.
	look = time.Second
	// drain is how long a stop waits for the last uses to become durable.
	drain = 5 * time.Second
)

// UsesDeps are what Uses works with; all but Log are needed.
type UsesDeps struct {
	Log      *slog.Logger
	Producer Producer
	Now      func() time.Time
}

// Producer appends to the log.
type Producer interface {
	ProduceSync(ctx context.Context, topic string, partition int32, r *stream.Record) error
}

// Uses gathers which API keys were used on this node. It holds one line for each key that was used in this hour or
// the last.
type Uses struct {
	node string
	boot string // tells the lines of this process from those of the one before it
	deps UsesDeps

	mu   sync.Mutex // guards keys
	keys map[string]*use
}

// use is the use of one key in one hour.
type use struct {
	entry   Entry
	hour    int64
	dirty   bool
	written time.Time // zero: never
}

// NewUses starts nothing.
func NewUses(node string, deps UsesDeps) (*Uses, error) {
	if node == "" || deps.Producer == nil || deps.Now == nil {
		return nil, errors.New("uses of keys: want a node's name, a producer and a clock")
	}
	if deps.Log == nil {
		deps.Log = slog.New(slog.DiscardHandler)
	}
	return &Uses{node: node, boot: id.Random(""), deps: deps, keys: make(map[string]*use)}, nil
}

// Note says that a key was used. It is called for every request and never waits.
func (u *Uses) RecordUse(account, key, name string, from netip.Addr) {
	now := u.deps.Now().UTC()
	u.mu.Lock()
	defer u.mu.Unlock()
	hour := hourOf(now)
	x := u.keys[key]
	if x == nil || x.hour != hour && !x.dirty {
		x = u.begin(account, key, name, now, hour)
	}
	x.entry.Count++
	x.entry.LastAt, x.entry.RemoteIP = now, from
	x.dirty = true
}

// begin starts the line of an hour. One that was not written yet goes on past its hour, until it is.
func (u *Uses) begin(account, key, name string, now time.Time, hour int64) *use {
	x := &use{hour: hour, entry: Entry{
		ID: NewID(now, 0, KeyUsed, key, u.node, u.boot), Account: account, At: now, Actor: ActorOf(key, name),
		Action:     KeyUsed,
		EntityType: "key", Entity: key, Node: u.node,
	}}
	if before := u.keys[key]; before != nil {
		x.written = before.written
	}
	u.keys[key] = x
	return x
}

// Run writes the uses until ctx ends, and then what is left.
func (u *Uses) Run(ctx context.Context) error {
	tick := time.NewTicker(look)
	defer tick.Stop()
	for failing := false; ; {
		select {
		case <-tick.C:
		case <-ctx.Done():
			last, cancel := context.WithTimeout(context.WithoutCancel(ctx), drain)
			defer cancel()
			if err := u.write(last, 0); err != nil {
				u.deps.Log.LogAttrs(last, slog.LevelWarn, "the last uses of API keys are not written", slog.Any("error", err))
			}
			return nil
		}
		attempt, cancel := context.WithTimeout(ctx, drain)
		err := u.write(attempt, WriteEvery)
		cancel()
		if (err != nil) != failing && ctx.Err() == nil {
			failing = !failing
			u.deps.Log.LogAttrs(ctx, slog.LevelWarn, "write the uses of API keys", slog.Bool("failing", failing),
				slog.Any("error", err))
		}
	}
}

// writers is how many lines are on their way at once: the log takes as long for one as for some.
const writers = 16

// write makes the uses durable that were last written at least age ago, and forgets those that have ended. What could
// not be written stays to be.
func (u *Uses) write(ctx context.Context, age time.Duration) error {
	var group errgroup.Group
	group.SetLimit(writers)
	for _, e := range u.due(age) {
		group.Go(func() error {
			r, err := e.Record()
			if err == nil {
				err = u.deps.Producer.ProduceSync(ctx, stream.AuditLog, 0, r)
			}
			if err == nil {
				u.written(e)
			}
			return err
		})
	}
	return group.Wait()
}

func (u *Uses) due(age time.Duration) (due []Entry) {
	now := u.deps.Now()
	u.mu.Lock()
	defer u.mu.Unlock()
	for key, x := range u.keys {
		switch {
		case x.dirty && now.Sub(x.written) >= age:
			due = append(due, x.entry)
		case !x.dirty && hourOf(now)-x.hour > 1:
			delete(u.keys, key)
		}
	}
	return due
}

func (u *Uses) written(e Entry) {
	u.mu.Lock()
	defer u.mu.Unlock()
	x := u.keys[e.Entity]
	x.written = u.deps.Now()
	x.dirty = x.entry.Count > e.Count // it was used meanwhile
}

func hourOf(t time.Time) int64 { return t.Unix() / int64(time.Hour/time.Second) }
