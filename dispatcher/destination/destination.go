// Package destination is what the dispatcher knows of the kinds of destinations, and what all kinds share: opened
// settings, the headers of a delivery (header.go), and a bound on the attempts that run at once.
//
// A kind is a folder beside this package, such as webhook. It opens a destination, makes attempts, and says what each
// means. Lanes, retries, circuit breakers and records are the dispatcher's and know no kind. The settings of a kind,
// with their bounds, secrets and address, are in pkg/config/kinds.
package destination

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/textproto"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/semaphore"

	"github.com/eventrelay/relay/dispatcher/lane"
	"github.com/eventrelay/relay/pkg/config"
	"github.com/eventrelay/relay/pkg/config/kinds"
	"github.com/eventrelay/relay/pkg/config/seal"
	"github.com/eventrelay/relay/pkg/egress"
	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/id"
	"github.com/eventrelay/relay/pkg/sign"
	"github.com/eventrelay/relay/pkg/spans"
	"github.com/eventrelay/relay/pkg/verify"
)

// MaxRetryAfter bounds every computed wait, so that no policy and no receiver can overflow a Duration. No payload is
// kept that long.
const MaxRetryAfter = 10 * 365 * 24 * time.Hour

// Kind is a kind of destinations.
type Kind interface {
	// Open decrypts and parses the settings of a destination. The dispatcher keeps the target until they change.
	Open(*config.Endpoint, *config.Destination) (Target, error)
}

// Runner is a kind that keeps connections: Run closes those that are not used, and all when ctx ends.
type Runner interface{ Run(ctx context.Context) }

// Target is an opened destination, for concurrent use.
type Target interface {
	// InFormat returns the message in the format of the destination; see [Opened].
	InFormat(Message) Message
	// Send makes one attempt and completes the message's attempt. It respects the time-out of the destination.
	Send(context.Context, Message) Result
}

// Message is what is delivered.
type Message struct {
	Attempt *event.Attempt // with its id, trigger and start
	Work    *event.Work
	Content Content
	RetryOn []string // of the retry policy, which statuses of a webhook are retried
	Span    *spans.Attempt
	Current func() bool // whether it may still be sent as it is; nil: it may. Kinds that wait before they send ask
}

// Header builds the headers of the attempt. Those of a traced event name its span.
func (m Message) Header(target *Opened, userAgent string) http.Header {
	h := Header(m.Work, m.Content, target, userAgent, m.Attempt.StartedAt)
	m.Attempt.Trace = m.Span.Propagate(h)
	return h
}

// Content is what is particular to an attempt: the stored body, or what a transformation made of it, and what it says
// of the request.
type Content struct {
	Body      []byte
	Version   int           // of the transformation; 0: there is none
	Changed   bool          // Body is not the stored one
	Signature string        // name of the received header with the provider's signature, if the endpoint names one
	Header    []event.Field // beside those of the destination, which they replace
	Path      string        // escaped; appended to that of the URL
	Method    string        // empty: the usual one
	Format    string        // of the destination, unless it is the standard one
}

// Stored is the body as it was received or sent.
func Stored(work *event.Work) Content { return Content{Body: work.Event.Body} }

// Made is the number of bytes that the transformation made.
func (c Content) Made() int {
	if !c.Changed {
		return 0
	}
	return len(c.Body)
}

// Class is what an attempt means for its delivery.
type Class int

// Classes of attempts.
const (
	Delivered Class = iota
	Retryable       // another attempt may succeed
	Final           // no other attempt is made
)

// Classification is what the recorded attempt, the metric and the log share.
type Classification struct {
	Class  Class
	Code   event.ErrorCode // empty when delivered
	Reason event.Reason    // of Final
}

// Result is what became of an attempt.
type Result struct {
	Classification
	Lane    lane.ResultKind // what it says of the destination
	Disable bool            // the receiver asks to disable the destination
	// NotTaken: no consumer pulls the destination any more. The event waits in its lane, and there is no attempt.
	NotTaken bool
	Outdated bool          // it must not be sent as it is, see Message.Current; there is no attempt
	Recorded func()        // called when the attempt's outcome is durable; nil: nobody waits for it
	Unsent   error         // why the attempt was not made, by no fault of the destination: it does not count
	Waited   time.Duration // for something of this node, which the attempt's duration does not contain
}

// Sender makes attempts and bounds how many run at once.
type Sender struct {
	now    func() time.Time
	slots  *semaphore.Weighted
	waited prometheus.Observer // seconds that an attempt waited for a slot, or Result.Waited
	spans  *spans.Recorder
}

// NewSender makes a Sender for that many attempts at once. Without a recorder there are no traces.
func NewSender(now func() time.Time, sending int, waited prometheus.Observer, traces *spans.Recorder) *Sender {
	return &Sender{now: now, slots: semaphore.NewWeighted(int64(sending)), waited: waited, spans: traces}
}

// Send makes one attempt. It starts when there is a slot for it: waiting for one does not count against the
// destination. The attempt has an answer when its Code is set.
func (s *Sender) Send(
	ctx context.Context, attemptID id.ID, target Target, work *event.Work, content Content, retryOn []string,
	current func() bool,
) (*event.Attempt, Result) {
	queuedAt := s.now()
	var acquireErr error
	if ctx.Err() != nil || !s.slots.TryAcquire(1) {
		if acquireErr = s.slots.Acquire(ctx, 1); acquireErr == nil && !current() {
			s.slots.Release(1)
			return &event.Attempt{ID: attemptID, StartedAt: s.now(), Trigger: work.Trigger}, Result{Outdated: true}
		}
	}
	attempt := &event.Attempt{
		ID: attemptID, StartedAt: s.now(), Trigger: work.Trigger, TransformationVersion: content.Version,
	}
	if acquireErr != nil { // the node stops
		attempt.ErrorCode, attempt.ErrorMessage = event.CodeInternal, "the node stopped before the request was made"
		return attempt, Result{Classification: Classification{Class: Retryable, Code: event.CodeInternal}}
	}
	defer s.slots.Release(1)
	span := s.spans.Attempt(work, attempt.StartedAt)
	result := target.Send(ctx, target.InFormat(Message{attempt, work, content, retryOn, span, current}))
	if result.NotTaken || result.Outdated {
		return attempt, result
	}
	attempt.OK, attempt.ErrorCode = result.Class == Delivered, result.Code
	span.End(attempt, s.now())
	s.waited.Observe((attempt.StartedAt.Sub(queuedAt) + result.Waited).Seconds())
	return attempt, result
}

// Key selects a value of an event, as a setting that kinds.Keys describes.
type Key struct {
	word     string // empty: selector
	selector event.DedupKey
}

// ParseKey parses the setting.
func ParseKey(text string) (k Key, err error) {
	if slices.Contains(kinds.Keys, text) {
		return Key{word: text}, nil
	}
	k.selector, err = event.ParseDedupKey(text)
	return k, err
}

// Of returns the value of an event with those headers, empty if it has none.
func (k Key) Of(m Message, header http.Header) string {
	ev := m.Work.Event
	switch k.word {
	case "event_id":
		return ev.ID.Text(id.Event)
	case "endpoint_id":
		return ev.Endpoint
	case "type":
		return ev.Type
	case "none":
		return ""
	}
	value, _ := k.selector.Of(header, m.Content.Body)
	return value
}

// Fault is why an attempt failed, in words that name what a person can change.
type Fault struct {
	Code    event.ErrorCode
	Message string
}

func (f *Fault) Error() string { return f.Message }

// Faultf makes a Fault.
func Faultf(code event.ErrorCode, format string, args ...any) *Fault {
	return &Fault{code, fmt.Sprintf(format, args...)}
}

// Failed completes an attempt that failed with a Fault or with an error of the network. What is too large is not
// retried.
func Failed(attempt *event.Attempt, err error, timeout time.Duration) Result {
	result := Result{Lane: lane.Failed, Classification: Classification{Class: Retryable}}
	var proxy *egress.ProxyError
	var fault *Fault
	switch {
	case errors.As(err, &proxy):
		result.Unsent = proxy
	case errors.As(err, &fault):
		result.Code, attempt.ErrorMessage = fault.Code, fault.Message
	case errors.Is(err, context.DeadlineExceeded):
		result.Lane, result.Code = lane.TimedOut, event.CodeTimeout
		attempt.ErrorMessage = fmt.Sprintf("no answer of the destination within %v", timeout)
	default:
		result.Code, attempt.ErrorMessage = egress.Classify(err), egress.Message(err)
	}
	if result.Code == event.CodeTooLarge {
		result.Class, result.Reason, result.Lane = Final, event.TooLarge, lane.Rejected
	}
	return result
}

// Opened has the opened (decrypted) settings that destinations of every kind have.
type Opened struct {
	// KeepMethod: received events are sent with the method that they came with.
	KeepMethod bool
	// Provider is the one whose signature the endpoint verifies; nil if its headers are not known. AllowHeaders are
	// canonical names of received headers that are forwarded, or their beginnings, which end in a hyphen.
	Provider     *verify.Scheme
	AllowHeaders []string
	Timeout      time.Duration
	Format       string // of the bodies; empty: the standard one
	Header       []event.Field
	Secrets      []LiveSecret
	URL          string                // that stands for the destination
	Schemes      []kinds.SigningScheme // with open secrets; none: Standard Webhooks
}

// LiveSecret signs until a time; zero means without end.
type LiveSecret struct {
	Secret sign.Secret
	Until  time.Time
}

// Open decrypts the headers and signing secrets of the destination.
func Open(k *seal.Keyring, e *config.Endpoint, d *config.Destination) (Opened, error) {
	opened := Opened{KeepMethod: e.KeepMethod, Timeout: time.Duration(d.TimeoutSeconds) * time.Second, Format: d.Format,
		URL: d.URL}
	if v := e.Verification; v != nil && verify.ByName(v.Type).KnowsHeaders() {
		opened.Provider = verify.ByName(v.Type)
	}
	for _, name := range e.AllowHeaders {
		opened.AllowHeaders = append(opened.AllowHeaders, textproto.CanonicalMIMEHeaderKey(name))
	}
	for name, sealed := range d.Headers {
		value, err := k.OpenString(d.ID, seal.FieldHeader(name), sealed)
		if err != nil {
			return Opened{}, fmt.Errorf("open header: %w", err)
		}
		opened.Header = append(opened.Header, event.Field{Name: textproto.CanonicalMIMEHeaderKey(name), Value: value})
	}
	for _, s := range d.Secrets {
		text, err := k.OpenString(d.ID, seal.FieldSecret, s.Secret)
		if err != nil {
			return Opened{}, fmt.Errorf("open signing secret: %w", err)
		}
		secret, err := sign.ParseSecret(text)
		if err != nil {
			return Opened{}, fmt.Errorf("read signing secret of %s: %w", d.ID, err)
		}
		opened.Secrets = append(opened.Secrets, LiveSecret{secret, s.Until})
	}
	if d.Signing != nil {
		settings, err := kinds.Settings{Signing: d.Signing}.Open(k, d.ID)
		if err != nil {
			return Opened{}, fmt.Errorf("open secret of a signing scheme: %w", err)
		}
		opened.Schemes = settings.Signing.Schemes
	}
	return opened, nil
}

// SigningSecrets are the secrets that are valid at now, newest first.
func (o *Opened) SigningSecrets(now time.Time) []sign.Secret {
	live := make([]sign.Secret, 0, 2)
	for _, s := range o.Secrets {
		if s.Until.IsZero() || now.Before(s.Until) {
			live = append(live, s.Secret)
		}
	}
	return live
}

// Names caches the properties of header names, since the same names come with every request. The zero value is
// an empty cache.
type Names struct {
	known atomic.Pointer[map[string]headerName] // replaced, never changed
	mu    sync.Mutex                            // held while it is replaced
}

// headerName is the canonical form of a header name, and whether its value is masked.
type headerName struct {
	canonical  string
	credential bool // its value is masked: a header of that name usually carries a secret
}

// Bounds of the cache: 128 KiB of names. Names beyond it, and longer ones, are computed each time: a receiver can send
// names of 64 KiB.
const (
	maxHeaderNames    = 1024
	maxHeaderNameSize = 128 // bytes
)

// lookup returns the properties of a name.
func (n *Names) lookup(name string) headerName {
	if known := n.known.Load(); known != nil {
		if cached, ok := (*known)[name]; ok {
			return cached
		}
	}
	return n.add(strings.Clone(name)) // the name is part of a message that must not stay in memory
}

func (n *Names) add(name string) headerName {
	computed := headerName{Canonical(name), isCredential(name)}
	if len(name) > maxHeaderNameSize {
		return computed
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	grown := make(map[string]headerName)
	if known := n.known.Load(); known != nil {
		if len(*known) >= maxHeaderNames {
			return computed
		}
		maps.Copy(grown, *known)
	}
	grown[name] = computed
	n.known.Store(&grown)
	return computed
}

func isCredential(name string) bool {
	name = strings.ToLower(name)
	for _, word := range []string{"auth", "cookie", "token", "secret", "passw", "api-key", "apikey", "access-key",
		"credential", "session"} {
		if strings.Contains(name, word) {
			return true
		}
	}
	return false
}
