package events

import (
	"strings"
	"testing"
	"time"

	"github.com/eventrelay/relay/api/wire"
	"github.com/eventrelay/relay/pkg/web"
	"github.com/eventrelay/relay/test/is"
)

// A replay leaves earlier deliveries in the history.
func TestHistoryOfAReplayedEvent(t *testing.T) {
	received := time.Date(2026, 8, 21, 22, 20, 0, 0, time.UTC)
	made := func(seconds, number int, status string) *attemptData {
		at := received.Add(time.Duration(seconds) * time.Second)
		return &attemptData{Attempt: wire.Attempt{AttemptNumber: number, Status: status, StartedAt: web.Time(at)}}
	}
	ended := wire.Delivery{Status: "delivered"}
	e := &eventDetail{Deliveries: []*deliveryData{
		{Name: "orders", Delivery: ended, Made: []*attemptData{made(1, 1, "failed"), made(5, 2, "succeeded"),
			made(39, 1, "succeeded")}},
		{Name: "crm", Delivery: ended, Made: []*attemptData{made(2, 1, "succeeded")}},
	}}
	e.ReceivedAt, e.Verification, e.Status = web.Time(received), "verified", "delivered"
	var texts []string
	for _, s := range e.history(received.Add(time.Hour)) {
		texts = append(texts, s.Text)
	}
	want := "received, verified|crm delivered|orders delivered|orders delivered after a replay"
	is.Equal(t, strings.Join(texts, "|"), want)
}
