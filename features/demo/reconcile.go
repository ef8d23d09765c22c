package demo

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"time"
)

// provider sends webhooks as Stripe or GitHub do, and has the part of their API that says which ones failed. Neither
// sends again by itself.
type provider struct {
	sign   func(body string) (name, value string)
	ingest string // the URL of the endpoint

	mu       sync.Mutex // guards attempts
	attempts []attempt  // oldest first
}

// attempt is a request that was made, by the number of its event.
type attempt struct {
	event, status int
	at            time.Time
}

func (p *provider) send(ctx context.Context, event int) {
	body := fmt.Sprintf(`{"id":"evt_%d","type":"invoice.paid"}`, event)
	status := http.StatusBadGateway // as GitHub says it of a request without an answer
	if req, err := http.NewRequestWithContext(ctx, http.MethodPost, p.ingest, strings.NewReader(body)); err == nil {
		name, value := p.sign(body)
		req.Header.Set(name, value)
		req.Header.Set("X-GitHub-Event", "push")
		req.Header.Set("X-GitHub-Delivery", fmt.Sprint("guid-", event))
		if resp, err := http.DefaultClient.Do(req); err == nil {
			status = resp.StatusCode
			_ = resp.Body.Close()
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.attempts = append(p.attempts, attempt{event, status, time.Now()})
}

func (p *provider) ServeHTTP(rw http.ResponseWriter, r *http.Request) {
	if parts := strings.Split(r.URL.Path, "/"); r.Method == http.MethodPost && len(parts) > 2 {
		if id, err := strconv.Atoi(parts[len(parts)-2]); err == nil { // …/deliveries/{id}/attempts
			p.mu.Lock()
			event := p.attempts[id].event
			p.mu.Unlock()
			p.send(r.Context(), event)
			rw.WriteHeader(http.StatusAccepted)
			return
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	var failed, all []any
	until, _ := strconv.ParseInt(r.URL.Query().Get("created[lte]"), 10, 64)
	for i := len(p.attempts) - 1; i >= 0; i-- {
		a := p.attempts[i]
		all = append(all, object{"id": i, "guid": fmt.Sprint("guid-", a.event), "delivered_at": a.at, "status_code": a.status,
			"event": "push"})
		if a.status > 299 && a.at.Unix() <= until {
			failed = append(failed, object{"id": fmt.Sprint("evt_", a.event), "type": "invoice.paid", "created": a.at.Unix()})
		}
	}
	if r.URL.Path == "/v1/events" {
		_ = json.NewEncoder(rw).Encode(object{"object": "list", "data": failed, "has_more": false})
		return
	}
	_ = json.NewEncoder(rw).Encode(all)
}

// macOf is a MAC of GitHub and Stripe.
func macOf(secret, text string) string {
	mac := hmac.New(sha256.New, []byte(secret))
	mac.Write([]byte(text))
	return hex.EncodeToString(mac.Sum(nil))
}

// reconcile lets 10 of 13 events of Stripe and of GitHub fail while the relay is down, and counts what arrives
// afterwards.
func reconcile(ctx context.Context, w *world) error {
	const events, before = 13, 3
	const secret = "a secret of twenty letters"
	providers := map[string]*provider{
		"stripe": {sign: func(body string) (string, string) {
			now := fmt.Sprint(time.Now().Unix())
			return "Stripe-Signature", "t=" + now + ",v1=" + macOf(secret, now+"."+body)
		}},
		"github": {sign: func(body string) (string, string) {
			return "X-Hub-Signature-256", "sha256=" + macOf(secret, body)
		}},
	}
	for name, p := range providers {
		api := httptest.NewServer(p)
		defer api.Close()
		settings := object{"credential": "a-token", "api_url": api.URL, "every_seconds": 10}
		if name == "github" {
			settings["hook"] = "repos/example/shop/hooks/1"
		}
		made, err := w.call(ctx, "POST", "/v1/endpoints", object{"name": name, "provider": name, "reconcile": settings,
			"verification": object{"secret": secret}, "destinations": []object{{"url": w.receiver.URL + "/" + name}}})
		if err != nil {
			return err
		}
		p.ingest = made.Get("ingest_url").Str
		w.show("/v1/endpoints/" + made.Get("id").Str + "/reconciliation")
		for i := range before {
			p.send(ctx, i)
		}
	}
	w.stop()
	for _, p := range providers {
		for i := before; i < events; i++ {
			p.send(ctx, i)
		}
	}
	w.say("stopped it: of %d events of Stripe and as many of GitHub, %d each find nobody, and neither sends them again",
		events, events-before)
	if err := w.start(ctx); err != nil {
		return err
	}
	began := time.Now()
	count := func() (arrived, twice int) {
		w.mu.Lock()
		defer w.mu.Unlock()
		for _, times := range w.arrived {
			arrived, twice = arrived+1, twice+min(1, len(times)-1)
		}
		return arrived, twice
	}
	err := w.until(ctx, "all have arrived", func() bool { arrived, _ := count(); return arrived >= 2*events })
	arrived, twice := count()
	w.say("%.0f s after its start all %d have arrived, %d of them twice", time.Since(began).Seconds(), arrived, twice)
	if err == nil && (arrived != 2*events || twice > 0) {
		err = fmt.Errorf("%d events make %d deliveries, %d of them twice", 2*events, arrived, twice)
	}
	return err
}
