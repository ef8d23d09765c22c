// Package brokers connects to a customer's Kafka, for destinations and for sources. All connections are those of
// pkg/egress.
package brokers

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync/atomic"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/sasl"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"

	"github.com/eventrelay/relay/pkg/config/kinds"
	"github.com/eventrelay/relay/pkg/event"
)

// DialFunc connects to a broker as egress.Transport.Dial does.
type DialFunc func(ctx context.Context, address string, plain bool, roots []byte) (net.Conn, error)

// Open makes a client and asks for the topic: an error of this request says what is wrong, while records would only
// time out. failed has the error of the last connection that could not be made; nil after one that was made.
func Open(ctx context.Context, s kinds.Kafka, dial DialFunc, failed *atomic.Pointer[error], more ...kgo.Opt,
) (*kgo.Client, error) {
	var roots []byte
	if s.CA != "" {
		roots = []byte(s.CA)
	}
	options := append([]kgo.Opt{
		kgo.ClientID("eventrelay"), kgo.SeedBrokers(s.Brokers...),
		kgo.Dialer(func(ctx context.Context, _, address string) (net.Conn, error) {
			conn, err := dial(ctx, address, s.Plaintext, roots)
			note(ctx, err, failed)
			return conn, err
		}),
	}, more...)
	if s.SASL != "" {
		options = append(options, kgo.SASL(mechanism(s)))
	}
	cl, err := kgo.NewClient(options...)
	if err != nil {
		return nil, err
	}
	request := kmsg.NewPtrMetadataRequest()
	topic := kmsg.NewMetadataRequestTopic()
	topic.Topic = &s.Topic
	request.Topics = append(request.Topics, topic)
	answer, err := request.RequestWith(ctx, cl)
	if err == nil && len(answer.Topics) == 1 {
		err = kerr.ErrorForCode(answer.Topics[0].ErrorCode)
	}
	if err != nil {
		cl.Close()
		return nil, err
	}
	return cl, nil
}

// note keeps the error of a connection. A client that is closed cancels what it began: that says nothing of the broker.
func note(ctx context.Context, err error, failed *atomic.Pointer[error]) {
	switch {
	case err == nil:
		failed.Store(nil)
	case !errors.Is(ctx.Err(), context.Canceled):
		failed.Store(&err)
	}
}

func mechanism(s kinds.Kafka) sasl.Mechanism {
	auth := scram.Auth{User: s.Username, Pass: string(s.Password)}
	switch s.SASL {
	case "scram-sha-256":
		return auth.AsSha256Mechanism()
	case "scram-sha-512":
		return auth.AsSha512Mechanism()
	}
	return plain.Auth{User: s.Username, Pass: string(s.Password)}.AsMechanism()
}

// Explain returns the code of an error of a broker and a message that names what a person can change; empty if it is
// none of a broker.
func Explain(err error, s kinds.Kafka) (code event.ErrorCode, message string) {
	var broker *kerr.Error
	switch {
	case errors.Is(err, kerr.UnknownTopicOrPartition), errors.Is(err, kerr.UnknownTopicID):
		return event.CodeNotFound, fmt.Sprintf("topic %s not found", s.Topic)
	case errors.Is(err, kerr.TopicAuthorizationFailed):
		return event.CodeAccessDenied, fmt.Sprintf("access denied for topic %s", s.Topic)
	case errors.Is(err, kerr.SaslAuthenticationFailed), errors.Is(err, kerr.IllegalSaslState):
		return event.CodeAccessDenied, "the broker refused the user name or password"
	case errors.Is(err, kerr.UnsupportedSaslMechanism):
		return event.CodeAccessDenied, fmt.Sprintf("the broker does not offer sasl %s", s.SASL)
	case errors.As(err, &broker):
		return event.CodeRefused, fmt.Sprintf("the broker answered %s: %s", broker.Message, broker.Description)
	}
	return "", ""
}
