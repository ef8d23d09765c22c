package dispatcher

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/eventrelay/relay/dispatcher/lane"
	"github.com/eventrelay/relay/pkg/config"
	"github.com/eventrelay/relay/pkg/config/entity"
	"github.com/eventrelay/relay/pkg/config/jobs"
	"github.com/eventrelay/relay/pkg/config/seal"
	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/id"
	"github.com/eventrelay/relay/pkg/spans"
	"github.com/eventrelay/relay/pkg/stream"
)

// Config has the limits and times of a dispatcher. All fields but InstanceID are required.
type Config struct {
	// InstanceID makes the group membership static, so that a restart moves no partition. It is empty on the embedded
	// broker, which supports no static members.
	InstanceID string
	// CommitEvery is the longest time between a finished delivery and the commit of its offset, unless commits are slow.
	// It bounds the duplicates after a crash: on average, deliveries of half this time are repeated.
	CommitEvery time.Duration
	// Drain is how long a stop waits for running requests, at most. Those still running are then cancelled, and the next
	// owner of their partitions repeats them.
	Drain time.Duration
	// MaxInFlight and MaxInFlightBytes bound the deliveries that are queued, sent or being recorded, and their bytes.
	MaxInFlight      int
	MaxInFlightBytes int
	// MaxSending bounds concurrent requests; each needs an open file. One destination may have as many as the node may
	// still start, so that destinations that hang leave some to the others.
	MaxSending int
	// MaxWaitingBytes bounds the records of retry tiers that are held until they are due. A tier partition may hold as
	// much as is still free, at least 64 KB, plus one poll.
	MaxWaitingBytes int
	// MaxTransformedBody bounds the body that a transformation makes, in bytes. A delivery whose body would be longer
	// fails.
	MaxTransformedBody int
	// RetentionDays is how long payloads are kept, in days. No attempt starts after that.
	RetentionDays int
	// Version is part of the user agent, EventRelay/<version>.
	Version string
}

// DefaultConfig returns the limits of a node with 1 GB of memory or more, for a retention of 30 days. Version is "dev".
func DefaultConfig() Config {
	return Config{
		CommitEvery:      350 * time.Millisecond,
		Drain:            25 * time.Second,
		MaxInFlight:      8192,
		MaxInFlightBytes: 256 << 20,
		MaxSending:       8192,
		MaxWaitingBytes:  64 << 20,
		RetentionDays:    30,
		Version:          "dev",

		MaxTransformedBody: 2 << 20,
	}
}

// Validate reports all invalid fields at once.
func (c Config) Validate() error {
	var errs []error
	check := func(ok bool, text string) {
		if !ok {
			errs = append(errs, errors.New(text))
		}
	}
	check(c.CommitEvery > 0, "dispatcher: CommitEvery must be positive")
	check(c.Drain > 0, "dispatcher: Drain must be positive")
	check(c.MaxInFlight > 0, "dispatcher: MaxInFlight must be positive")
	check(c.MaxInFlightBytes > 0, "dispatcher: MaxInFlightBytes must be positive")
	check(c.MaxSending > 0, "dispatcher: MaxSending must be positive")
	check(c.MaxWaitingBytes > 0, "dispatcher: MaxWaitingBytes must be positive")
	check(c.MaxTransformedBody > 0, "dispatcher: MaxTransformedBody must be positive")
	check(c.RetentionDays > 0, "dispatcher: RetentionDays must be positive")
	check(c.Version != "", "dispatcher: Version is empty")
	return errors.Join(errs...)
}

// ConfigView is the configuration as the dispatcher reads it at the moment of each attempt.
type ConfigView interface {
	// Endpoint returns the endpoint as this node knows it. Unknown means that it may have been created by a write that
	// this node has not applied yet.
	Endpoint(id string) (*config.Endpoint, entity.Presence)
	// Recovery returns a recovery job in the same way.
	Recovery(id string) (*jobs.Recovery, entity.Presence)
	// ReplayRun returns a replay run in the same way.
	ReplayRun(id string) (*jobs.Run, entity.Presence)
	// Sync waits until this node has applied everything that was written before the call.
	Sync(ctx context.Context) error
	// Lease reports whether this node knows all changes that were answered. AwaitLease waits until it does.
	Lease() (age time.Duration, ok bool)
	AwaitLease(ctx context.Context) error
}

// EndpointUpdater writes the configuration; it is config.Control.
type EndpointUpdater interface {
	// UpdateEndpoint applies change to a copy of the endpoint and writes it. When another writer was faster, it calls
	// change again with the newer copy. It writes nothing when change alters nothing.
	UpdateEndpoint(ctx context.Context, endpoint string, change func(*config.Endpoint) error) (*config.Endpoint, error)
}

// Producer appends records to the log. It is a stream.Producer, which documents the methods.
type Producer interface {
	Produce(topic string, partition int32, record *stream.Record, done func(*stream.Record, error))
	WaitForRoom(ctx context.Context, record *stream.Record) error
	ProduceInOwnBatch(ctx context.Context, topic string, partition int32, record *stream.Record) error
}

// Deps are the dependencies of a Dispatcher. OnOwned, Limiter, Held, Erased, UseHit, Delivered and Spans may be nil.
type Deps struct {
	Log       *slog.Logger
	Stream    stream.Config
	Producer  Producer
	Config    ConfigView
	Updater   EndpointUpdater
	Keyring   *seal.Keyring
	Transport http.RoundTripper // the egress guard; it must follow no redirect
	IDs       *id.Generator
	Now       func() time.Time
	Metrics   prometheus.Registerer
	// OnOwned is called after each change with the partitions of the topic events that this node has.
	OnOwned func([]int32)
	// Limiter holds the rate limits of destinations; nil: there are none.
	Limiter lane.Limiter
	// Held gets the state of circuit breakers, for display on other nodes; nil: nobody needs it.
	Held lane.HeldMarker
	// Erased reports whether the payload of an event was erased. Such an event is not sent any more; nil: none was.
	Erased func(id.ID) bool
	// UseHit returns the record of the hit of a tripwire's use (event.Source.IsUse), for the topic findings; nil if it
	// needs none. The dispatcher stores it before the use counts as read. If UseHit is nil, uses are skipped.
	UseHit func(ctx context.Context, use *event.Event) (partition int32, hit *stream.Record, err error)
	// Delivered calls each for what replays and recovery jobs have delivered, for at most limit of the newest, oldest
	// first, with the time at which the attempt ended. If it is nil, a waiting retry is sent after a restart although a
	// replay has delivered its event.
	Delivered func(ctx context.Context, limit int, each func(run string, event id.ID, dest string, ended time.Time)) error
	// Spans records the attempts of traced events; nil: there are no traces.
	Spans *spans.Recorder
}

func (d Deps) validate() error {
	if d.Log == nil || d.Producer == nil || d.Config == nil || d.Updater == nil || d.Keyring == nil ||
		d.Transport == nil ||
		d.IDs == nil || d.Now == nil || d.Metrics == nil {
		return errors.New("dispatcher: a dependency is missing")
	}
	return d.Stream.Validate()
}
