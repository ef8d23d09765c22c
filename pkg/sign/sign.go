// Package sign signs deliveries by Standard Webhooks 1.0.0 (HMAC-SHA256, identifier v1).
//
// In flows what a delivery carries (its webhook id, the second of the attempt, the body exactly as
// it is sent) and the secrets of its destination; out flows the value of the webhook-signature
// header. While a secret is being rotated two live, and one signature of each is given, newest
// first, so that a receiver verifies with either.
//
// The package guarantees that no secret is printed: a [Secret] shows its last four characters to
// fmt and slog, and only [Secret.Reveal] gives all of it, for the answer that creates it and for
// sealing it into the configuration log.
//
// Nothing here starts a goroutine or holds state beyond the hash states of a secret, which are
// owned by that secret and reused between signatures.
package sign

import (
	"encoding/base64"
	"strconv"
	"time"
)

// Scheme is what the API calls this way to sign.
const Scheme = "standard_webhooks"

// version is the identifier of symmetric signatures, with the comma that follows it.
const version = "v1,"

// signatureLen is the length in bytes of one signature as it stands in the header: the version and
// the 44 characters of a base64 SHA-256 sum.
const signatureLen = len(version) + 44

// Sign returns the value of the webhook-signature header: one signature per secret, separated by a
// space. See [AppendSignature].
func Sign(secrets []Secret, id string, ts time.Time, body []byte) string {
	return string(AppendSignature(make([]byte, 0, len(secrets)*(signatureLen+1)), secrets, id, ts, body))
}

// AppendSignature appends to dst what [Sign] returns. It allocates nothing when dst has room for 48
// bytes per secret. The zero Secret signs nothing and is passed over.
//
// What is signed is id.timestamp.body with the timestamp in whole unix seconds, the same number
// that webhook-timestamp carries. The standard asks for ids and timestamps without a full stop, so
// that the three parts cannot be shifted against each other: our ids are base32, and a timestamp is
// made here from a number.
func AppendSignature(dst []byte, secrets []Secret, id string, ts time.Time, body []byte) []byte {
	first := true
	for _, s := range secrets {
		if s.k == nil {
			continue
		}
		if !first {
			dst = append(dst, ' ')
		}
		first = false
		dst = s.k.m.appendSignature(dst, id, ts.Unix(), body)
	}
	return dst
}

// appendSignature appends one signature. The hash state comes from the secret's own pool: setting up
// an HMAC costs two SHA-256 blocks and five allocations, which is most of the cost of a small body.
func (m *material) appendSignature(dst []byte, id string, unix int64, body []byte) []byte {
	st := m.states.Get().(*state)
	defer m.states.Put(st)
	st.mac.Reset()

	head := append(st.scratch[:0], id...)
	head = append(head, '.')
	head = strconv.AppendInt(head, unix, 10)
	head = append(head, '.')
	st.mac.Write(head)
	st.mac.Write(body)
	sum := st.mac.Sum(head[:0])
	st.scratch = head[:0]

	dst = append(dst, version...)
	return base64.StdEncoding.AppendEncode(dst, sum)
}
