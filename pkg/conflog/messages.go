package conflog

import (
	"context"
	"encoding/json"
	"sync/atomic"

	"github.com/eventrelay/relay/pkg/stream"
)

// Messages carries short messages between the nodes, in the topic of the heartbeats and with their MAC. A message
// reaches every node that runs, mostly within milliseconds, and no node that starts later. The caller sends again what
// must not get lost.
type Messages struct {
	log     *Log
	handler atomic.Pointer[func(message []byte)]
}

// message is the value of a record in the topic nodes that is no heartbeat: it names no node.
type message struct {
	Boot    string `json:"boot"` // the process that sent it
	Message []byte `json:"message"`
}

// Handle sets what is called with each message of other nodes, in their order. It must not wait.
func (m *Messages) Handle(handler func(message []byte)) { m.handler.Store(&handler) }

// Send sends a message of at most some ten kilobytes to all other nodes. It may be called when the log is ready, and
// returns when Kafka has acknowledged the message.
func (m *Messages) Send(ctx context.Context, text []byte) error {
	value, err := json.Marshal(message{Boot: m.log.bootID, Message: text})
	if err != nil {
		return err
	}
	keys := m.log.macKeys.Load()
	if keys == nil {
		return ErrUnavailable
	}
	topic := stream.Nodes
	if m.log.usesDigests() {
		topic = stream.Heartbeats // the aggregator passes it on
	}
	return m.log.producer.ProduceSync(ctx, topic, 0, keys.sign(macHeartbeat, &stream.Record{Value: value}))
}

// receive calls the handler with a message of another process.
func (m *Messages) receive(x message) {
	if handler := m.handler.Load(); handler != nil && x.Message != nil && x.Boot != m.log.bootID {
		(*handler)(x.Message)
	}
}
