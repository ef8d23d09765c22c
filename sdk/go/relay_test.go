package relay

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func readJSON(t *testing.T, file string, into any) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err == nil {
		err = json.Unmarshal(text, into)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// transport answers requests in the test's goroutines, so that time may be fake.
type transport func(*http.Request) (*http.Response, error)

func (f transport) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func clientOf(f transport) *Client {
	c := New("http://relay.test/", "secret-key")
	c.HTTP.Transport, c.MaxTries = f, 3
	return c
}

func answer(status int, body string) *http.Response {
	return &http.Response{StatusCode: status, Header: http.Header{}, Body: io.NopCloser(strings.NewReader(body))}
}

func TestVectors(t *testing.T) {
	var vectors struct {
		Now        int64
		Deliveries []struct {
			Name, Secret, Body string
			Headers            map[string]string
			Valid              bool
		}
	}
	readJSON(t, "../vectors.json", &vectors)
	for _, d := range vectors.Deliveries {
		header := http.Header{}
		for name, value := range d.Headers {
			header.Set(name, value)
		}
		v, err := NewVerifier(d.Secret)
		var id string
		if err == nil {
			id, err = v.verify(header, []byte(d.Body), time.Unix(vectors.Now, 0))
		}
		if (err == nil) != d.Valid || d.Valid && id != "evt_01J" {
			t.Errorf("%s: %q, %v", d.Name, id, err)
		}
	}
}

func TestRetries(t *testing.T) {
	var cases []struct {
		Name, Call string
		Answers    []int
		Headers    map[string]string
		Tries      int
	}
	readJSON(t, "../retries.json", &cases)
	for _, c := range cases {
		synctest.Test(t, func(t *testing.T) {
			tries, keys := 0, map[string]bool{}
			client := clientOf(func(r *http.Request) (*http.Response, error) {
				status := c.Answers[tries]
				tries++
				keys[r.Header.Get("Idempotency-Key")] = true
				if status == 0 {
					return nil, io.ErrUnexpectedEOF
				}
				resp := answer(status, "{}")
				for name, value := range c.Headers {
					resp.Header.Set(name, value)
				}
				return resp, nil
			})
			var err error
			switch c.Call {
			case "read":
				_, err = client.ReadMe(t.Context())
			case "send":
				_, err = client.SendEvent(t.Context(), "ep_1", EventSend{Type: "a"})
			case "change":
				_, err = client.UpdateEndpoint(t.Context(), "ep_1", EndpointUpdate{})
			}
			succeeds := c.Answers[c.Tries-1]/100 == 2
			if tries != c.Tries || (err == nil) != succeeds || len(keys) != 1 || keys[""] != (c.Call != "send") {
				t.Errorf("%s: %d tries with the keys %v: %v", c.Name, tries, keys, err)
			}
		})
	}
}

// The wait is as long as the service says.
func TestRetryAfter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begin, tries := time.Now(), 0
		client := clientOf(func(*http.Request) (*http.Response, error) {
			resp := answer([]int{429, 200}[tries], `{"error":{"type":"rate_limited"}}`)
			resp.Header.Set("Retry-After", "7")
			tries++
			return resp, nil
		})
		if _, err := client.ReadMe(t.Context()); err != nil || time.Since(begin) != 7*time.Second {
			t.Errorf("waited %s, %v", time.Since(begin), err)
		}
	})
}

func TestErrors(t *testing.T) {
	client := clientOf(func(*http.Request) (*http.Response, error) {
		return answer(400, `{"error":{"type":"invalid_request","param":"url","message":"m","request_id":"req_1"}}`), nil
	})
	_, err := client.ReadEvent(t.Context(), "a/b")
	var refused *APIError
	if !errors.As(err, &refused) || refused.Status != 400 || *refused.Param != "url" || refused.RequestID != "req_1" {
		t.Errorf("%#v", err)
	}
	if printed := fmt.Sprintf("%+v %#v", client, *client); strings.Contains(printed, "secret-key") {
		t.Errorf("the client is printed as %s", printed)
	}
	client.HTTP.Transport = transport(func(r *http.Request) (*http.Response, error) {
		return answer(418, "<html>"+r.URL.RequestURI()), nil
	})
	_, err = client.ListEvents(t.Context(), &ListEventsParams{
		Body: &map[string]string{"a.b": "1"}, Type: &[]string{"x", "y"}, Limit: Ptr(5)})
	if !errors.As(err, &refused) || refused.Message != "<html>/v1/events?body%5Ba.b%5D=1&limit=5&type=x&type=y" {
		t.Errorf("%v", err)
	}
}

// Batches are bounded in events and bytes, and repeated with the same key while an event failed for the moment.
func TestSendAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var sizes []int
		keys := map[string]int{}
		client := clientOf(func(r *http.Request) (*http.Response, error) {
			var batch EventBatch
			text, _ := io.ReadAll(r.Body)
			if err := json.Unmarshal(text, &batch); err != nil || len(text) > maxBatchBytes {
				t.Errorf("%d bytes to %s: %v", len(text), r.URL, err)
			}
			sizes = append(sizes, len(batch.Events))
			keys[r.Header.Get("Idempotency-Key")]++
			var result EventBatchResult
			for i := range batch.Events {
				result.Data = append(result.Data, BatchItem{Index: i})
			}
			if len(sizes) == 1 {
				result.Data[5].Error = &ErrorDetail{Type: "unavailable"}
			}
			written, err := json.Marshal(result)
			return answer(202, string(written)), err
		})
		events := slices.Repeat([]BatchEvent{{Type: "a"}}, 1001)
		for range 3 {
			events = append(events, BatchEvent{Type: "a", Data: map[string]any{"text": strings.Repeat("x", 3<<20)}})
		}
		next := 0
		for result, err := range client.SendAll(t.Context(), "ep_1", slices.Values(events), WithIdempotencyKey("import")) {
			if err != nil || result.Index != next || result.Error != nil {
				t.Fatal(result, err)
			}
			next++
		}
		want := map[string]int{"import-0": 2, "import-1": 1, "import-2": 1, "import-3": 1}
		if !slices.Equal(sizes, []int{1000, 1000, 2, 1, 1}) || !maps.Equal(keys, want) || next != len(events) {
			t.Errorf("batches of %v with %v, %d results", sizes, keys, next)
		}
	})
}

// A stream goes on after the last item when it is cut, silent or shut down, and ends when it says so.
func TestStream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		item := func(id int, kind, data string) string {
			return fmt.Sprintf("id: %d\nevent: %s\ndata: %s\n\n", id, kind, data)
		}
		last := func(reason string) string { return fmt.Sprintf("event: end\ndata: {\"reason\":%q}\n\n", reason) }
		cut := item(0, "ready", "{}") + item(1, "event", `{"id":"evt_1"}`) + "id: 2\nevent: event\nda"
		silent := item(1, "ready", "{}") + ": a comment\n\n" + item(2, "event", `{"id":"evt_2"}`)
		shutdown := item(2, "ready", "{}") + item(3, "gap", `{"reason":"x"}`) + last("shutdown")
		end := item(3, "ready", "{}") + last("key_revoked")
		var asked []string
		client := clientOf(func(r *http.Request) (*http.Response, error) {
			asked = append(asked, r.Header.Get("Last-Event-ID"))
			switch len(asked) {
			case 1:
				return answer(503, "{}"), nil
			case 2:
				return answer(200, cut), nil
			case 3:
				return &http.Response{StatusCode: 200, Body: &quiet{strings.NewReader(silent), r.Context()}}, nil
			case 4:
				return answer(200, shutdown), nil
			}
			return answer(200, end), nil
		})
		var got []string
		var ended error
		for item, err := range client.Stream(t.Context(), "ep_1", "") {
			switch {
			case err != nil:
				ended = err
			case item.Event != nil:
				got = append(got, item.ID+" "+item.Event.ID)
			default:
				got = append(got, fmt.Sprint(item.ID, " ", item.Gap != nil))
			}
		}
		want := []string{"0 false", "1 evt_1", "2 evt_2", "3 true"}
		if !slices.Equal(got, want) || !errors.Is(ended, ErrStreamEnded) {
			t.Errorf("%q, %v", got, ended)
		}
		if want = []string{"", "", "1", "2", "3"}; !slices.Equal(asked, want) {
			t.Errorf("asked for what comes after %q", asked)
		}
	})
}

// quiet is a body that stays open and silent at its end.
type quiet struct {
	io.Reader
	ctx context.Context
}

func (q *quiet) Read(p []byte) (int, error) {
	n, err := q.Reader.Read(p)
	if err == io.EOF {
		<-q.ctx.Done()
		return 0, q.ctx.Err()
	}
	return n, err
}

func (*quiet) Close() error { return nil }
