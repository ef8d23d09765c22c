// Package shop is the sample that a person can watch before there is anything else: an endpoint of a shop whose events
// the relay makes itself, signed as a provider signs them, and two destinations inside this process. One of them breaks
// after Works and works again after Broken. All that happens follows from the time in the endpoint's metadata, so it is
// the same on each node and after a restart, and the sample is gone with its endpoint.
package shop

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/eventrelay/relay/pkg/config"
	"github.com/eventrelay/relay/pkg/wait"
)

const (
	// Host is that of the sample's destinations. No DNS has a name under .invalid (RFC 6761, section 6.4).
	Host = "sample-shop.invalid"
	// Works is how long both destinations work.
	Works = 20 * time.Second
	// Broken is how long the warehouse answers 503 then: too short for the circuit breaker, so what failed stays failed
	// until somebody recovers it.
	Broken = 25 * time.Second
	// Lasts is how long events come.
	Lasts = 3 * time.Minute
	// mark is the metadata of the endpoint: when the sample began, in Unix seconds.
	mark = "sample_began_at"
	// takes is how long a destination takes to answer.
	takes = 30 * time.Millisecond
)

// Body is the request that creates the endpoint of a sample that begins now.
func Body(now time.Time, secret string) map[string]any {
	at := func(after time.Duration) int64 { return now.Add(after).Unix() }
	return map[string]any{
		"name": "Sample shop", "description": "A sample: its events and destinations are made by this relay.",
		"provider":     "shopify",
		"verification": map[string]any{"type": "shopify", "secret": secret, "mode": "enforce"},
		"metadata":     map[string]string{mark: strconv.FormatInt(now.Unix(), 10)},
		"retry_policy": map[string]any{"strategy": "schedule", "schedule_seconds": []int{3}, "max_attempts": 2},
		"alerts":       map[string]any{"enabled": true, "channels": []string{}}, // shown, and sent to no channel
		"destinations": []map[string]any{
			{"name": "mailer", "url": "https://" + Host + "/mailer"},
			{"name": "warehouse", "url": fmt.Sprintf("https://%s/warehouse?broken_from=%d&to=%d", Host, at(Works),
				at(Works+Broken))},
		},
	}
}

// BeganAt returns when the sample with this endpoint began; ok is false for any other endpoint, such as one of a
// tenant, or one that sends anything out of this process.
func BeganAt(ep *config.Endpoint) (at time.Time, ok bool) {
	unix, err := strconv.ParseInt(ep.Metadata[mark], 10, 64)
	elsewhere := func(d config.Destination) bool { return !strings.HasPrefix(d.URL, "https://"+Host+"/") }
	return time.Unix(unix, 0), err == nil && ep.Tenant == "" && !slices.ContainsFunc(ep.Destinations, elsewhere)
}

// Receiver answers the deliveries to a sample's destinations.
type Receiver struct{ Now func() time.Time }

// RoundTrip implements http.RoundTripper.
func (x Receiver) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Body != nil {
		_, _ = io.Copy(io.Discard, r.Body)
		_ = r.Body.Close()
	}
	if err := wait.For(r.Context(), takes); err != nil {
		return nil, err
	}
	status, body := http.StatusOK, `{"ok":true}`
	from, _ := strconv.ParseInt(r.URL.Query().Get("broken_from"), 10, 64)
	to, _ := strconv.ParseInt(r.URL.Query().Get("to"), 10, 64)
	if now := x.Now().Unix(); from <= now && now < to {
		status, body = http.StatusServiceUnavailable, `{"error":"the database of the warehouse is full"}`
	}
	return &http.Response{Status: strconv.Itoa(status) + " " + http.StatusText(status), StatusCode: status,
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Header: http.Header{"Content-Type": {"application/json"}},
		Body: io.NopCloser(bytes.NewReader([]byte(body))), ContentLength: int64(len(body)), Request: r}, nil
}
