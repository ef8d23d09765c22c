package bench

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"os"
	"strings"
)

// peer is another webhook service, described by a file. It must already run and deliver what is posted to URL to the
// sink's address.
type peer struct {
	Name    string            `json:"name"`
	URL     string            `json:"url"`     // where to post
	Method  string            `json:"method"`  // default: POST
	Headers map[string]string `json:"headers"` // may hold {{n}}
	// Body is an object, or a string with the body itself. It must contain {{mark}}, which must arrive at the sink
	// unchanged.
	Body   json.RawMessage `json:"body"`
	Expect []int           `json:"expect"` // statuses that accept an event; default: 200, 201 and 202

	body string
}

func readPeer(file string) (*peer, error) {
	raw, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	p, err := parsePeer(raw)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return p, nil
}

// parsePeer parses a description and returns all its faults at once.
func parsePeer(raw []byte) (*peer, error) {
	p := peer{Name: "peer", Method: "POST", Expect: []int{200, 201, 202}}
	in := json.NewDecoder(bytes.NewReader(raw))
	in.DisallowUnknownFields()
	if err := in.Decode(&p); err != nil {
		return nil, fmt.Errorf("peer's description: %w", err)
	}
	var errs []error
	if u, err := url.Parse(p.URL); err != nil || u.Scheme != "http" || u.Host == "" {
		errs = append(errs, fmt.Errorf("url: %q is not an http:// URL", p.URL))
	}
	if p.Method != strings.ToUpper(p.Method) || strings.ContainsAny(p.Method, " \r\n") {
		errs = append(errs, fmt.Errorf("method: %q is not an HTTP method", p.Method))
	}
	for name, value := range p.Headers {
		if name == "" || strings.ContainsAny(name, ": \r\n") || strings.ContainsAny(value, "\r\n") {
			errs = append(errs, fmt.Errorf("headers: %q cannot be sent", name))
		}
		if strings.EqualFold(name, "Content-Length") || strings.EqualFold(name, "Host") {
			errs = append(errs, fmt.Errorf("headers: %s is set by the benchmark", name))
		}
	}
	for _, status := range p.Expect {
		if status < 100 || status > 599 {
			errs = append(errs, fmt.Errorf("expect: %d is not an HTTP status", status))
		}
	}
	if len(p.Expect) == 0 {
		errs = append(errs, errors.New("expect: no status accepts an event"))
	}
	if p.body = string(p.Body); strings.HasPrefix(p.body, `"`) {
		if err := json.Unmarshal(p.Body, &p.body); err != nil {
			errs = append(errs, fmt.Errorf("body: %w", err))
		}
	}
	if !strings.Contains(p.body, "{{mark}}") {
		errs = append(errs, errors.New("body: {{mark}} is missing, without it events cannot be counted"))
	}
	return &p, errors.Join(errs...)
}

// start starts nothing, because a peer already runs.
func (p *peer) start(_ context.Context, o options) (*relay, error) {
	return &relay{url: p.URL, pids: o.pids}, nil
}

// apply makes a post go to the peer.
func (p *peer) apply(out *post, size int) {
	out.URL, out.Method, out.Header, out.Expect, out.Batch = p.URL, p.Method, p.Headers, p.Expect, 0
	out.Body = strings.ReplaceAll(p.body, "{{filler}}", filler(size))
}
