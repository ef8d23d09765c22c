package conflog

import (
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/eventrelay/relay/pkg/stream"
	"github.com/eventrelay/relay/test/is"
)

// A node without permission to read the configuration log keeps its state, logs the error, and continues when it has
// the permission again.
func TestFollowContinuesAfterAuthorizationError(t *testing.T) {
	bubbleCluster(t, func(t *testing.T, cluster *kfake.Cluster, conf stream.Config) {
		n := node(t, conf, Config{Node: "a"})
		first := n.create(t)
		for _, topic := range []string{stream.Control, stream.Nodes} {
			cluster.Fault(kfake.Fault{
				Keys: []kmsg.Key{kmsg.Fetch}, Topic: "relay." + topic, Err: kerr.TopicAuthorizationFailed, Count: 3})
		}
		time.Sleep(20 * time.Second) // until both have read again
		for _, topic := range []string{stream.Control, stream.Nodes} {
			is.Has(t, n.log.String(), "topic="+topic+" error=", "the refusal of %s was not logged", topic)
		}
		if log := n.log.String(); strings.Count(log, "cannot read the topic") < 2 {
			t.Fatalf("the refusals were not logged:\n%s", log)
		}
		second := n.create(t) // returns when the node has read it
		for _, e := range []*Thing{first, second} {
			if n.get(e.ID) == nil {
				t.Errorf("endpoint %s is missing", e.ID)
			}
		}
	})
}
