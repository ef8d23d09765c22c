package kafka

import (
	"encoding/binary"

	"github.com/twmb/franz-go/pkg/kbin"
)

// fetchPeekBytes is how much of a fetch request behind its header declineSession reads: enough for a client id of up to
// 200 bytes.
const fetchPeekBytes = 256

// declineSession turns a fetch request into one without a fetch session (KIP-227). Every client can handle the answer:
// brokers without room for another session answer so too. Within a session kfake serves the partitions that had records
// last time first; other partitions wait as long as those have more, and so does a batch larger than the partition
// limit of a fetch. Apache Kafka rotates the partitions instead. request begins behind the correlation id. If the
// client id is too long for fetchPeekBytes, the session stays.
func declineSession(version int16, request []byte) {
	const sessions, flexible, taggedReplica = 7, 12, 15 // first versions of the request with these fields
	if version < sessions {
		return
	}
	r := kbin.Reader{Src: request}
	r.NullableString() // client id
	if version >= flexible {
		for tags := r.Uvarint(); tags > 0 && r.Ok(); tags-- {
			r.Uvarint()
			r.Span(int(r.Uvarint()))
		}
	}
	if version < taggedReplica {
		r.Int32()
	}
	r.Span(4 + 4 + 4 + 1) // max_wait_ms, min_bytes, max_bytes, isolation_level
	if id := r.Src; r.Ok() && len(id) >= 8 {
		binary.BigEndian.PutUint32(id, 0)
		binary.BigEndian.PutUint32(id[4:], 1<<32-1)
	}
}
