package sim

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/eventrelay/relay/api/jobs"
	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/id"
	"github.com/eventrelay/relay/pkg/stream"
)

// Recovery jobs deliver again what has failed for good. The store models their items, as it models events.

// item is a delivery that a job has selected.
type item struct {
	delivery
	skip event.Reason
}

// recoveryStore is the store of recovery jobs for a process.
type recoveryStore struct {
	jobs.RecoveryReader // nil: no client lists items
	s                   *storeModel
	l                   *life
}

// CaughtUp implements recovery.Store.
func (r recoveryStore) CaughtUp(ctx context.Context) error {
	for _, topic := range storedTopics {
		for i := range r.s.w.partitions {
			if err := r.s.fence(ctx, r.l, stream.Partition{Topic: topic, Index: i}); err != nil {
				return err
			}
		}
	}
	return nil
}

// SelectRecovery implements recovery.Store.
func (r recoveryStore) SelectRecovery(ctx context.Context, q event.Selection, name string) (
	totals event.SelectionTotals, err error) {
	if err := r.CaughtUp(ctx); err != nil {
		return totals, err
	}
	r.s.mu.Lock()
	defer r.s.mu.Unlock()
	var items []item
	for _, g := range q.Groups {
		for _, d := range r.s.failed(q.Endpoint, q.Since, q.Until) {
			if slices.Contains(g.Dests, d.dest) == g.Except || r.l.control.Erased(d.event) {
				continue
			}
			items = append(items, item{d, g.SkipReason})
			totals.Total++
			if g.SkipReason == "" {
				totals.Sendable++
			}
			at := slices.IndexFunc(totals.Destinations, func(x event.DestinationTotals) bool { return x.ID == d.dest })
			if at < 0 {
				at = len(totals.Destinations)
				totals.Destinations = append(totals.Destinations, event.DestinationTotals{ID: d.dest})
			}
			totals.Destinations[at].Total++
			if g.SkipReason == "" {
				totals.Destinations[at].Sendable++
			}
		}
	}
	r.s.items[name] = items
	return totals, nil
}

// failed are the failed deliveries of an endpoint, of events of a time. A caller holds mu.
func (s *storeModel) failed(endpoint string, since, until time.Time) (all []delivery) {
	for e, stored := range s.events {
		if at := e.Time(); stored.Endpoint != endpoint || at.Before(since) || !at.Before(until) {
			continue
		}
		for _, dest := range stored.Dests {
			if x, ok := s.latest[delivery{e, dest}]; ok && x.outcome.Status == event.Failed {
				all = append(all, delivery{e, dest})
			}
		}
	}
	slices.SortFunc(all, func(a, b delivery) int { return a.event.Compare(b.event) })
	return all
}

// RecoveryCounts implements recovery.Store and jobs.RecoveryReader.
func (r recoveryStore) RecoveryCounts(ctx context.Context, _ string, names ...string) (
	map[string]event.RecoveryCounts, time.Time, error) {
	if err := r.CaughtUp(ctx); err != nil {
		return nil, time.Time{}, err
	}
	r.s.mu.Lock()
	defer r.s.mu.Unlock()
	counts := make(map[string]event.RecoveryCounts)
	for c, x := range r.s.ofRuns {
		if slices.Contains(names, c.run) {
			n := counts[c.run]
			if x.outcome != nil {
				n.Add(x.outcome.Status, x.outcome.SkipReason, 1)
			}
			counts[c.run] = n
		}
	}
	return counts, time.Time{}, nil
}

// RecoveryFailures implements recovery.Store and jobs.RecoveryReader.
func (r recoveryStore) RecoveryFailures(_ context.Context, _, job string) (map[string]event.RecoveryFailures, error) {
	r.s.mu.Lock()
	defer r.s.mu.Unlock()
	all := make(map[string]event.RecoveryFailures)
	for c, x := range r.s.ofRuns {
		if c.run == job && x.outcome != nil && event.ItemState(x.outcome.Status, x.outcome.SkipReason) == event.Failed {
			all[c.dest] = event.RecoveryFailures{Failed: all[c.dest].Failed + 1, TopError: "an error"}
		}
	}
	return all, nil
}

// OpenRecoveryItems implements recovery.Store.
func (r recoveryStore) OpenRecoveryItems(_ context.Context, job event.RecoveryJob, from, to int,
	each func(*event.OpenRecoveryItem) error) error {
	r.s.mu.Lock()
	var open []*event.OpenRecoveryItem
	for i, x := range r.s.items[job.Selection] {
		if _, known := r.s.ofRuns[chain{x.delivery, job.ID}]; i < from || i >= to || known || x.skip != "" {
			continue
		}
		o := &event.OpenRecoveryItem{RecoveryItem: event.RecoveryItem{Seq: i, Event: x.event, Destination: x.dest}}
		if !r.l.control.Erased(x.event) {
			o.StoredEvent = r.s.events[x.event]
		}
		if last := r.s.latest[x.delivery].outcome; last != nil {
			o.Prior = event.Delivery{Destination: x.dest, Status: last.Status, Reason: last.Reason, Code: last.Code,
				LastAt: last.At}
		}
		open = append(open, o)
	}
	r.s.mu.Unlock()
	for _, o := range open {
		if err := each(o); err != nil {
			return err
		}
	}
	return nil
}

// Submit implements recovery.Submitter.
func (c commander) Submit(ctx context.Context, works []*event.Work, outcomes []*event.Outcome) error {
	if _, err := c.Commands(ctx, works); err != nil {
		return err
	}
	for _, o := range outcomes {
		if err := c.producer.ProduceSync(ctx, stream.Outcomes, o.Event.Partition(), o.Record()); err != nil {
			return err
		}
	}
	return nil
}

// job is a recovery job as clients see it.
type job struct {
	ID        string `json:"id"`
	State     string `json:"state"`
	Total     int    `json:"total"`
	Pending   int    `json:"pending"`
	Queued    int    `json:"queued"`
	Delivered int    `json:"delivered"`
	Failed    int    `json:"failed"`
	Skipped   int    `json:"skipped"`
}

func (j job) ended() bool {
	return slices.Contains([]string{"completed", "stopped", "cancelled", "expired", "failed"}, j.State)
}

// recoveries runs recovery jobs of an endpoint until ctx ends.
func (w *World) recoveries(ctx context.Context, ep *endpoint) {
	for i := 0; ; i++ {
		select {
		case <-time.After(w.between(10*time.Second, time.Minute)):
			w.recover(ep, fmt.Sprint("job-", i))
		case <-ctx.Done():
			return
		}
	}
}

// recover runs a recovery job to its end.
func (w *World) recover(ep *endpoint, key string) {
	asked, t := time.Now(), ep.targets[0]
	w.store.mu.Lock()
	failed := w.store.failed(ep.id, asked.Add(-20*time.Minute), asked)
	w.store.mu.Unlock()
	w.oracle.jobBegins(t)
	at := "/v1/recoveries"
	j := w.job("POST", at, key, map[string]any{"endpoint_id": ep.id, "since": asked.Add(-30 * time.Minute),
		"rate_per_second": 50})
	at += "/" + j.ID
	await := func(state string) {
		for try := 0; try < 600 && !j.ended() && j.State != state; try++ {
			time.Sleep(time.Second)
			j = w.job("GET", at, "", nil)
		}
	}
	if await("ready"); j.State == "ready" {
		j = w.job("POST", at, key+"-canary", map[string]any{"action": "canary"})
	}
	if await("awaiting_approval"); j.State == "awaiting_approval" {
		time.Sleep(w.between(0, 5*time.Second))
		w.oracle.jobSent(t, 5)
		j = w.job("POST", at, key+"-continue", map[string]any{"action": "continue"})
	}
	if await(""); !j.ended() {
		w.oracle.unexpected("the job %s is still %s", j.ID, j.State)
	}
	w.trace("%s has ended: %+v", key, j)
	if j.State == "completed" {
		w.oracle.jobCompleted(t, failed)
	}
}

// job makes a call about a recovery job until a node answers it.
func (w *World) job(method, path, key string, body any) (j job) {
	for try := 0; ; try++ {
		code, raw, err := w.call(context.Background(), method, path, key, body)
		switch {
		case err == nil && code < 300:
			if err := json.Unmarshal(raw, &j); err != nil {
				panic(err)
			}
			if n := j.Pending + j.Queued + j.Delivered + j.Failed + j.Skipped; n != j.Total {
				w.oracle.unexpected("the counts of the job %+v have the sum %d", j, n)
			}
			return j
		case err == nil && code == http.StatusBadRequest && method == "POST" && path != "/v1/recoveries":
			method, key, body = "GET", "", nil // it has ended meanwhile
		case err == nil && code < 500 && code != http.StatusTooManyRequests && code != http.StatusConflict &&
			code != http.StatusNotFound:
			panic(fmt.Sprintf("recovery job: %s %s: %d %s", method, path, code, raw))
		case try == 400:
			panic(fmt.Sprintf("recovery job: %s %s is not answered: %d %s, %v", method, path, code, raw, err))
		}
		time.Sleep(w.between(200*time.Millisecond, 2*time.Second))
	}
}

// jobBegins forgets what earlier jobs have sent to a destination.
func (o *oracle) jobBegins(t *target) {
	o.mu.Lock()
	defer o.mu.Unlock()
	t.byJob = make(map[string]int)
}

// jobSent checks that a job has sent no more than so many events.
func (o *oracle) jobSent(t *target, most int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if n := len(t.byJob); n > most {
		o.breach("a job has sent %d events to %s before it may", n, t.host)
	}
}

// jobCompleted checks that a job has sent what had failed.
func (o *oracle) jobCompleted(t *target, failed []delivery) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, d := range failed {
		e := d.event.Text(id.Event)
		if _, erased := o.erased[e]; !erased && d.dest == t.id && t.byJob[e] == 0 && o.accepts(e, t.host) == 0 {
			o.breach("a job has completed, but not sent %s to %s", e, t.host)
		}
	}
}
