package conflog

import (
	"testing"
	"time"

	"github.com/eventrelay/relay/pkg/stream"
	"github.com/eventrelay/relay/test/is"
	"github.com/eventrelay/relay/test/must"
)

// TestMessages: a message reaches the other nodes and not its sender. A forged one reaches nobody.
func TestMessages(t *testing.T) {
	bubble(t, func(t *testing.T, conf stream.Config) {
		a, b := pair(t, conf, conf)
		atA, atB := make(chan string, 9), make(chan string, 9)
		a.Messages.Handle(func(m []byte) { atA <- string(m) })
		b.Messages.Handle(func(m []byte) { atB <- string(m) })
		_, stranger := (authenticator{offlineLog(t)}).newSecret()
		forged := mustJSON(t, message{Boot: "boot_c", Message: []byte("forged")})
		putRecord(t, conf, stream.Nodes, &stream.Record{Value: forged})
		putRecord(t, conf, stream.Nodes, stranger.sign(macHeartbeat, &stream.Record{Value: forged}))
		for _, m := range []string{"one", "two"} {
			must.Do(t, a.Messages.Send(t.Context(), []byte(m)))
		}
		if one, two := <-atB, <-atB; one != "one" || two != "two" {
			t.Errorf("node b got %q and %q", one, two)
		}
		must.Do(t, b.Messages.Send(t.Context(), []byte("three")))
		is.Equal(t, <-atA, "three", "node a got")
		time.Sleep(2 * time.Second)
		if len(atA)+len(atB) > 0 || len(a.Nodes()) != 2 {
			t.Errorf("%d and %d more messages, nodes %+v", len(atA), len(atB), a.Nodes())
		}
	})
}
