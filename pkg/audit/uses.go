package audit

import (
	"context"
	"errors"
	"log/slog"
	"math"
	"net/netip"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/eventrelay/relay/pkg/id"
	"github.com/eventrelay/relay/pkg/stream"
)

// WriteEvery is the least time between two writes of one key's use, except for the last one when the node stops. It
// bounds what is lost when a node is killed.
const WriteEvery = time.Minute

const (
	// checkEvery is how often the uses are checked for due writes.
	checkEvery = time.Second
	// drainTimeout bounds a write, and how long a stop waits for the last one.
	drainTimeout = 5 * time.Second
)

// UsesDeps are the dependencies of Uses. All but Log are required.
type UsesDeps struct {
	Log      *slog.Logger
	Producer Producer
	Now      func() time.Time
}

// Producer appends records to the log.
type Producer interface {
	ProduceSync(ctx context.Context, topic string, partition int32, r *stream.Record) error
}

// Uses collects which API keys were used on this node. It keeps one entry for each key that was used in this hour or
// the hour before.
type Uses struct {
	node string
	boot string // makes the ids of this process differ from those of an earlier one
	deps UsesDeps

	mu   sync.Mutex // guards keys
	keys map[string]*use
}

// use is the use of one key in one hour.
type use struct {
	entry   Entry
	hour    int64
	dirty   bool      // not written since the last use
	written time.Time // when it was last written; zero: never
}

// NewUses validates its arguments. It starts nothing.
func NewUses(node string, deps UsesDeps) (*Uses, error) {
	if node == "" || deps.Producer == nil || deps.Now == nil {
		return nil, errors.New("uses of API keys: a node name, a producer and a clock are required")
	}
	if deps.Log == nil {
		deps.Log = slog.New(slog.DiscardHandler)
	}
	return &Uses{node: node, boot: id.Random(""), deps: deps, keys: make(map[string]*use)}, nil
}

// RecordUse counts a use of a key. It is called for every request and never blocks on the log. While uses of the hour
// before are not written yet, a use counts for that hour.
func (u *Uses) RecordUse(account, key, name string, from netip.Addr) {
	now := u.deps.Now().UTC()
	u.mu.Lock()
	defer u.mu.Unlock()
	hour := hourOf(now)
	x := u.keys[key]
	if x == nil || x.hour != hour && !x.dirty {
		x = u.startHour(account, key, name, now, hour)
	}
	x.entry.Count++
	x.entry.LastAt, x.entry.RemoteIP = now, from
	x.dirty = true
}

// startHour starts the entry of a new hour.
func (u *Uses) startHour(account, key, name string, now time.Time, hour int64) *use {
	x := &use{hour: hour, entry: Entry{
		// A key that is used in the millisecond of its creation is used after it.
		ID: NewID(now, math.MaxUint32, KeyUsed, key, u.node, u.boot), Account: account, At: now, Actor: ActorOf(key, name),
		Action:     KeyUsed,
		EntityType: "key", Entity: key, Node: u.node,
	}}
	if before := u.keys[key]; before != nil {
		x.written = before.written
	}
	u.keys[key] = x
	return x
}

// Run writes the uses until ctx ends, and then the last ones.
func (u *Uses) Run(ctx context.Context) error {
	tick := time.NewTicker(checkEvery)
	defer tick.Stop()
	for failing := false; ; {
		select {
		case <-tick.C:
		case <-ctx.Done():
			last, cancel := context.WithTimeout(context.WithoutCancel(ctx), drainTimeout)
			defer cancel()
			if err := u.write(last, 0); err != nil {
				u.deps.Log.LogAttrs(last, slog.LevelWarn, "cannot write the last uses of API keys", slog.Any("error", err))
			}
			return nil
		}
		attempt, cancel := context.WithTimeout(ctx, drainTimeout)
		err := u.write(attempt, WriteEvery)
		cancel()
		if (err != nil) != failing && ctx.Err() == nil {
			failing = !failing
			message := "cannot write the uses of API keys"
			if !failing {
				message = "the uses of API keys are written again"
			}
			u.deps.Log.LogAttrs(ctx, slog.LevelWarn, message, slog.Bool("failing", failing),
				slog.Any("error", err))
		}
	}
}

// maxWrites bounds concurrent writes. The producer batches them, so that several take as long as one.
const maxWrites = 16

// write writes the changed entries whose last write is at least age ago. Those that fail stay for the next call.
func (u *Uses) write(ctx context.Context, age time.Duration) error {
	var group errgroup.Group
	group.SetLimit(maxWrites)
	for _, e := range u.due(age) {
		group.Go(func() error {
			r, err := e.Record()
			if err == nil {
				err = u.deps.Producer.ProduceSync(ctx, stream.AuditLog, 0, r)
			}
			if err == nil {
				u.markWritten(e)
			}
			return err
		})
	}
	return group.Wait()
}

// due returns the changed entries whose last write is at least age ago, and drops written ones that are older than the
// hour before.
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

// markWritten records that an entry was written as it was when due returned it.
func (u *Uses) markWritten(e Entry) {
	u.mu.Lock()
	defer u.mu.Unlock()
	x := u.keys[e.Entity]
	x.written = u.deps.Now()
	x.dirty = x.entry.Count > e.Count // used again during the write
}

func hourOf(t time.Time) int64 { return t.Unix() / int64(time.Hour/time.Second) }
