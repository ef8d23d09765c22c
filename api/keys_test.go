package api_test

import (
	"context"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	apiframe "github.com/eventrelay/relay/api/frame"
	"github.com/eventrelay/relay/pkg/config"
	"github.com/eventrelay/relay/pkg/config/entity"
	"github.com/eventrelay/relay/test/is"
	"github.com/eventrelay/relay/test/must"
)

// makeKey creates a key in the shared configuration.
func makeKey(t *testing.T, scope config.Scope, agent bool, expires time.Time) (text string, k *config.Key) {
	t.Helper()
	text, k, err := configuration.CreateKey(t.Context(), config.NewKey{
		Name: t.Name(), Scope: scope, Agent: agent, ExpiresAt: expires})
	must.Do(t, err)
	return text, k
}

// An agent key may read and change nothing, whatever its scope and whatever the body, the id or the route.
func TestAgentKeysAreReadOnly(t *testing.T) {
	c := newClient(t)
	text, k := makeKey(t, config.ReadWrite, true, time.Time{})
	agent := c.as(text)
	me := agent.do("GET", "/v1/me", nil).want(200)
	if me.get("agent") != true || me.text("scope") != "read_write" || me.text("key_id") != k.ID ||
		me.text("key_name") != t.Name() || me.text("account_id") != k.Account || me.text("version") != "test" {
		t.Errorf("%s", me.raw)
	}
	ep := c.endpoint(nil).text("id")
	agent.do("GET", "/v1/endpoints/"+ep, nil).want(200)
	for _, call := range []string{
		"POST /v1/endpoints", "PATCH /v1/endpoints/" + ep, "DELETE /v1/endpoints/" + ep, "POST /v1/endpoints/" + ep +
			"/events", "POST /v1/endpoints/ep_nope/events",
		"PATCH /v1/alerts", "POST /v1/alerts/test", "POST /v1/events/evt_nope/replay", "POST /v1/events/evt_nope/processing",
	} {
		method, path, _ := strings.Cut(call, " ")
		agent.do(method, path, "{").wantError(403, "insufficient_scope", "")
	}
}

// Each class of requests has its own token bucket per key, with a burst of one second, and its headers on every
// answer. A 429 comes before the scope, the id and the body are checked.
func TestRatesByClass(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, x := range []struct {
			method, path string
			rate         int
		}{{"GET", "/v1/nope", 3}, {"DELETE", "/v1/endpoints/ep_nope", 2}, {"POST", "/v1/endpoints/ep_nope/events", 4},
			{"POST", "/v1/endpoints/ep_nope/events/batch", 4}} {
			c := newClient(t, withRates(3, 2, 4), withConfig(fixedKeys{}))
			for i := range x.rate {
				h := c.do(x.method, x.path, "{}").want(404).Header
				if h.Get("X-RateLimit-Limit") != strconv.Itoa(x.rate) ||
					h.Get("X-RateLimit-Remaining") != strconv.Itoa(x.rate-1-i) || h.Get("X-RateLimit-Reset") != "1" ||
					h.Get("Retry-After") != "" {
					t.Errorf("%s %s, request %d: %v", x.method, x.path, i+1, h)
				}
			}
			h := c.do(x.method, x.path, "{").wantError(429, "rate_limited", "").Header
			if h.Get("Retry-After") != "1" || h.Get("X-RateLimit-Remaining") != "0" ||
				h.Get("X-RateLimit-Limit") != strconv.Itoa(x.rate) {
				t.Errorf("%s %s, one too many: %v", x.method, x.path, h)
			}
			c.as("another-key").do(x.method, x.path, "{}").want(404) // it has its own bucket
			if x.method != "GET" {
				c.do("GET", "/v1/nope", nil).want(404) // and so does each class
			}
			time.Sleep(time.Second)
			c.do(x.method, x.path, "{}").want(404)
		}
		off := newClient(t, withConfig(fixedKeys{}))
		if h := off.do("GET", "/v1/nope", nil).want(404).Header; h.Get("X-RateLimit-Limit") != "" {
			t.Errorf("%v", h)
		}
	})
}

// fixedKeys accepts every text as a read-write key of an empty account.
type fixedKeys struct{ apiframe.Configuration }

func (fixedKeys) Authenticate(text string) (*config.Key, error) {
	return &config.Key{ID: "key_" + text, Account: "acc_1", Scope: config.ReadWrite}, nil
}

func (fixedKeys) Endpoint(string) (*config.Endpoint, entity.Presence) { return nil, entity.Unknown }

func (fixedKeys) Sync(context.Context) error { return nil }

// A key that a script of a web page has sent is marked once, with an entry in the audit log.
func TestKeyUsedFromABrowser(t *testing.T) {
	c := newClient(t)
	_, k := makeKey(t, config.Read, false, time.Time{})
	text, marked := makeKey(t, config.Read, false, time.Time{})
	of := func(name string) *config.Key {
		for _, x := range configuration.Keys(k.Account) {
			if x.ID == name {
				return x
			}
		}
		t.Fatal("the key is gone")
		return nil
	}
	page := c.as(text)
	page.do("GET", "/v1/me", nil, "Sec-Fetch-Mode", "navigate").want(200)
	page.do("GET", "/v1/me", nil, "Sec-Fetch-Mode", "cors").want(200) // fetch of Node.js
	if of(marked.ID).UsedFromBrowser {
		t.Error("a call that no script of a page made marks the key")
	}
	page.do("GET", "/v1/me", nil, "Sec-Fetch-Mode", "cors", "Sec-Fetch-Site", "same-origin").want(200)
	for deadline := time.Now().Add(time.Minute); !of(marked.ID).UsedFromBrowser; {
		if time.Now().After(deadline) {
			t.Fatal("the key is not marked")
		}
		page.do("GET", "/v1/me", nil, "Origin", "https://shop.example").want(200)
	}
	page.do("GET", "/v1/me", nil, "Origin", "https://shop.example").want(200)
	if of(k.ID).UsedFromBrowser {
		t.Error("another key is marked")
	}
	a := c.do("GET", "/v1/audit?action=key.updated&entity_id="+marked.ID, nil).want(200)
	is.Equal(t, strings.Count(string(a.raw), `"used_from_browser"`), 1, "entries of the audit log: %s", a.raw)
}
