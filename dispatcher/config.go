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
	"github.com/eventrelay/relay/pkg/id"
	"github.com/eventrelay/relay/pkg/stream"
)

// Config bounds the dispatcher. DefaultConfig is complete but for Version and RetentionDays.
type Config struct {
	// InstanceID makes the group membership static, so that a restart moves no partition; empty on the
	// embedded broker, which takes no static members.
	InstanceID string
	// CommitEvery is the longest time between a finished delivery and the commit of its offset, and so
	// bounds the duplicates after a crash.
	CommitEvery time.Duration
	// Drain is how long a stop waits for requests in flight.
	Drain time.Duration
	// MaxInFlight and MaxInFlightBytes bound the deliveries that are queued, sent or being recorded, and
	// the bytes that they hold.
	MaxInFlight      int
	MaxInFlightBytes int
	// MaxSending bounds the requests at the same time, each of which needs an open file. A destination gets as many as
	// are free at most, so that those that hang leave some to the others.
	MaxSending int
	// MaxWaitingBytes bounds what is held of retry tiers until it is due. A partition of a tier holds as much as is
	// still free, 64 KB at least, and what one poll adds to that.
	MaxWaitingBytes int
	// RetentionDays is how long a payload is kept; no delivery is attempted later.
	RetentionDays int
	// Version stands in the user agent, EventRelay/<version>.
	Version string
}

// DefaultConfig returns the limits of a node with 1 GB of memory or more.
func DefaultConfig() Config {
	return Config{
		CommitEvery:      time.Second,
		Drain:            25 * time.Second,
		MaxInFlight:      8192,
		MaxInFlightBytes: 256 << 20,
		MaxSending:       8192,
		MaxWaitingBytes:  64 << 20,
		RetentionDays:    30,
		Version:          "dev",
	}
}

// Validate reports every fault at once.
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
	check(c.RetentionDays > 0, "dispatcher: RetentionDays must be positive")
	check(c.Version != "", "dispatcher: Version is empty")
	return errors.Join(errs...)
}

// View is what the dispatcher reads of the configuration, at the moment of each attempt.
type ConfigView interface {
	// Endpoint returns the endpoint as this node knows it. Unknown means that it may have been created
	// after what this node has applied.
	Endpoint(id string) (*config.Endpoint, config.Presence)
	// Recovery does so for a recovery job.
	Recovery(id string) (*config.Recovery, config.Presence)
	// Sync waits until this node has applied everything that was written before the call.
	Sync(ctx context.Context) error
}

// Changer writes the configuration; it is config.Control.
type EndpointUpdater interface {
	// UpdateEndpoint changes an endpoint as change does to a copy of it. change is called again with a newer
	// copy when another writer came first; nothing is written when it alters nothing.
	UpdateEndpoint(ctx context.Context, endpoint string, change func(*config.Endpoint) error) (*config.Endpoint, error)
}

// Producer appends records to the log: a stream.Producer, whose comments are the contract.
type Producer interface {
	Produce(topic string, partition int32, record *stream.Record, done func(*stream.Record, error))
	WaitForRoom(ctx context.Context, record *stream.Record) error
	ProduceInOwnBatch(ctx context.Context, topic string, partition int32, record *stream.Record) error
}

// Deps are the parts that the dispatcher stands on. Owned, Limiter and Held may be nil.
type Deps struct {
	Log       *slog.Logger
	Stream    stream.Config
	Producer  Producer
	Config    ConfigView
	Updater   EndpointUpdater
	Keyring   *config.Keyring
	Transport http.RoundTripper // the egress guard; it must follow no redirect
	IDs       *id.Generator
	Now       func() time.Time
	Metrics   prometheus.Registerer
	// Owned is told which partitions of events this node has, after each change.
	OnOwned func([]int32)
	// Limiter holds the rates of destinations; nil: there are none.
	Limiter lane.Limiter
	// Held is told of breakers; nil: nobody is.
	Held lane.HeldMarker
	// Erased says whether the payload of an event was erased: it is not sent any more. Nil: none was.
	Erased func(id.ID) bool
}

func (d Deps) validate() error {
	if d.Log == nil || d.Producer == nil || d.Config == nil || d.Updater == nil || d.Keyring == nil ||
		d.Transport == nil ||
		d.IDs == nil || d.Now == nil || d.Metrics == nil {
		return errors.New("dispatcher: a dependency is missing")
	}
	return d.Stream.Validate()
}
