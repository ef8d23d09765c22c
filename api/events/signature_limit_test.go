package events

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/eventrelay/relay/api/frame"
	"github.com/eventrelay/relay/pkg/config"
	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/verify"
	"github.com/eventrelay/relay/pkg/web"
	"github.com/eventrelay/relay/test/is"
)

// A node explains two signatures at the same time. A further one waits for two seconds and is answered 503.
func TestExplanationsAreLimited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		finish, ended := make(chan struct{}), make(chan error)
		explain := func(*config.Endpoint, *event.Event) (*verify.Explanation, error) {
			<-finish
			return &verify.Explanation{}, nil
		}
		a := &signatures{turns: frame.NewTurns(maxExplanations, explanationWait),
			events: &events{area: &area{Deps: Deps{Explain: explain}}}}
		for range maxExplanations {
			go func() { _, err := a.explainSoon(t.Context(), nil, nil); ended <- err }()
		}
		synctest.Wait()
		began := time.Now()
		if _, err := a.explainSoon(t.Context(), nil, nil); web.FromError(err).Status != 503 ||
			time.Since(began) != explanationWait {
			t.Errorf("%v after %v", err, time.Since(began))
		}
		close(finish)
		for range maxExplanations {
			is.OK(t, <-ended)
		}
		if _, err := a.explainSoon(t.Context(), nil, nil); err != nil {
			t.Error(err)
		}
	})
}
