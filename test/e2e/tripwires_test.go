package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/eventrelay/relay/pkg/apikey"
	"github.com/eventrelay/relay/test/is"
)

// plantedTripwire is a tripwire with its secrets.
type plantedTripwire struct{ id, kind, key, url string }

// plantTripwires creates a tripwire of each kind and puts all their secrets on a page that a scan reads.
func (p *process) plantTripwires(site *website, domain string) (all []plantedTripwire) {
	p.t.Helper()
	page := "<!doctype html><html>" + leakOf(9)
	for _, kind := range []string{"key", "url", "file"} {
		made := p.must(http.StatusCreated, "POST", "/v1/tripwires", map[string]any{"domain_id": domain, "kind": kind,
			"label": "decoy " + kind, "placement": "on the page /named"})
		x := plantedTripwire{id: made["id"].(string), kind: kind}
		if token := made["token"].(string); apikey.HasFormat(token) {
			x.key = token
		}
		x.url, _ = made["url"].(string)
		page += fmt.Sprintf("<!-- %s %s -->", x.key, x.url)
		all = append(all, x)
	}
	site.text("shop/named", page)
	return all
}

// touch sends two requests with the secrets of a tripwire, of which a file has two. They are answered as those of a
// wrong key and of a new endpoint. It returns the ids of the events that the answers promise.
func (p *process) touch(x plantedTripwire) []string {
	p.t.Helper()
	var answers []int
	var uses []string
	if x.key != "" {
		bearer := map[string]string{"Authorization": "Bearer " + x.key}
		answers = append(answers, p.post(p.url+"/v1/endpoints", bearer, []byte("{}")).StatusCode)
		if x.kind == "key" {
			answers = append(answers, p.post(p.url+"/mcp", bearer, []byte("{}")).StatusCode)
		}
	}
	if x.url != "" {
		answer := p.post(x.url, nil, []byte(`{"type":"ping"}`))
		answers, uses = append(answers, answer.StatusCode), append(uses, answer.Header.Get("Relay-Event-Id"))
		if x.kind == "url" {
			answers = append(answers, p.post(x.url+"/info/refs", nil, nil).StatusCode)
		}
	}
	want := map[string]string{"key": "[401 401]", "url": "[200 404]", "file": "[401 200]"}[x.kind]
	is.Equal(p.t, fmt.Sprint(answers), want, "%s: the requests are answered %v", x.kind, answers)
	return uses
}

// trippedAlerts keeps the alerts about tripwires: when the first arrived, and the ids by which a receiver recognises
// repeats.
type trippedAlerts struct {
	mu  sync.Mutex // guards what follows
	at  map[string]time.Time
	ids map[string]map[string]bool
}

func (b *trippedAlerts) receive(r received) int {
	var body struct {
		ID, Type string
		Data     struct {
			TripwireID string `json:"tripwire_id"`
		}
	}
	if json.Unmarshal(r.body, &body) == nil && body.Type == "alert.tripwire.tripped" {
		b.mu.Lock()
		defer b.mu.Unlock()
		name := body.Data.TripwireID
		if b.ids[name] == nil {
			b.at[name], b.ids[name] = r.at, map[string]bool{}
		}
		b.ids[name][body.ID] = true
	}
	return http.StatusOK
}

// touchTripwires touches each tripwire twice. Each gets a finding and one alert; docs/design/tripwires.md says within
// 5 s, which is measured here.
func (p *process) touchTripwires(t *testing.T, all []plantedTripwire) {
	inbox := &trippedAlerts{at: map[string]time.Time{}, ids: map[string]map[string]bool{}}
	channel := newSink(t, inbox.receive)
	p.must(http.StatusOK, "PATCH", "/v1/alerts", map[string]any{"webhook_url": channel.URL + "/hook"})
	if list := p.must(http.StatusOK, "GET", "/v1/findings?kind=tripwire", nil)["data"].([]any); len(list) != 0 {
		t.Errorf("tripwires that stand where they were planted have findings: %v", list)
	}
	usage := p.must(http.StatusOK, "GET", "/v1/usage", nil)["events"]
	var figures, uses []string
	for _, x := range all {
		begin := time.Now()
		uses = append(uses, p.touch(x)...)
		var finding map[string]any
		var found, told time.Duration
		eventually(t, arrival, func() string {
			made := p.must(http.StatusOK, "GET", "/v1/tripwires/"+x.id, nil)
			name, _ := made["finding_id"].(string)
			if name == "" {
				return fmt.Sprintf("%s has no finding", x.kind)
			}
			if found == 0 {
				found = time.Since(begin)
			}
			inbox.mu.Lock()
			defer inbox.mu.Unlock()
			if inbox.at[x.id].IsZero() || made["trip_count"] != 2.0 {
				return fmt.Sprintf("%s: %v uses, alert at %v", x.kind, made["trip_count"], inbox.at[x.id])
			}
			told = inbox.at[x.id].Sub(begin)
			finding = p.must(http.StatusOK, "GET", "/v1/findings/"+name, nil)
			if made["status"] != "tripped" || len(inbox.ids[x.id]) != 1 || finding["kind"] != "tripwire" ||
				finding["severity"] != "critical" || finding["occurrences"] != 2.0 {
				t.Errorf("%v: %d alerts\n%v", made, len(inbox.ids[x.id]), finding)
			}
			return ""
		})
		figures = append(figures, fmt.Sprintf("%s: finding after %v, alert after %v", x.kind,
			found.Round(time.Millisecond), told.Round(time.Millisecond)))
	}
	if list := p.must(http.StatusOK, "GET", "/v1/findings?kind=tripwire", nil)["data"].([]any); len(list) != len(all) {
		t.Errorf("%d findings of %d tripwires", len(list), len(all))
	}
	for _, name := range uses {
		p.must(http.StatusNotFound, "GET", "/v1/events/"+name, nil)
	}
	if list := p.must(http.StatusOK, "GET", "/v1/events", nil)["data"].([]any); len(list) != 0 || len(uses) != 2 {
		t.Errorf("%d events are listed after %d uses", len(list), len(uses))
	}
	if after := p.must(http.StatusOK, "GET", "/v1/usage", nil)["events"]; fmt.Sprint(after) != fmt.Sprint(usage) {
		t.Errorf("usage was %v, and is %v", usage, after)
	}
	t.Log(strings.Join(figures, "; "))
}
