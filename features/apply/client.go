package apply

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/eventrelay/relay/api/wire"
	"github.com/eventrelay/relay/pkg/wait"
	"github.com/eventrelay/relay/pkg/web"
)

// Bounds of a request.
const (
	requestTime = 30 * time.Second
	maxTries    = 6
	maxPause    = 30 * time.Second
	maxAnswer   = 16 << 20 // bytes
)

// backoff spaces tries when the service does not say how long to wait.
var backoff = wait.Backoff{First: 500 * time.Millisecond, Longest: 10 * time.Second}

// client calls the API of a relay.
type client struct {
	base string
	key  string
	http *http.Client
}

func newClient(base, key string) (*client, error) {
	u, err := url.Parse(base)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return nil, errors.New("the address of the relay must be http:// or https:// with a host")
	}
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.Proxy = nil // one of the environment would read the key and the secrets
	return &client{base: strings.TrimSuffix(base, "/"), key: key, http: &http.Client{
		Transport: transport, Timeout: requestTime,
		CheckRedirect: func(*http.Request, []*http.Request) error { // the key and the secrets are for this address alone
			return http.ErrUseLastResponse
		},
	}}, nil
}

// answer is what is read of a successful response, of an endpoint or a list of them.
type answer struct {
	tag      string // ETag
	raw      []byte
	ID       string
	Warnings []wire.Warning
	Tenant   string
	Data     []struct{ ID, Name, Tenant string }
	Next     string `json:"next_cursor"`
}

// refusal is an answer of the API that says why a request was not carried out.
type refusal struct {
	Status int
	web.ErrorView
}

func (e *refusal) Error() string {
	if e.Param != "" && !strings.HasPrefix(e.Message, e.Param) {
		return fmt.Sprintf("%s: %s (%s)", e.Param, e.Message, e.Type)
	}
	return fmt.Sprintf("%s (%d %s)", e.Message, e.Status, e.Type)
}

// do sends a request, and again while the service is overloaded or unavailable. tag makes it conditional. A try whose
// answer was lost is repeated: a POST carries an Idempotency-Key, all others have the same effect twice.
func (c *client) do(ctx context.Context, method, path string, body any, tag string) (answer, error) {
	var raw []byte
	if body != nil {
		var err error
		if raw, err = json.Marshal(body); err != nil {
			return answer{}, err
		}
	}
	key := rand.Text()
	for try := 0; ; try++ {
		a, pause, err := c.try(ctx, method, path, raw, tag, key)
		if err == nil || pause < 0 || try == maxTries-1 {
			return a, err
		}
		if err := wait.For(ctx, min(cmp.Or(pause, backoff.After(try)), maxPause)); err != nil {
			return answer{}, err
		}
	}
}

// try sends a request once. On an error it returns how long to wait before the next try: 0 = as long as the client
// likes, less than 0 = another try is of no use.
func (c *client) try(ctx context.Context, method, path string, body []byte, tag, key string) (
	_ answer, pause time.Duration, err error) {
	const never = -1
	req, err := http.NewRequestWithContext(ctx, method, c.base+path, bytes.NewReader(body))
	if err != nil {
		return answer{}, never, err
	}
	req.Header.Set("Authorization", "Bearer "+c.key)
	req.Header.Set("Content-Type", "application/json")
	if method == http.MethodPost {
		req.Header.Set("Idempotency-Key", key)
	}
	if tag != "" {
		req.Header.Set("If-Match", tag)
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return answer{}, 0, err
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if err != nil {
		return answer{}, 0, err
	}
	if resp.StatusCode >= http.StatusMultipleChoices {
		err := refusalOf(resp.StatusCode, raw)
		seconds, _ := strconv.Atoi(resp.Header.Get("Retry-After"))
		if resp.StatusCode == http.StatusTooManyRequests || resp.StatusCode >= http.StatusInternalServerError {
			return answer{}, time.Duration(seconds) * time.Second, err
		}
		return answer{}, never, err
	}
	a := answer{tag: resp.Header.Get("ETag"), raw: raw}
	if err := json.Unmarshal(raw, &a); err != nil {
		return a, never, fmt.Errorf("%s %s: the answer is not JSON; is this the address of a relay? %w", method, path, err)
	}
	return a, 0, nil
}

// withoutValidation says why the service does not validate without making a change; "" = it does.
func (c *client) withoutValidation(ctx context.Context) (string, error) {
	_, err := c.do(ctx, http.MethodPost, "/v1/endpoints/validate", map[string]any{}, "")
	r, _ := errors.AsType[*refusal](err)
	switch {
	case r == nil:
		return "", err
	case r.Status == http.StatusNotFound:
		return "values are not validated: the relay is older than this program, and validates only what it stores", nil
	case r.Status == http.StatusForbidden:
		return "values are not validated: " + r.Message, nil
	case r.Status == http.StatusBadRequest: // an endpoint needs members
		return "", nil
	}
	return "", err
}

// maxRefusal bounds what is shown of an answer that is not one of the API.
const maxRefusal = 200

func refusalOf(status int, raw []byte) error {
	var e struct{ Error web.ErrorView }
	if json.Unmarshal(raw, &e) != nil || e.Error.Message == "" {
		return fmt.Errorf("status %d instead of an answer of the API; is this the address of a relay? %.*q", status,
			maxRefusal, raw)
	}
	return &refusal{status, e.Error}
}

// target is what an endpoint is recognised by: a tenant chooses the names of its own endpoints.
type target struct{ tenant, name string }

func (t target) compare(o target) int {
	return cmp.Or(cmp.Compare(t.tenant, o.tenant), cmp.Compare(t.name, o.name))
}

// tenant returns the tenant of the key; empty for a key of the account.
func (c *client) tenant(ctx context.Context) (string, error) {
	a, err := c.do(ctx, http.MethodGet, "/v1/me", nil, "")
	if err != nil {
		return "", fmt.Errorf("cannot ask what the key may do: %w", err)
	}
	return a.Tenant, nil
}

// list returns the ids of all endpoints, or tenants, by what they are recognised by.
func (c *client) list(ctx context.Context, things string) (map[target][]string, error) {
	out := map[target][]string{}
	for cursor := ""; ; {
		a, err := c.do(ctx, http.MethodGet, "/v1/"+things+"?limit=100&cursor="+url.QueryEscape(cursor), nil, "")
		if err != nil {
			return nil, fmt.Errorf("cannot list the %s: %w", things, err)
		}
		for _, e := range a.Data {
			of := target{e.Tenant, e.Name}
			out[of] = append(out[of], e.ID)
		}
		if cursor = a.Next; cursor == "" {
			return out, nil
		}
	}
}

// endpoint returns what the service shows of an endpoint.
func (c *client) endpoint(ctx context.Context, id string) (have map[string]any, tag string, err error) {
	a, err := c.do(ctx, http.MethodGet, "/v1/endpoints/"+id, nil, "")
	if err != nil {
		return nil, "", err
	}
	decoder := json.NewDecoder(bytes.NewReader(a.raw))
	decoder.UseNumber()
	return have, a.tag, decoder.Decode(&have)
}
