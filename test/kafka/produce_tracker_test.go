package kafka

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/eventrelay/relay/test/is"
)

// An offset commit waits for earlier produce requests, not for later ones, and for at most answerTimeout.
func TestProduceTracker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := newProduceTracker()
		x.wait(nil) // no requests
		waiting := func(stop chan struct{}) chan time.Duration {
			took := make(chan time.Duration, 1)
			began := time.Now()
			go func() {
				x.wait(stop)
				took <- time.Since(began)
			}()
			synctest.Wait()
			return took
		}
		first, second := x.start(), x.start()
		took := waiting(nil)
		later := x.start()
		time.Sleep(time.Millisecond)
		x.finish(first)
		x.finish(first) // a closing connection may finish it again
		x.finish(nil)
		synctest.Wait()
		if len(took) > 0 {
			t.Fatal("a commit went on before a produce request was answered")
		}
		time.Sleep(time.Millisecond)
		x.finish(second)
		is.Equal(t, <-took, 2*time.Millisecond, "waited for")

		stop := make(chan struct{})
		took = waiting(stop)
		close(stop)
		is.Equal(t, <-took, 0, "a connection that closes waited for")
		took = waiting(nil)
		is.Equal(t, <-took, answerTimeout, "a request without an answer was waited for")
		x.finish(later)
		if d := <-waiting(nil); d != 0 || len(x.running) != 0 {
			t.Errorf("%d requests tracked, waited for %v", len(x.running), d)
		}
	})
}
