package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/eventrelay/relay/api/wire"
	"github.com/eventrelay/relay/pkg/id"
	"github.com/eventrelay/relay/test/must"
)

// faultFeatures uses what belongs to customers while the parts of a relay break. Two tenants send with their own keys:
// the first to an ordered destination, the second to one that a consumer pulls. An endpoint copies a topic of the
// customer's Kafka to another, and one asks a provider for what it did not deliver. Its goroutines are those of
// faultTools.
type faultFeatures struct {
	*brokenCluster
	customer        *kgo.Client // of another Kafka
	ordered, pulled *faultTenant
	looks, visits   int // rows and pages with events of the tenant, and none of the other one

	mu   sync.Mutex     // guards what follows, and what the tenants have sent
	next map[string]int // number of the next event of the ordered destination, by key
	// arrived has the events that were made of something, by its name: one, unless it was forgotten that it was stored.
	arrived map[string]map[string]bool
	again   int         // deliveries and leases of events that had arrived
	listed  []time.Time // when each of the provider's events failed
	records int         // produced
}

// faultTenant sends events to one destination.
type faultTenant struct {
	name, key, endpoint, path string // path of the destination
	sent                      []string
}

// startFeatures prepares the features, begins to use them, and breaks the customer's Kafka, too.
func startFeatures(b *brokenCluster) *faultFeatures {
	kafka := startEngine(b.t, "kafka")
	f := &faultFeatures{brokenCluster: b, next: map[string]int{}, arrived: map[string]map[string]bool{},
		customer: must.Get(kgo.NewClient(kgo.SeedBrokers(kafka.url), kgo.ConsumeTopics("copies")))(b.t)}
	b.t.Cleanup(f.customer.Close)
	must.Get(kadm.NewClient(f.customer).CreateTopics(b.t.Context(), 2, 1, nil, "orders", "copies"))(b.t)
	dest, p := newSink(b.t, f.receive), b.nodes[0]
	f.ordered = f.addTenant("ordered", map[string]any{"url": dest.URL + "/ordered",
		"ordering": map[string]any{"by": "body:$.data.key"}})
	f.pulled = f.addTenant("pulled", map[string]any{"pull": map[string]any{"lease_seconds": 5}})
	copies := map[string]any{"brokers": []string{kafka.url}, "plaintext": true, "topic": "copies"}
	orders := maps.Clone(copies)
	orders["topic"], orders["start"] = "orders", "earliest"
	p.must(http.StatusCreated, "POST", "/v1/endpoints", map[string]any{"source": map[string]any{"kafka": orders},
		"destinations": []any{map[string]any{"kafka": copies}}, "retry_policy": everySecond})
	api := httptest.NewServer(http.HandlerFunc(f.list))
	b.t.Cleanup(api.Close)
	p.endpoint(map[string]any{"provider": "stripe", "verification": map[string]any{"secret": "a secret of twenty letters"},
		"reconcile":    map[string]any{"credential": "rk_test_1", "api_url": api.URL, "every_seconds": 20},
		"destinations": []any{dest.URL + "/provided"}, "retry_policy": everySecond})
	b.tools.repeat(200*time.Millisecond, func(_ int, node *process) { f.send(f.ordered, node) })
	b.tools.repeat(200*time.Millisecond, func(_ int, node *process) { f.send(f.pulled, node) })
	b.tools.repeat(100*time.Millisecond, f.pull)
	b.tools.repeat(200*time.Millisecond, f.produce)
	b.tools.repeat(2*time.Second, f.fail)
	b.tools.repeat(time.Second, f.look)
	b.tools.repeat(5*time.Second, f.visit)
	b.faults.breakRepeatedly(b.seed, "customer", 3*time.Second, time.Second, processFaults(kafka, false)...)
	return f
}

var everySecond = map[string]any{"strategy": "linear", "interval_seconds": 1, "max_attempts": 50}

func (f *faultFeatures) addTenant(name string, destination map[string]any) *faultTenant {
	p := f.nodes[0]
	p.must(http.StatusOK, "PUT", "/v1/tenants/"+name, map[string]any{})
	key := p.must(http.StatusCreated, "POST", "/v1/tenants/"+name+"/keys",
		map[string]any{"name": "own", "scope": "read_write"})["key"].(string)
	made := p.withKey(key).must(http.StatusCreated, "POST", "/v1/endpoints",
		map[string]any{"destinations": []any{destination}, "retry_policy": everySecond})
	x := &faultTenant{name: name, key: key, endpoint: made["id"].(string)}
	x.path = "/v1/endpoints/" + x.endpoint + "/destinations/" +
		made["destinations"].([]any)[0].(map[string]any)["id"].(string)
	return x
}

// send sends the next event of a tenant. It is the same one until the relay has accepted it.
func (f *faultFeatures) send(x *faultTenant, node *process) {
	const keys = 4 // of the ordered destination
	n := len(f.events(x))
	status, e := node.withKey(x.key).try("POST", "/v1/endpoints/"+x.endpoint+"/events", map[string]any{
		"type": "order.paid", "data": map[string]any{"key": fmt.Sprint(n % keys), "n": n / keys}})
	if status == http.StatusAccepted {
		f.mu.Lock()
		defer f.mu.Unlock()
		x.sent = append(x.sent, e["id"].(string))
		f.add(e["id"].(string), "")
	}
}

// events returns what a tenant has sent.
func (f *faultFeatures) events(x *faultTenant) []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return x.sent
}

// add adds an event to those that have arrived, by what it was made of; "" if there must be one.
func (f *faultFeatures) add(name, event string) {
	if f.arrived[name] == nil {
		f.arrived[name] = map[string]bool{}
	}
	if f.arrived[name][event] {
		f.again++
	}
	if event != "" {
		f.arrived[name][event] = true
	}
}

// receive answers as the other destination does. The first time that each event of a key succeeds, it is in order.
func (f *faultFeatures) receive(r received) int {
	type content struct {
		Key string
		N   int
	}
	var body struct{ Data content }
	status := f.dest.answer(hit{})
	if err := json.Unmarshal(r.body, &body); err != nil || status != http.StatusOK {
		return status
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	n, key := body.Data.N, body.Data.Key
	switch next := f.next[key]; {
	case r.path == "/provided":
		f.add(fmt.Sprint(provided, n), r.event())
		return status
	case n > next:
		f.t.Errorf("event %d of key %s was delivered before event %d", n, key, next)
	case n == next:
		f.next[key]++
	}
	f.add(r.event(), r.event())
	return status
}

// pull leases events at one node and acknowledges them at the other.
func (f *faultFeatures) pull(turn int, node *process) {
	status, raw, _, err := node.withKey(f.pulled.key).request("GET", f.pulled.path+"/pull?consumer=worker&max=20&wait=1",
		nil)
	var answer wire.Pulled
	if err != nil || status != http.StatusOK || json.Unmarshal(raw, &answer) != nil || len(answer.Data) == 0 {
		return
	}
	var names []string
	f.mu.Lock()
	for _, e := range answer.Data {
		f.add(e.EventID, e.EventID)
		names = append(names, e.AttemptID)
	}
	f.mu.Unlock()
	f.nodes[(turn+1)%len(f.nodes)].withKey(f.pulled.key).try("POST", f.pulled.path+"/ack",
		map[string]any{"attempt_ids": names})
}

// produce produces the next record of the source. A record without an answer may be there, and is not produced again.
func (f *faultFeatures) produce(turn int, _ *process) {
	ctx, cancel := context.WithTimeout(f.t.Context(), 10*time.Second)
	defer cancel()
	record := &kgo.Record{Topic: "orders", Value: fmt.Appendf(nil, `{"n":%d}`, turn)}
	if f.customer.ProduceSync(ctx, record).FirstErr() == nil {
		f.mu.Lock()
		f.add(fmt.Sprint("record ", turn), "")
		f.records++
		f.mu.Unlock()
	}
}

// fail makes an event that the provider cannot deliver.
func (f *faultFeatures) fail(n int, _ *process) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.listed = append(f.listed, time.Now())
	f.add(fmt.Sprint(provided, n), "")
}

const provided = "provider's event "

// look reads events as each tenant in turn, and tries to reach the other one.
func (f *faultFeatures) look(turn int, node *process) {
	own, other := f.ordered, f.pulled
	if turn/len(f.nodes)%2 == 1 {
		own, other = other, own
	}
	c := node.withKey(own.key)
	if status, page := c.try("GET", "/v1/events?limit=20", nil); status == http.StatusOK {
		for _, row := range page["data"].([]any) {
			if e := row.(map[string]any); e["endpoint_id"] != own.endpoint {
				f.t.Errorf("tenant %s sees %v", own.name, e)
			}
			f.looks++
		}
	}
	events := f.events(other)
	if len(events) == 0 {
		return
	}
	for _, call := range []string{"GET /v1/events/" + events[len(events)-1], "POST /v1/events/" + events[0] + "/replay",
		"GET /v1/endpoints/" + other.endpoint, "GET " + other.path + "/pull?consumer=worker"} {
		method, path, _ := strings.Cut(call, " ")
		if status, answer := c.try(method, path, nil); !slices.Contains([]int{0, 404, 503}, status) {
			f.t.Errorf("tenant %s: %s: %d %v", own.name, call, status, answer)
		}
	}
}

// visit opens a portal link, looks at the pages, and ends the session.
func (f *faultFeatures) visit(turn int, node *process) {
	links := "/v1/tenants/" + f.ordered.name + "/portal_links"
	status, link := node.try("POST", links, map[string]any{})
	if status != http.StatusCreated {
		return
	}
	other, b := f.nodes[(turn+1)%len(f.nodes)], newBrowser(f.t, f.nodes[0].url)
	_, _, _ = b.send(other.client, http.MethodPost, strings.TrimPrefix(link["url"].(string), b.base), nil)
	shows := func(n *process, path string, events []string) bool {
		res, page, err := b.send(n.client, http.MethodGet, path, nil)
		return err == nil && res.StatusCode == http.StatusOK &&
			slices.ContainsFunc(events, func(event string) bool { return strings.Contains(page, event) })
	}
	foreign := append([]string{f.pulled.endpoint, f.pulled.name}, f.events(f.pulled)...)
	if shows(node, "/portal/events", f.events(f.ordered)) {
		f.visits++
	}
	for _, path := range []string{"/portal", "/portal/events", "/portal/events/" + foreign[len(foreign)-1]} {
		if shows(node, path, foreign) {
			f.t.Errorf("%s in the portal of %s shows something of %s", path, f.ordered.name, f.pulled.name)
		}
	}
	status, _ = other.try("DELETE", links+"/"+link["id"].(string), nil)
	for _, n := range f.nodes {
		if status == http.StatusOK && shows(n, "/portal/events", f.events(f.ordered)) {
			f.t.Errorf("a portal session that was ended at %s shows events at %s", other.url, n.url)
		}
	}
}

// missing consumes what has come to the customer's Kafka and the pulled destination, and says what has not arrived.
func (f *faultFeatures) missing() string {
	f.pull(0, f.nodes[0])
	ctx, cancel := context.WithTimeout(f.t.Context(), time.Second)
	defer cancel()
	records := f.customer.PollRecords(ctx, 1000).Records()
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, r := range records {
		var body struct{ N int }
		must.Do(f.t, json.Unmarshal(r.Value, &body))
		i := slices.IndexFunc(r.Headers, func(h kgo.RecordHeader) bool { return h.Key == "webhook-id" })
		f.add(fmt.Sprint("record ", body.N), string(r.Headers[i].Value))
	}
	var names []string
	for name, events := range f.arrived {
		if len(events) == 0 {
			names = append(names, name)
		}
	}
	if len(names) > 0 {
		return fmt.Sprintf("%d events have not arrived, such as %s", len(names), names[0])
	}
	return ""
}

// countCopies counts events that were made of the same thing. One that the provider listed must have an outage of the
// limiter, which knows what was stored, between it and the one before. A record is also stored again, by a node that
// begins to read, if the limiter does not answer within 50 ms, as on a busy machine.
func (f *faultFeatures) countCopies(limiter []outage) (n int) {
	const slack = 10 * time.Second // a key is marked as stored within six seconds
	for name, of := range f.arrived {
		events := slices.Sorted(maps.Keys(of))
		for i := 1; i < len(events); i++ {
			before, again := must.Get(id.Parse(id.Event, events[i-1]))(f.t), must.Get(id.Parse(id.Event, events[i]))(f.t)
			if n++; strings.HasPrefix(name, provided) && !slices.ContainsFunc(limiter, func(o outage) bool {
				return o.to.After(before.Time().Add(-slack)) && o.from.Before(again.Time().Add(slack))
			}) {
				f.t.Errorf("no outage of the limiter explains that a %s was stored as %v", name, events)
			}
		}
	}
	return n
}

// finish checks that everything has arrived, when no part is broken any more, and what the tenants see at the end. It
// returns figures. limiter are the outages of the limiter.
func (f *faultFeatures) finish(limiter []outage) (figures string) {
	f.t.Helper()
	eventually(f.t, 2*arrival, f.missing)
	for _, x := range []*faultTenant{f.ordered, f.pulled} {
		rows := f.nodes[0].withKey(x.key).list("", 100)
		own := slices.DeleteFunc(slices.Clone(rows), func(e map[string]any) bool { return e["endpoint_id"] != x.endpoint })
		if len(own) < len(x.sent) || len(own) < len(rows) {
			f.t.Errorf("tenant %s sent %d events and sees %d, %d of them its own", x.name, len(x.sent), len(rows), len(own))
		}
	}
	f.visit(0, f.nodes[0])
	if f.looks == 0 || f.visits == 0 {
		f.t.Errorf("%d rows, %d portals: the tenants have seen nothing", f.looks, f.visits)
	}
	return fmt.Sprintf("tenants sent %d events in order and %d to pull, saw %d rows and %d portals, none of another; "+
		"copied %d records; a provider listed %d events; all arrived, %d more copies; %d repeats",
		len(f.ordered.sent), len(f.pulled.sent), f.looks, f.visits, f.records, len(f.listed), f.countCopies(limiter), f.again)
}

// list lists the provider's events, newest first: https://docs.stripe.com/api/events/list.
func (f *faultFeatures) list(w http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	defer f.mu.Unlock()
	number := func(name string, unset int) int {
		if n, err := strconv.Atoi(strings.TrimPrefix(r.URL.Query().Get(name), "evt_")); err == nil {
			return n
		}
		return unset
	}
	data, n := []any{}, number("starting_after", len(f.listed))-1
	for ; n >= 0 && len(data) < number("limit", 1); n-- {
		if f.listed[n].Unix() <= int64(number("created[lte]", 0)) {
			data = append(data, map[string]any{"id": fmt.Sprint("evt_", n), "type": "invoice.paid",
				"data": map[string]any{"n": n}})
		}
	}
	_ = json.NewEncoder(w).Encode(map[string]any{"object": "list", "data": data, "has_more": n >= 0})
}
