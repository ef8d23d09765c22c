package s3

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/minio/minio-go/v7"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/eventrelay/relay/dispatcher/destination"
	"github.com/eventrelay/relay/dispatcher/lane"
	"github.com/eventrelay/relay/pkg/config"
	"github.com/eventrelay/relay/pkg/config/kinds"
	"github.com/eventrelay/relay/pkg/config/seal"
	"github.com/eventrelay/relay/pkg/egress"
	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/id"
	"github.com/eventrelay/relay/pkg/sign"
	"github.com/eventrelay/relay/test/kit"
	"github.com/eventrelay/relay/test/must"
)

func TestMain(m *testing.M) { kit.Main(m) }

// rig delivers to one destination, which opens once.
type rig struct {
	t      *testing.T
	sender *destination.Sender
	to     *target
}

func newRig(t *testing.T, settings kinds.S3) *rig {
	t.Helper()
	keyring := must.Get(seal.NewKeyring(seal.GenerateKey("test")))(t)
	transport := must.Get(egress.NewTransport(egress.Config{Policy: egress.Policy{
		Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}, AllowHTTP: true}}))(t)
	t.Cleanup(transport.CloseIdleConnections)
	all := kinds.Settings{S3: &settings}
	all.Trim()
	must.Do(t, all.Validate(kinds.Checks{Opened: true, URL: func(string) error { return nil }}))
	_, address := all.Kind()
	secret := keyring.SealString("dst_test", seal.FieldSecret, sign.NewSecret().Reveal())
	dest := &config.Destination{ID: "dst_test", URL: address, TimeoutSeconds: 2,
		Secrets:  []config.SigningSecret{{Secret: secret}},
		Settings: all.Seal(keyring, "dst_test", kinds.Settings{}, kinds.Settings{})}
	k := New(Deps{Transport: transport, Keyring: keyring, Now: time.Now})
	return &rig{t: t, to: must.Get(k.Open(&config.Endpoint{}, dest))(t).(*target),
		sender: destination.NewSender(time.Now, 1000, prometheus.NewHistogram(prometheus.HistogramOpts{Name: "w"}))}
}

func (x *rig) send(body string) (*event.Attempt, destination.Result) {
	work := &event.Work{Event: &event.Event{ID: must.Get(id.NewGenerator(nil).New(0))(x.t), Endpoint: "ep_test",
		Source: event.SourceProvider, Type: "order.paid", Method: "POST", Body: []byte(body),
		Header: []event.Field{{Name: "Content-Type", Value: "application/json"}}},
		Dest: "dst_test", Trigger: event.TriggerInitial, Attempt: 1}
	attempt := must.Get(id.NewGenerator(nil).New(0))(x.t)
	return x.sender.Send(x.t.Context(), attempt, x.to, work, destination.Stored(work), nil)
}

// bucket starts a store. Its answers are those of a fault while that has a status.
func bucket(t *testing.T) (settings kinds.S3, fault *atomic.Value, puts *atomic.Int64) {
	fault, puts = &atomic.Value{}, &atomic.Int64{}
	env := kit.BucketServer(t, func(*http.Request) bool { puts.Add(1); return fault.Load() == nil })
	return kinds.S3{Bucket: "backups", Region: "us-east-1", Endpoint: strings.TrimPrefix(env[0], "AWS_ENDPOINT_URL="),
		AccessKey: "test", SecretKey: "test-hunter2", Seconds: 1}, fault, puts
}

// Events that come together are lines of one object. A body that is no JSON is encoded.
func TestObjects(t *testing.T) {
	settings, _, puts := bucket(t)
	settings.Key = "orders/{endpoint_id}/{date}-{hour}-{id}.ndjson"
	x := newRig(t, settings)
	bodies := []string{`{"a": [1, 2]}`, "no JSON\n", ""}
	names := make([]string, 30)
	var all sync.WaitGroup
	for i := range names {
		all.Go(func() {
			a, r := x.send(bodies[i%len(bodies)])
			if names[i] = a.URL; !a.OK || r.Lane != lane.Succeeded || r.Waited < time.Second/2 || a.Duration > time.Second/2 {
				t.Errorf("%s %s after %v and %v", a.ErrorCode, a.ErrorMessage, a.Duration, r.Waited)
			}
		})
	}
	all.Wait()
	want := "s3://backups/orders/ep_test/" + time.Now().UTC().Format("2006-01")
	if puts.Load() != 1 || !strings.HasPrefix(names[0], want) {
		t.Fatalf("%d requests, %s", puts.Load(), names[0])
	}
	object := must.Get(x.to.client.GetObject(t.Context(), "backups", strings.TrimPrefix(names[0], "s3://backups/"),
		minio.GetObjectOptions{}))(t)
	defer object.Close()
	count := map[string]int{}
	for text := range strings.Lines(string(must.Get(io.ReadAll(object))(t))) {
		var got line
		must.Do(t, json.Unmarshal([]byte(text), &got))
		count[string(got.Body)+string(got.BodyEncoded)]++
		if !strings.HasPrefix(got.ID, "evt_") || got.Type != "order.paid" || got.EndpointID != "ep_test" ||
			got.Attempt != 1 || got.Headers["content-type"] != "application/json" ||
			strings.Contains(text, "webhook-signature") {
			t.Errorf("%s", text)
		}
	}
	if len(count) != 3 || count[`{"a":[1,2]}`] != 10 || count["no JSON\n"] != 10 || count[""] != 10 {
		t.Errorf("%v", count)
	}
}

// An object that is full is stored at once.
func TestFullObjectsAreStored(t *testing.T) {
	settings, _, puts := bucket(t)
	settings.Seconds, settings.Bytes = 30, 1024
	x := newRig(t, settings)
	began := time.Now()
	a, _ := x.send(`"` + strings.Repeat("x", 2000) + `"`)
	if !a.OK || time.Since(began) > 10*time.Second || puts.Load() != 1 {
		t.Errorf("%s after %v", a.ErrorCode, time.Since(began))
	}
}

// An error names what a person can change, and no secret.
func TestFaultsOfTheStore(t *testing.T) {
	settings, fault, _ := bucket(t)
	f := func(settings kinds.S3, code event.ErrorCode, message string) {
		t.Helper()
		a, r := newRig(t, settings).send("{}")
		if a.OK || a.ErrorCode != code || !strings.Contains(a.ErrorMessage, message) || r.Class != destination.Retryable ||
			strings.Contains(a.ErrorMessage+string(a.RequestHeader), "hunter2") {
			t.Errorf("%s %q, want %s %q", a.ErrorCode, a.ErrorMessage, code, message)
		}
	}
	other := settings
	other.Bucket = "other"
	f(other, event.CodeNotFound, "bucket other not found")
	other = settings
	other.Endpoint = fmt.Sprintf("http://127.0.0.1:%d", kit.FreePort(t))
	f(other, event.CodeConnectionRefused, "refused")
	other.Endpoint = "http://10.0.0.1"
	f(other, event.CodeAddressBlocked, "not public")
	fault.Store(true)
	f(settings, event.CodeAccessDenied, "access denied for bucket backups")
}
