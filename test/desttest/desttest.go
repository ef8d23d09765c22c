// Package desttest makes attempts at a destination for the tests of its kind.
package desttest

import (
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/eventrelay/relay/dispatcher/destination"
	"github.com/eventrelay/relay/pkg/config"
	"github.com/eventrelay/relay/pkg/config/kinds"
	"github.com/eventrelay/relay/pkg/config/seal"
	"github.com/eventrelay/relay/pkg/egress"
	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/id"
	"github.com/eventrelay/relay/pkg/sign"
	"github.com/eventrelay/relay/pkg/spans"
	"github.com/eventrelay/relay/test/must"
)

// Rig makes attempts at one destination. No attempt may show the text "hunter2", which secrets contain.
type Rig struct {
	T         *testing.T
	Keyring   *seal.Keyring
	Transport *egress.Transport
	Dest      *config.Destination
	To        destination.Target // opened
	Secret    sign.Secret
	Spans     *spans.Recorder // nil: events are not traced
	Current   func() bool     // whether a delivery may still be sent; nil: it may
	kind      destination.Kind
	sender    *destination.Sender
}

// Loopback allows plain connections to this machine.
func Loopback() egress.Policy {
	return egress.Policy{Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}, AllowHTTP: true}
}

// New opens a destination with the kind that it is given.
func New(t *testing.T, policy egress.Policy, settings kinds.Settings, kind func(*Rig) destination.Kind) *Rig {
	t.Helper()
	x := &Rig{T: t, Keyring: must.Get(seal.NewKeyring(seal.GenerateKey("test")))(t),
		Transport: must.Get(egress.NewTransport(egress.Config{Policy: policy}))(t), Secret: sign.NewSecret()}
	t.Cleanup(x.Transport.CloseIdleConnections)
	settings.Trim()
	must.Do(t, settings.Validate(kinds.Checks{Opened: true, URL: func(string) error { return nil }}))
	_, address := settings.Kind()
	x.Dest = &config.Destination{ID: "dst_test", URL: address,
		DestinationSettings: config.DestinationSettings{TimeoutSeconds: 2},
		Headers: map[string]seal.Secret{
			"X-Team":   x.Keyring.SealString("dst_test", seal.FieldHeader("X-Team"), "billing"),
			"X-Secret": x.Keyring.SealString("dst_test", seal.FieldHeader("X-Secret"), "hunter2")},
		Secrets:  []config.SigningSecret{{Secret: x.Keyring.SealString("dst_test", seal.FieldSecret, x.Secret.Reveal())}},
		Settings: settings.Seal(x.Keyring, "dst_test", kinds.Settings{}, kinds.Settings{})}
	x.kind = kind(x)
	x.Open()
	return x
}

// Open opens the destination, as after a change.
func (x *Rig) Open() {
	x.T.Helper()
	waited := prometheus.NewHistogram(prometheus.HistogramOpts{Name: "waited"})
	x.sender = destination.NewSender(time.Now, 1000, waited, x.Spans)
	x.To = must.Get(x.kind.Open(&config.Endpoint{}, x.Dest))(x.T)
}

// Send makes one attempt at the delivery of an event. It may be called by many goroutines.
func (x *Rig) Send(body string) (*event.Attempt, destination.Result) {
	x.T.Helper()
	work := &event.Work{Event: &event.Event{ID: must.Get(id.NewGenerator(nil).New(0))(x.T), Endpoint: "ep_test",
		Source: event.SourceProvider, Type: "order.paid", Method: "POST", Body: []byte(body),
		Header: []event.Field{{Name: "Content-Type", Value: "application/json"}}},
		Dest: "dst_test", Trigger: event.TriggerInitial, Attempt: 1}
	if x.Spans != nil {
		work.Event.Trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	}
	attemptID := must.Get(id.NewGenerator(nil).New(0))(x.T)
	a, r := x.sender.Send(x.T.Context(), attemptID, x.To, work, destination.Stored(work), nil, x.Current)
	if text := a.ErrorMessage + string(a.RequestHeader) + a.URL; strings.Contains(text, "hunter2") {
		x.T.Errorf("the attempt shows a secret: %s", text)
	}
	return a, r
}

// Fails checks the code, the message and the class of an attempt that fails.
func (x *Rig) Fails(body string, code event.ErrorCode, message string, class destination.Class) {
	x.T.Helper()
	a, r := x.Send(body)
	if a.OK || a.ErrorCode != code || !strings.Contains(a.ErrorMessage, message) || r.Class != class {
		x.T.Errorf("%s %q, class %d; want %s %q, class %d", a.ErrorCode, a.ErrorMessage, r.Class, code, message, class)
	}
}
