package s3

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/minio/minio-go/v7"

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

func newRig(t *testing.T, settings kinds.S3) *desttest.Rig {
	t.Helper()
	return desttest.New(t, desttest.Loopback(), kinds.Settings{S3: &settings}, func(r *desttest.Rig) destination.Kind {
		return New(Deps{Transport: r.Transport, Keyring: r.Keyring, Now: time.Now})
	})
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
			a, r := x.Send(bodies[i%len(bodies)])
			if names[i] = a.URL; !a.OK || r.Lane != lane.Succeeded || r.Waited < time.Second/2 ||
				a.Duration > time.Second/2 {
				t.Errorf("%s %s after %v and %v", a.ErrorCode, a.ErrorMessage, a.Duration, r.Waited)
			}
		})
	}
	all.Wait()
	want := "s3://backups/orders/ep_test/" + time.Now().UTC().Format("2006-01")
	if puts.Load() != 1 || !strings.HasPrefix(names[0], want) {
		t.Fatalf("%d requests, %s", puts.Load(), names[0])
	}
	object := must.Get(x.To.(*target).client.GetObject(t.Context(), "backups",
		strings.TrimPrefix(names[0], "s3://backups/"), minio.GetObjectOptions{}))(t)
	defer object.Close()
	count := map[string]int{}
	for text := range strings.Lines(string(must.Get(io.ReadAll(object))(t))) {
		var got struct {
			ID, Type string
			Endpoint string `json:"endpoint_id"`
			Attempt  int
			Headers  map[string]string
			Body     json.RawMessage
			Base64   []byte `json:"body_base64"`
		}
		must.Do(t, json.Unmarshal([]byte(text), &got))
		count[string(got.Body)+string(got.Base64)]++
		if !strings.HasPrefix(got.ID, "evt_") || got.Type != "order.paid" || got.Endpoint != "ep_test" ||
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
	a, _ := x.Send(`"` + strings.Repeat("x", 2000) + `"`)
	if !a.OK || time.Since(began) > 10*time.Second || puts.Load() != 1 {
		t.Errorf("%s after %v", a.ErrorCode, time.Since(began))
	}
}

// An error names what a person can change, and no secret.
func TestFaultsOfTheStore(t *testing.T) {
	settings, fault, _ := bucket(t)
	f := func(settings kinds.S3, code event.ErrorCode, message string) {
		t.Helper()
		newRig(t, settings).Fails("{}", code, message, destination.Retryable)
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

// moto verifies signatures and rights as S3 does.
func TestMoto(t *testing.T) {
	m := desttest.NewMoto(t)
	m.Bucket("events")
	settings := kinds.S3{Bucket: "events", Region: "us-east-1", Endpoint: m.URL, Seconds: 1}
	other := settings
	settings.AccessKey, settings.SecretKey = m.Key("writer", "s3:PutObject")
	other.AccessKey, other.SecretKey = m.Key("reader", "s3:GetObject")
	m.Enforce()
	f := func(settings kinds.S3, code event.ErrorCode, message string) {
		t.Helper()
		newRig(t, settings).Fails("{}", code, message, destination.Retryable)
	}
	f(other, event.CodeAccessDenied, "access denied for bucket events: the key needs s3:PutObject")
	wrong := settings
	wrong.SecretKey = "hunter2"
	f(wrong, event.CodeAccessDenied, "refused the access key: SignatureDoesNotMatch")
	wrong.AccessKey, wrong.SecretKey = "AKIDMISSING", settings.SecretKey
	f(wrong, event.CodeAccessDenied, "refused the access key: InvalidAccessKeyId")
	wrong = settings
	wrong.Bucket = "missing"
	f(wrong, event.CodeNotFound, "bucket missing not found")
	x := newRig(t, settings)
	names := map[string]int{}
	for range 3 {
		a, _ := x.Send("{}")
		if names[a.URL]++; !a.OK {
			t.Fatalf("%s %s", a.ErrorCode, a.ErrorMessage)
		}
	}
	is.Equal(t, len(names), 3, names)
}
