// Package sign signs deliveries by Standard Webhooks 1.0.0: with HMAC-SHA256 (identifier v1), or with Ed25519 (v1a).
//
// [Sign] takes the webhook id of a delivery, the time of the attempt, the body exactly as it is sent, and the secrets
// of the destination. It returns the value of the webhook-signature header. During the rotation of a secret a
// destination has two: the header then contains one signature for each, so that a receiver can verify with either.
//
// The package does not print secrets: fmt, slog and JSON show at most the last four characters of a [Secret]. Only
// [Secret.Reveal] returns all of it, for the API response that creates it and for encrypting it into the configuration
// log.
//
// The package starts no goroutines and has no global state. A Secret owns HMAC states, which it reuses between
// signatures. Start reading at [Sign]; secrets are in secret.go.
package sign

import (
	"encoding/base64"
	"strconv"
	"time"
)

// Scheme is the name of this signature scheme in the API.
const Scheme = "standard_webhooks"

// version is the identifier of symmetric (HMAC-SHA256) signatures and the comma after it.
const version = "v1,"

// signatureLen is the length of one signature in the header, in bytes: the version and the 44 characters of a base64
// SHA-256 sum.
const signatureLen = len(version) + 44

// Sign returns the value of the webhook-signature header: one signature per secret, separated by a space, those of v1
// first: there are receivers that read the first one only. It skips the zero Secret.
//
// The signed text is id.timestamp.body. The timestamp is ts in whole unix seconds; the webhook-timestamp header must
// have the same number. The standard forbids a full stop in ids and timestamps, so that nobody can shift the borders of
// the three parts. Sign does not check id: the service's ids are base32 and have none.
func Sign(secrets []Secret, id string, ts time.Time, body []byte) string {
	return string(appendSignatures(make([]byte, 0, len(secrets)*(signatureLen+1)), secrets, id, ts, body))
}

// appendSignatures appends to dst what [Sign] returns. It allocates nothing if dst has room for 48 bytes per secret,
// none is an Ed25519 key, and the secret has signed before.
func appendSignatures(dst []byte, secrets []Secret, id string, ts time.Time, body []byte) []byte {
	start := len(dst)
	for _, a := range [...]Algorithm{HMAC, Ed25519} {
		for _, s := range secrets {
			if s.k == nil || s.Algorithm() != a {
				continue
			}
			if len(dst) > start {
				dst = append(dst, ' ')
			}
			if a == Ed25519 {
				dst = s.k.m.appendPrivate(dst, id, ts.Unix(), body)
			} else {
				dst = s.k.m.appendSignature(dst, id, ts.Unix(), body)
			}
		}
	}
	return dst
}

// appendSignature appends one signature. It takes the HMAC state from the secret's pool: creating one costs two SHA-256
// blocks and five allocations, most of the cost of signing a small body.
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
