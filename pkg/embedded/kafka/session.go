package kafka

import (
	"encoding/binary"

	"github.com/twmb/franz-go/pkg/kbin"
)

// fetchPeekBytes is how many bytes behind the header of a fetch are looked at: those of declineSession, with a client id
// of up to 200.
const fetchPeekBytes = 256

// declineSession makes a fetch one without a session (KIP-227), which is how brokers answer that have no room for
// another one. Within one kfake serves first what the request names, which is what had records last time. The others
// wait for as long as these have more, and so does a batch that is larger than what a fetch brings of a partition.
// Brokers of Apache Kafka take turns. request begins behind the correlation id; a client id that is too long for it
// keeps its session.
func declineSession(version int16, request []byte) {
	const sessions, flexible, taggedReplica = 7, 12, 15 // the first versions that have them
	if version < sessions {
		return
	}
	r := kbin.Reader{Src: request}
	r.NullableString() // of the client
	if version >= flexible {
		for tags := r.Uvarint(); tags > 0 && r.Ok(); tags-- {
			r.Uvarint()
			r.Span(int(r.Uvarint()))
		}
	}
	if version < taggedReplica {
		r.Int32()
	}
	r.Span(4 + 4 + 4 + 1) // how long, how little, how much, isolation
	if id := r.Src; r.Ok() && len(id) >= 8 {
		binary.BigEndian.PutUint32(id, 0)
		binary.BigEndian.PutUint32(id[4:], 1<<32-1)
	}
}
