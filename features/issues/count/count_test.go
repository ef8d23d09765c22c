package count

import (
	"context"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/eventrelay/relay/pkg/config"
	"github.com/eventrelay/relay/pkg/config/alerting"
	"github.com/eventrelay/relay/pkg/config/entity"
	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/id"
	"github.com/eventrelay/relay/test/must"
)

// fakeIssues are issues in memory.
type fakeIssues map[string]*alerting.Issue

func (m fakeIssues) Issue(id string) *alerting.Issue { return m[id] }

func (m fakeIssues) Issues(keep func(*alerting.Issue) bool) (all []*alerting.Issue) {
	for _, x := range m {
		if keep(x) {
			all = append(all, x)
		}
	}
	return all
}

func (m fakeIssues) ChangeIssue(_ context.Context, id string, alter func(*alerting.Issue) error) error {
	x := m[id]
	if x == nil {
		x = &alerting.Issue{}
		x.ID = id
	}
	changed := *x
	m[id] = &changed
	return alter(&changed)
}

// Endpoint returns the one endpoint, with one destination.
func (m fakeIssues) Endpoint(name string) (*config.Endpoint, entity.Presence) {
	return &config.Endpoint{ID: name, Destinations: []config.Destination{{ID: testDest}}}, entity.Present
}

const (
	testEndpoint = "ep_1"
	testDest     = "dst_1"
)

// rig is the counter of one owner of a partition, and what it has read.
type rig struct {
	*Counter
	t         *testing.T
	ids       *id.Generator
	offset    int64
	succeeded time.Time // when the destination has last worked
}

func newRig(t *testing.T, in fakeIssues) *rig {
	return &rig{Counter: New(in, slog.New(slog.DiscardHandler), time.Now, 0), t: t, ids: id.NewGenerator(nil)}
}

// failWith counts a failed request with a status, or the error code of one without an answer.
func (r *rig) failWith(status event.Status, code int, errorCode event.ErrorCode) id.ID {
	r.t.Helper()
	e := r.ids.NewUnbounded(0)
	o := &event.Outcome{Event: e, Account: "acc_1", Endpoint: testEndpoint, Dest: testDest, Status: status,
		Code: code, At: time.Now(), Attempt: &event.Attempt{ID: r.ids.NewUnbounded(0), StartedAt: time.Now(),
			Trigger: event.TriggerInitial, ErrorCode: errorCode}}
	head := must.Get(event.DecodeOutcomeHead(o.Record()))(r.t)
	r.Count(&head, testEndpoint, r.offset)
	r.offset++
	return e
}

// advance lets time pass, and writes every second.
func (r *rig) advance(d time.Duration) {
	for end := time.Now().Add(d); time.Now().Before(end); {
		time.Sleep(time.Second)
		r.Write(r.t.Context(), r.offset, func(string) time.Time { return r.succeeded })
	}
}

// Failures with one cause are one issue: it counts them once, opens again, and survives the owner of the partition.
func TestFailuresAreIssues(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := fakeIssues{}
		r := newRig(t, all)
		of := func(cause string) *alerting.Issue { return all[issueID(testDest, cause)] }
		for range issueFailures - 1 {
			r.failWith(event.Retrying, 503, "http_status")
		}
		r.advance(2 * time.Second)
		must.Equal(t, len(all), 0, "some failed requests are an issue: %v", all)
		newest := r.failWith(event.Retrying, 503, "http_status")
		r.failWith(event.Failed, 0, "timeout")
		r.advance(2 * time.Second)
		if x := of("http_503"); x == nil || x.Count != issueFailures || x.Status != alerting.IssueOpen ||
			x.Events[0] != newest.Text(id.Event) || x.Endpoint != testEndpoint || len(all) != 2 {
			t.Fatalf("%+v", all)
		}
		if x := of("timeout"); x == nil || x.Count != 1 {
			t.Errorf("a delivery that failed for good: %+v", x)
		}

		// What is written once a minute is counted once, also by the next owner, who reads the log again.
		for range 3 {
			r.failWith(event.Retrying, 503, "http_status")
		}
		r.advance(10 * time.Second)
		if x := of("http_503"); x.Count != issueFailures {
			t.Errorf("written within a minute: %+v", x)
		}
		again := newRig(t, all)
		for again.offset = 0; again.offset < issueFailures+1; { // counted before
			again.failWith(event.Retrying, 503, "http_status")
		}
		for range 3 {
			again.failWith(event.Retrying, 503, "http_status")
		}
		again.advance(2 * time.Second)
		if x := of("http_503"); x.Count != issueFailures+3 {
			t.Errorf("of another owner: %+v", x)
		}

		// A resolved issue opens again with the next failure, and is resolved when the destination works.
		x := of("http_503")
		x.SetStatus(alerting.IssueResolved, time.Now())
		again.advance(2 * issueEvery)
		again.failWith(event.Retrying, 503, "http_status")
		again.advance(2 * time.Second)
		if x = of("http_503"); x.Status != alerting.IssueOpen || x.Reopened != 1 {
			t.Errorf("failed again: %+v", x)
		}

		// It says when the destination works again, unless it fails beside that.
		again.succeeded = time.Now()
		again.advance(10 * time.Second)
		must.Equal(t, of("http_503").WorksAt.IsZero(), true, "a success ten seconds after a failure is its end")
		again.advance(10 * time.Second)
		must.Equal(t, of("http_503").WorksAt.Equal(again.succeeded), true, "the destination works again: %+v", of("http_503"))
		again.failWith(event.Retrying, 503, "http_status")
		again.advance(issueEvery)
		must.Equal(t, of("http_503").WorksAt.IsZero(), true, "it has failed again")
		again.advance(issueQuiet)
		again.succeeded = time.Now()
		again.advance(2 * issueEvery)
		if x = of("http_503"); x.Status != alerting.IssueResolved || x.ResolvedAt.IsZero() {
			t.Errorf("after a success: %+v", x)
		}
	})
}

// A receiver that answers with many statuses makes a bounded number of issues; the rest is one.
func TestCausesOfADestinationAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := fakeIssues{}
		fail := func(r *rig, codes ...int) {
			for _, code := range codes {
				r.failWith(event.Failed, code, "http_status")
			}
			r.advance(2 * time.Second)
		}
		for code := range 100 {
			fail(newRig(t, all), 400+code) // each owner finds what there is
		}
		r := newRig(t, all)
		fail(r, 600, 601, 400)
		if other := all[issueID(testDest, otherCause)]; len(all) != maxCauses+1 || other == nil || other.Count < 2 {
			t.Errorf("%d issues, others %+v", len(all), other)
		}

		// When there are fewer issues, there is room for another cause.
		for name := range all {
			delete(all, name)
		}
		r.advance(2 * issueQuiet)
		fail(r, 700)
		if all[issueID(testDest, "http_700")] == nil {
			t.Errorf("after the issues ended: %v", all)
		}
	})
}
