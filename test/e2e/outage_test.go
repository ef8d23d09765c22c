package e2e

import (
	"github.com/eventrelay/relay/test/is"
	"net/http"
	"testing"
	"time"
)

// Outages explain repeated requests for an event, depending on when each request arrived. Times are in seconds.
func TestOutagesExplainRepeats(t *testing.T) {
	began := time.Now()
	at := func(second float64) time.Time { return began.Add(time.Duration(second * float64(time.Second))) }
	request := func(second float64, attempt int) hit {
		return hit{posted: began, at: at(second), attempt: attempt, status: http.StatusOK}
	}
	killed, cut := outage{from: at(1), to: at(13)}, outage{from: at(1), to: at(13), linkCut: true}
	for _, c := range []struct {
		what string
		o    outage
		hits []hit
		want int
	}{
		{"repeated after the outage", killed, []hit{request(0.8, 1), request(8, 1)}, 1},
		{"repeated without an outage", killed, []hit{request(0.2, 1), request(0.8, 1)}, 0},
		{"continues after an answer that arrived", killed, []hit{request(0.8, 1), request(8, 1), request(16, 2)}, 1},
		{"continues after an answer that was lost", cut, []hit{request(0.8, 1), request(8, 1), request(16, 2)}, 2},
		{"continues after an answer from long before the outage", cut, []hit{request(0.1, 1), request(16, 2)}, 0},
		{"continues after an answer from after the outage", cut, []hit{request(14, 1), request(16, 2)}, 0},
	} {
		is.Equal(t, countExplained(c.hits, []outage{c.o}), c.want, "%s: repeats are explained", c.what)
	}
}
