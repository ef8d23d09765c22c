package events

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/eventrelay/relay/api/frame"
	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/id"
	"github.com/eventrelay/relay/pkg/web"
	"github.com/eventrelay/relay/test/is"
)

// slowClient is a client that reads its response only when the test lets it.
type slowClient struct {
	*httptest.ResponseRecorder
	read chan struct{}
}

func (s slowClient) Write(b []byte) (int, error) {
	<-s.read
	return s.ResponseRecorder.Write(b)
}

// Large responses to slow clients use the whole budget. A further one waits and is refused, small ones are not, and
// a response that is smaller than its bound returns the difference.
func TestLargeAnswersAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAnswerLimiter()
		reads := make(chan struct{})
		large := strings.Repeat("x", largeAnswerBudget/4-100)
		ended := make(chan error)
		callers := 0 // each response is for another key
		serve := func(w http.ResponseWriter, most int, text string) error {
			callers++
			return a.write(event.WithCaller(t.Context(), fmt.Sprint(callers), ""), w, most, func() any { return text })
		}
		for range 4 {
			go func() { ended <- serve(slowClient{httptest.NewRecorder(), reads}, largeAnswerBudget/4, large) }()
			synctest.Wait()
		}
		began := time.Now()
		err := serve(httptest.NewRecorder(), largeAnswerBudget/8, "x")
		var refused *web.Error
		if !errors.As(err, &refused) || refused.Status != http.StatusServiceUnavailable || time.Since(began) != answerWait {
			t.Errorf("a further large answer: %v after %v", err, time.Since(began))
		}
		if err := serve(httptest.NewRecorder(), maxSmallAnswer, "x"); err != nil || time.Since(began) != answerWait {
			t.Errorf("a small answer: %v", err)
		}
		time.AfterFunc(time.Second, func() { reads <- struct{}{} })
		is.OK(t, serve(httptest.NewRecorder(), largeAnswerBudget/8, "x"), "an answer that gets room while it waits")
		close(reads)
		for range 4 {
			is.OK(t, <-ended)
		}
		for range 10 { // the bound of each is the whole budget
			reads := make(chan struct{})
			go func() {
				ended <- serve(slowClient{httptest.NewRecorder(), reads}, 10*largeAnswerBudget, strings.Repeat("x", maxSmallAnswer))
			}()
			defer func() { close(reads); <-ended }()
			synctest.Wait()
		}
		ctx, leave := context.WithCancel(t.Context())
		leave()
		if err := a.write(ctx, httptest.NewRecorder(), largeAnswerBudget, func() any { return nil }); !errors.Is(
			err, context.Canceled) {
			t.Errorf("for a client that has left: %v", err)
		}
	})
}

// Large responses that one key reads slowly hold its share and leave room for others.
func TestLargeAnswersOfAKeyAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAnswerLimiter()
		reads, ended := make(chan struct{}), make(chan error)
		serve := func(key string, w http.ResponseWriter, text string) error {
			return a.write(event.WithCaller(t.Context(), key, ""), w, answerShare, func() any { return text })
		}
		large := strings.Repeat("x", answerShare/4)
		for range 4 {
			go func() { ended <- serve("key_1", slowClient{httptest.NewRecorder(), reads}, large) }()
		}
		synctest.Wait()
		began := time.Now()
		var refused *web.Error
		if err := serve("key_1", httptest.NewRecorder(), "x"); !errors.As(err, &refused) ||
			refused.Status != http.StatusTooManyRequests || time.Since(began) != answerWait {
			t.Errorf("one more of the key: %v after %v", err, time.Since(began))
		}
		for range 10 {
			if err := serve("key_2", httptest.NewRecorder(), large); err != nil || time.Since(began) != answerWait {
				t.Errorf("of another key: %v after %v", err, time.Since(began))
			}
		}
		close(reads)
		for range 4 {
			is.OK(t, <-ended)
		}
		if len(a.shares.of) != 0 || !a.budget.TryAcquire(largeAnswerBudget) {
			t.Errorf("%d keys have a share, or some of the budget is held", len(a.shares.of))
		}
	})
}

// No response is larger than the bound it was counted with.
func TestAnswerSizeBoundHolds(t *testing.T) {
	a := &events{area: &area{Core: &frame.Core{Services: frame.Services{
		Config: oneEndpoint{}, Erasures: noErasures{}}}}}
	for _, text := range []string{"\x01", "<", "ü", "\xff", "\xff\xff\xff\xff", "\u2028", "\"", ""} {
		many := strings.Repeat(text, 50_000)
		d := &event.Detail{Event: &event.Event{
			Source: event.SourceAPI, Body: []byte(`{"data":` + many + `}`), Query: many, Header: make([]event.Field, 200)}}
		for i := range d.Event.Header {
			d.Event.Header[i] = event.Field{Name: strings.Repeat("n", i), Value: text}
		}
		row := event.AttemptRow{Attempt: event.Attempt{
			RequestHeader:  event.Lines(strings.Repeat("A: "+text+"\n", 200)),
			ResponseHeader: event.Lines("B: " + many + "\n"), Code: 200,
			ResponseBody: []byte(many), URL: many, ErrorMessage: many,
		}}
		for range 20 {
			d.Attempts = append(d.Attempts, row)
			d.Deliveries = append(d.Deliveries,
				event.Delivery{Destination: "dst_01jd0000000000000000000000", Run: "run_01jd0000000000000000000000"})
		}
		v := a.detailOf(frame.Viewer{Capabilities: true}, d, nil)
		v.Data = nil // invalid JSON cannot be encoded; data is counted with the size of the body
		if got, most := len(web.Encode(v))+len(d.Event.Body), detailBytes(d); got > most {
			t.Errorf("%q: an event of %d bytes is counted for %d", text, got, most)
		}
		if got, most := len(web.Encode(attemptsOf(frame.Viewer{Capabilities: true}, d.ID, d.Attempts))),
			attemptBytes(d.Attempts); got > most {
			t.Errorf("%q: attempts of %d bytes are counted for %d", text, got, most)
		}
	}
}

// No page of a list is larger than the bound it was counted with.
func TestRowSizeBoundHolds(t *testing.T) {
	a := &events{area: &area{Core: &frame.Core{Services: frame.Services{Erasures: noErasures{}}}}}
	at := time.Date(2026, 8, 21, 0, 0, 0, 0, time.UTC)
	for _, text := range []string{"\x01", "<", "ü", "\xff", ""} {
		rows := make([]event.Summary, 100)
		for i := range rows {
			rows[i] = event.Summary{
				ID: id.Lowest(at), Type: strings.Repeat(text, 128), Endpoint: "ep_01jd0000000000000000000000",
				Status: event.Skipped, Reason: event.DeliveryLoop, Source: event.SourceProvider, Proof: "unverified",
				Counts: event.Counts{Total: 1e6, Delivered: 1e6, Failed: 1e6, Pending: 1e6}, Processing: event.ProcessingRunning,
				Size: 1e9, Attempts: 1e9, LastAttemptAt: at, NextAttemptAt: at,
				Deliveries: slices.Repeat([]event.Delivery{{
					Destination: "dst_01jd0000000000000000000000", Status: event.Delivered, Reason: event.TimestampTolerance}}, i),
			}
		}
		for n := range rows {
			if got, most := len(web.Encode(a.rowsOf(rows[:n+1]))), rowBytes(rows[:n+1]); got > most {
				t.Errorf("%q: %d rows of %d bytes are counted for %d", text, n+1, got, most)
			}
		}
	}
}

// noErasures reports that no payload was erased.
type noErasures struct{ frame.Erasures }

func (noErasures) ErasedAt(id.ID) time.Time { return time.Time{} }
