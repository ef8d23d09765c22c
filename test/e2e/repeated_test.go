package e2e

import (
	"net/http"
	"testing"
	"time"
)

// What outages explain of requests that came for one event, each at its second.
func TestRepeated(t *testing.T) {
	began := time.Now()
	at := func(second float64) time.Time { return began.Add(time.Duration(second * float64(time.Second))) }
	request := func(second float64, attempt int) hit {
		return hit{posted: began, at: at(second), attempt: attempt, status: http.StatusOK}
	}
	killed, cut := outage{from: at(1), to: at(13)}, outage{from: at(1), to: at(13), cut: true}
	for _, c := range []struct {
		what string
		o    outage
		hits []hit
		want int
	}{
		{"again after the outage", killed, []hit{request(0.8, 1), request(8, 1)}, 1},
		{"again without it", killed, []hit{request(0.2, 1), request(0.8, 1)}, 0},
		{"goes on after an answer that was given", killed, []hit{request(0.8, 1), request(8, 1), request(16, 2)}, 1},
		{"goes on after an answer that was not heard", cut, []hit{request(0.8, 1), request(8, 1), request(16, 2)}, 2},
		{"goes on after one from long before", cut, []hit{request(0.1, 1), request(16, 2)}, 0},
		{"goes on after one from afterwards", cut, []hit{request(14, 1), request(16, 2)}, 0},
	} {
		if got := repeated(c.hits, []outage{c.o}); got != c.want {
			t.Errorf("%s: %d repeats are explained, want %d", c.what, got, c.want)
		}
	}
}
