package sqs

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/eventrelay/relay/dispatcher/destination"
	"github.com/eventrelay/relay/dispatcher/lane"
	"github.com/eventrelay/relay/pkg/config/kinds"
	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/test/desttest"
	"github.com/eventrelay/relay/test/is"
	"github.com/eventrelay/relay/test/kit"
	"github.com/eventrelay/relay/test/must"
)

func TestMain(m *testing.M) { kit.Main(m) }

func newRig(t *testing.T, settings kinds.SQS) *desttest.Rig {
	t.Helper()
	return desttest.New(t, desttest.Loopback(), kinds.Settings{SQS: &settings}, func(r *desttest.Rig) destination.Kind {
		return New(Deps{Transport: r.Transport, Keyring: r.Keyring, Now: time.Now})
	})
}

// queue answers as SQS does, with the fault that is set: a status, a name and a message.
func queue(t *testing.T) (settings kinds.SQS, last *atomic.Value, fault *atomic.Value) {
	last, fault = &atomic.Value{}, &atomic.Value{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var x message
		must.Do(t, json.Unmarshal(must.Get(io.ReadAll(r.Body))(t), &x))
		last.Store(x)
		if r.URL.Path != "/" || r.Header.Get("X-Amz-Target") != "AmazonSQS.SendMessage" ||
			!strings.Contains(r.Header.Get("Authorization"), "/eu-central-1/sqs/aws4_request") {
			t.Errorf("%s %v", r.URL, r.Header)
		}
		if f, ok := fault.Load().([3]string); ok {
			var status int
			_, _ = fmt.Sscan(f[0], &status)
			w.WriteHeader(status)
			_ = json.NewEncoder(w).Encode(map[string]string{"__type": "com.amazonaws.sqs#" + f[1], "message": f[2]})
			return
		}
		_, _ = io.WriteString(w, `{"MessageId":"m-7"}`)
	}))
	t.Cleanup(server.Close)
	return kinds.SQS{QueueURL: server.URL + "/123/orders", Region: "eu-central-1", AccessKey: "a", SecretKey: "hunter2"},
		last, fault
}

// A message has the event in JSON. In a FIFO queue it has a group, and the delivery is its deduplication id.
func TestMessages(t *testing.T) {
	settings, last, _ := queue(t)
	for _, x := range []struct{ suffix, group, want string }{
		{"", "", ""}, {"", "type", "order.paid"}, {".fifo", "", "ep_test"}, {".fifo", "body:$.customer", "c-7"},
		{".fifo", "header:Content-Type", "application/json"}, {".fifo", "body:$.missing", "evt_"},
		{"", "body:$.name", "hash"},
	} {
		to := settings
		to.QueueURL, to.Group = to.QueueURL+x.suffix, x.group
		a, r := newRig(t, to).Send(`{"customer":"c-7","name":"Łódź"}`)
		if !a.OK || r.Lane != lane.Succeeded || a.URL != "sqs"+to.QueueURL[len("http"):] || a.Duration == 0 ||
			a.ResponseHeader.Value("Sqs-Message-Id") != "m-7" || a.RequestHeader.Value("X-Secret") != destination.Mask {
			t.Fatalf("%+v %+v", a, r)
		}
		got := last.Load().(message)
		var body struct {
			ID, Type string
			Headers  map[string]string
			Body     map[string]string
		}
		must.Do(t, json.Unmarshal([]byte(got.Body), &body))
		if got.QueueURL != to.QueueURL || !strings.HasPrefix(body.ID, "evt_") || body.Body["customer"] != "c-7" ||
			body.Headers["x-team"] != "billing" || strings.Contains(got.Body, "webhook-signature") {
			t.Errorf("%+v", got)
		}
		hashed := x.want == "hash" && len(got.Group) == 64
		if got.Group != x.want && !hashed && !(x.want == "evt_" && got.Group == body.ID) {
			t.Errorf("%+v: group %q", x, got.Group)
		}
		if fifo := x.suffix != ""; fifo && got.Dedup != body.Headers["relay-delivery-id"] || !fifo && got.Dedup != "" {
			t.Errorf("%+v: deduplication %q", x, got.Dedup)
		}
	}
}

// An error names what a person can change. What is too large is not retried.
func TestFaultsOfTheQueue(t *testing.T) {
	settings, _, fault := queue(t)
	x := newRig(t, settings)
	f := func(status, name, text string, code event.ErrorCode, message string, class destination.Class) {
		t.Helper()
		fault.Store([3]string{status, name, text})
		x.Fails("{}", code, message, class)
	}
	again := destination.Retryable
	f("400", "QueueDoesNotExist", "", event.CodeNotFound, "queue orders not found in eu-central-1", again)
	f("403", "InvalidClientTokenId", "", event.CodeAccessDenied, "refused the access key: InvalidClientTokenId", again)
	f("400", "AccessDeniedException", "", event.CodeAccessDenied, "access denied for queue orders: the key needs", again)
	f("400", "InvalidParameterValue", "Message must be shorter than 1024 bytes.", event.CodeTooLarge, "bytes",
		destination.Final)
	f("503", "ServiceUnavailable", "", event.CodeRefused, "answered 503 ServiceUnavailable", again)
	f("200", "", "", event.CodeRefused, "answered 200", again)
	x.Fails(strings.Repeat("x", maxMessage), event.CodeTooLarge, "more than the queue takes", destination.Final)
	settings.QueueURL = fmt.Sprintf("http://127.0.0.1:%d/1/orders", kit.FreePort(t))
	newRig(t, settings).Fails("{}", event.CodeConnectionRefused, "refused", again)
	settings.QueueURL = "http://10.0.0.1/1/orders"
	newRig(t, settings).Fails("{}", event.CodeAddressBlocked, "not public", again)
}

// The settings name a queue, whose region follows from its URL, and never change the host of a secret by themselves.
func TestSettings(t *testing.T) {
	f := func(x kinds.SQS, path string) {
		t.Helper()
		all := kinds.Settings{SQS: &x}
		all.Trim()
		err := all.Validate(kinds.Checks{Opened: true, URL: func(string) error { return nil }})
		if got, _, _ := strings.Cut(fmt.Sprint(err), " "); got != path {
			t.Errorf("%v, want %s", err, path)
		}
	}
	ok := kinds.SQS{QueueURL: "https://sqs.eu-west-1.amazonaws.com/1/a.fifo", AccessKey: "a", SecretKey: "b"}
	with := func(change func(*kinds.SQS)) kinds.SQS { x := ok; change(&x); return x }
	f(ok, "<nil>")
	f(with(func(x *kinds.SQS) { x.QueueURL = "" }), "sqs.queue_url")
	f(with(func(x *kinds.SQS) { x.QueueURL = "https://sqs.eu-west-1.amazonaws.com/" }), "sqs.queue_url")
	f(with(func(x *kinds.SQS) { x.QueueURL = "https://queues.example.com/1/a" }), "sqs.region")
	f(with(func(x *kinds.SQS) { x.AccessKey = "" }), "sqs.access_key_id")
	f(with(func(x *kinds.SQS) { x.SecretKey = "" }), "sqs.secret_access_key")
	f(with(func(x *kinds.SQS) { x.Group = "none" }), "sqs.group")
	f(with(func(x *kinds.SQS) { x.Group = "customer" }), "sqs.group")
	all := kinds.Settings{SQS: &ok}
	all.Trim()
	if name, at := all.Kind(); name != "sqs" || at != "sqs://sqs.eu-west-1.amazonaws.com/1/a.fifo" ||
		all.Origin() != "https://sqs.eu-west-1.amazonaws.com:443" || ok.Region != "eu-west-1" || ok.Group != "endpoint_id" {
		t.Errorf("%s %s %s %+v", name, at, all.Origin(), ok)
	}
}

// moto verifies signatures and rights as SQS does.
func TestMoto(t *testing.T) {
	m := desttest.NewMoto(t)
	for _, name := range []string{"orders", "orders.fifo"} {
		attributes := `{"MaximumMessageSize":"2048"}`
		if name != "orders" {
			attributes = `{"FifoQueue":"true"}`
		}
		m.SQS("CreateQueue", `{"QueueName":"`+name+`","Attributes":`+attributes+`}`)
	}
	settings := kinds.SQS{QueueURL: m.URL + "/123456789012/orders", Region: "us-east-1"}
	other := settings
	settings.AccessKey, settings.SecretKey = m.Key("sender", "sqs:SendMessage")
	other.AccessKey, other.SecretKey = m.Key("reader", "sqs:ReceiveMessage")
	m.Enforce()
	again := destination.Retryable
	newRig(t, other).Fails("{}", event.CodeAccessDenied, "access denied for queue orders", again)
	wrong := settings
	wrong.SecretKey = "hunter2"
	newRig(t, wrong).Fails("{}", event.CodeAccessDenied, "access denied", again) // an answer in XML
	wrong = settings
	wrong.QueueURL = m.URL + "/123456789012/missing"
	newRig(t, wrong).Fails("{}", event.CodeNotFound, "queue missing not found", again)
	x := newRig(t, settings)
	x.Fails(strings.Repeat("x", 3000), event.CodeTooLarge, "more than the queue takes", destination.Final)
	for range 20 {
		if a, _ := x.Send(`{"name":"Łódź"}`); !a.OK {
			t.Fatalf("%s %s", a.ErrorCode, a.ErrorMessage)
		}
	}
	settings.QueueURL += ".fifo"
	if a, _ := newRig(t, settings).Send("no JSON"); !a.OK {
		t.Errorf("%s %s", a.ErrorCode, a.ErrorMessage)
	}
	for name, want := range map[string]int{"orders": 20, "orders.fifo": 1} {
		is.Equal(t, m.Messages(name), want, "messages in %s", name)
	}
}
