package node

import (
	"context"
	"log/slog"
	"time"

	"github.com/eventrelay/relay/pkg/audit"
	"github.com/eventrelay/relay/pkg/claim"
	"github.com/eventrelay/relay/pkg/embedded/claims"
	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/id"
	"github.com/eventrelay/relay/pkg/limit"
	"github.com/eventrelay/relay/pkg/private"
	"github.com/eventrelay/relay/pkg/stream"
	"github.com/eventrelay/relay/store"
	"github.com/eventrelay/relay/store/read"
	"github.com/eventrelay/relay/store/read/cluster"
	"github.com/eventrelay/relay/store/write"
	"github.com/eventrelay/relay/usage"
)

// newLimiter succeeds without Redis; the limiter then works per node.
func newLimiter(n *Node) (runFunc, error) {
	var err error
	if n.Limiter, err = limit.New(
		n.Settings.Limit(), limit.Deps{Log: n.Log, Metrics: n.registry, Now: n.Now}); err != nil {
		return nil, err
	}
	return n.Limiter.Run, nil
}

func newProducer(n *Node) (runFunc, error) {
	var err error
	if n.Producer, err = stream.NewProducer(n.Stream, "producer"); err != nil {
		return nil, err
	}
	return func(ctx context.Context) error {
		<-ctx.Done()
		flush, cancel := context.WithTimeout(context.WithoutCancel(ctx), flushTimeout)
		defer cancel()
		defer n.Producer.Close()
		return n.Producer.Flush(flush)
	}, nil
}

// newUses creates the recorder of which API keys are used on this node.
func newUses(n *Node) (runFunc, error) {
	uses, err := audit.NewUses(n.Settings.NodeName, audit.UsesDeps{Log: n.Log, Producer: n.Producer, Now: n.Now})
	if err != nil {
		return nil, err
	}
	n.KeyUses = uses
	return uses.Run, nil
}

func newWriter(n *Node) (runFunc, error) {
	cfg := write.WriterConfig{URL: n.Settings.ClickHouseURL}
	var scan func(context.Context, []*event.Event) error
	if n.Scan != nil {
		var err error
		if scan, err = n.Scan(); err != nil {
			return nil, err
		}
	}
	var err error
	n.writer, err = write.NewWriter(cfg, write.WriterDeps{
		Log: n.Log, Stream: n.Stream, Producer: n.Producer, Metrics: n.registry, InstanceID: n.InstanceID,
		Erased: n.Control.Erased, Sync: n.Settings.SyncTables, Scan: scan,
	})
	if err != nil {
		return nil, err
	}
	n.Control.Messages.Handle(func(message []byte) { // of readers on other nodes
		if targets, err := store.DecodeTargets(message); err == nil {
			n.writer.RequestFlush(targets)
		}
	})
	return n.writer.Run, nil
}

func newReader(n *Node) (runFunc, error) {
	deps := cluster.Deps{Stream: n.Stream, Erased: n.Control.Erased}
	if !n.Settings.Embedded {
		deps.AskOthers = func(ctx context.Context, targets map[stream.Partition]int64) error {
			return n.Control.Messages.Send(ctx, store.EncodeTargets(targets))
		}
	}
	if n.writer != nil {
		deps.Writer = n.writer
	}
	var err error
	n.Reader, err = read.NewReader(cluster.Config{
		URL: n.Settings.ClickHouseURL, ReadURL: n.Settings.ReadURL, RetentionDays: n.Settings.RetentionDays,
		SearchURL: n.Settings.SearchURL, SearchThreads: n.Settings.SearchThreads, SearchIndex: n.Settings.SearchIndex,
	}, deps)
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context) error {
		<-ctx.Done()
		return n.Reader.Close()
	}, nil
}

// newUsage creates the figures of usage on every node. A node with the role write also counts the rows that it writes.
func newUsage(n *Node) (runFunc, error) {
	cfg := usage.DefaultConfig()
	cfg.Allowance = int64(n.Settings.AllowanceEvents)
	deps := usage.Deps{
		Log: n.Log, Store: n.Reader, Now: n.Now,
		Created: func(string) time.Time { return n.Control.Account().CreatedAt }, // there is one account
	}
	if n.writer != nil {
		deps.Counter = n.writer
	}
	var err error
	if n.usage, err = usage.New(cfg, deps); err != nil {
		return nil, err
	}
	return n.usage.Run, nil
}

// recoverClaims bounds the search for the events of the claims that a crash left pending. There are as many as requests
// were in flight.
const recoverClaims = time.Minute

// newClaims keeps the claims of events in a file if the settings name one, otherwise in Redis.
func newClaims(n *Node) (runFunc, error) {
	if n.Claims = n.Limiter; n.Settings.ClaimsFile == "" {
		return nil, nil
	}
	store, err := claims.Open(claims.Config{Path: n.Settings.ClaimsFile, Sync: n.Settings.Fsync},
		claims.Deps{Log: n.Log, Now: n.Now, SyncDir: private.SyncDir})
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(n.stack.Context(), recoverClaims)
	defer cancel()
	err = store.Recover(ctx, func(ctx context.Context, event id.ID) (bool, error) {
		return n.Reader.HasEvent(ctx, n.Control.Account().ID, event)
	})
	if err != nil {
		n.Log.LogAttrs(ctx, slog.LevelWarn, "cannot decide which events an interrupted node has stored: if they are sent "+
			"again, they may be delivered twice", slog.Any("error", err))
	}
	n.Claims = store
	return func(ctx context.Context) error {
		defer store.Close()
		return store.Run(ctx)
	}, nil
}

// limiterStore is what the API reads and writes in Redis, with the claims where they are.
type limiterStore struct {
	claim.Store
	limiterState
}

type limiterState interface {
	HeldUntil(ctx context.Context, dests []string) map[string]time.Time
	SourceStatus(ctx context.Context, endpoint string) string
}
