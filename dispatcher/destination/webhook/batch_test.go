package webhook

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/eventrelay/relay/dispatcher/destination"
	"github.com/eventrelay/relay/pkg/config/kinds"
	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/sign"
	"github.com/eventrelay/relay/test/desttest"
	"github.com/eventrelay/relay/test/must"
)

// batches delivers to a handler, which gets the body too.
func batches(
	t *testing.T, settings kinds.HTTPBatch, answer func(http.ResponseWriter, *http.Request, []byte),
) *desttest.Rig {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		answer(w, r, must.Get(io.ReadAll(r.Body))(t))
	}))
	t.Cleanup(server.Close)
	x := desttest.New(t, desttest.Loopback(), kinds.Settings{HTTPBatch: &settings, Auth: &kinds.Auth{Type: kinds.Basic,
		Username: "relay", Password: "hunter2"}}, func(r *desttest.Rig) destination.Kind {
		return New(Deps{Transport: r.Transport, Keyring: r.Keyring, Now: time.Now, Version: "test"})
	})
	x.Dest.URL = server.URL
	x.Open()
	return x
}

// Events that come together are one signed request, whose answer decides for all of them.
func TestBatchesOfEvents(t *testing.T) {
	status := http.StatusOK
	var bodies [][]byte
	var x *desttest.Rig
	x = batches(t, kinds.HTTPBatch{Events: 30, Seconds: 30}, func(w http.ResponseWriter, r *http.Request, body []byte) {
		bodies = append(bodies, body)
		name := r.Header.Get("Webhook-Id")
		at := time.Unix(must.Get(strconv.ParseInt(r.Header.Get("Webhook-Timestamp"), 10, 64))(t), 0)
		if user, password, _ := r.BasicAuth(); user != "relay" || password != "hunter2" || r.Method != "POST" ||
			r.Header.Get("X-Team") != "billing" || r.Header.Get("Content-Type") != "application/json" ||
			r.Header.Get("Relay-Hops") != "1" || r.Header.Get("Relay-Path") != "ep_test" ||
			r.Header.Get("Webhook-Signature") != sign.Sign([]sign.Secret{x.Secret}, name, at, body) ||
			!strings.HasPrefix(name, "att_") || r.Header.Get("Relay-Delivery-Id") != "" {
			t.Errorf("%v", r.Header)
		}
		w.WriteHeader(status)
		_, _ = io.WriteString(w, strings.Repeat("x", 3000))
	})
	for _, want := range []struct {
		status int
		class  destination.Class
	}{{200, destination.Delivered}, {503, destination.Retryable}, {400, destination.Final}} {
		status, bodies = want.status, nil
		var all sync.WaitGroup
		for i := range 30 {
			all.Go(func() {
				a, r := x.Send([]string{`{"a": [1, 2]}`, "no\nJSON"}[i%2])
				if r.Class != want.class || a.Code != want.status || a.Trigger != event.TriggerInitial || a.URL != x.Dest.URL ||
					len(a.ResponseBody) != maxBatchAnswer || a.RequestHeader.Value("Authorization") != destination.Mask {
					t.Errorf("%d %s %s", a.Code, a.ErrorCode, a.ErrorMessage)
				}
			})
		}
		all.Wait()
		var events []struct {
			ID      string
			Headers map[string]string
			Body    json.RawMessage
			Encoded []byte `json:"body_base64"`
		}
		must.Equal(t, len(bodies), 1, "requests")
		must.Do(t, json.Unmarshal(bodies[0], &events))
		count := map[string]int{}
		for _, e := range events {
			count[string(e.Body)+string(e.Encoded)]++
			if count[e.ID]++; e.Headers["relay-attempt"] != "1" || e.Headers["x-team"] != "" || count[e.ID] > 1 {
				t.Errorf("%+v", e)
			}
		}
		if len(events) != 30 || count[`{"a":[1,2]}`] != 15 || count["no\nJSON"] != 15 {
			t.Errorf("%v", count)
		}
	}
}

// No request is larger than its bound. An event that alone is larger fails, and is not retried.
func TestBatchesAreBounded(t *testing.T) {
	var mu sync.Mutex
	requests := 0
	x := batches(t, kinds.HTTPBatch{Seconds: 1, Bytes: 4096}, func(_ http.ResponseWriter, _ *http.Request, body []byte) {
		mu.Lock()
		defer mu.Unlock()
		if requests++; len(body) > 4096 || !json.Valid(body) {
			t.Errorf("%d bytes", len(body))
		}
	})
	var all sync.WaitGroup
	for range 20 {
		all.Go(func() {
			if a, _ := x.Send(`"` + strings.Repeat("x", 1000) + `"`); !a.OK {
				t.Errorf("%s %s", a.ErrorCode, a.ErrorMessage)
			}
		})
	}
	all.Wait()
	if requests < 7 || requests > 20 {
		t.Errorf("%d requests", requests)
	}
	x.Fails(strings.Repeat("x", 4096), event.CodeTooLarge, "more than max_bytes (4096)", destination.Final)
}
