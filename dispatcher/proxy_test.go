package dispatcher

import (
	"net/http"
	"testing"
	"time"

	"github.com/eventrelay/relay/pkg/egress"
	"github.com/eventrelay/relay/pkg/event"
)

// roundTripper is a transport made of a function.
type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// While the operator's proxy is down, deliveries wait: no attempt is recorded, and none of their attempts is used.
func TestProxyFaultsAreNoAttempts(t *testing.T) {
	bubble(t, 1, func(t *testing.T, w *bubbleWorld) {
		url, _ := w.serve(80, &sink{answer: func(n int, _ received) int {
			return map[bool]int{true: 503, false: 200}[n == 1]
		}})
		began, direct := time.Now(), w.rt
		w.rt = roundTripper(func(r *http.Request) (*http.Response, error) {
			if time.Since(began) < time.Hour {
				return nil, &egress.ProxyError{}
			}
			return direct.RoundTrip(r)
		})
		endpoint := w.endpoint(url)
		endpoint.RetryPolicy.MaxAttempts = 2
		w.view.put(endpoint)
		w.start(testConfig())
		w.accept(w.newEvent(`{}`))
		outcomes := w.outcomes(count(1, event.Delivered))
		var attempts int
		for _, outcome := range outcomes {
			if outcome.Attempt != nil {
				attempts++
			}
		}
		if attempts != 2 || time.Since(began) < time.Hour || outcomes[0].Status != event.Pending {
			t.Errorf("%d attempts after %v: %q", attempts, time.Since(began), statuses(outcomes))
		}
	})
}
