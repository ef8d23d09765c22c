// Package control is the configuration of the service: account, endpoints, destinations and API keys,
// kept in one Kafka partition as a log of conditional records and in memory on every node.
//
// A record is applied, or not, by a pure function of the state before it, so every node decides every
// conflict alike. The writer waits until its own record came back and was applied: it reads its own
// writes. Redis and ClickHouse may be lost without losing any of it. Secrets that must be shown or used
// again are sealed in records, in snapshots and in memory; keys and tokens are kept as SHA-256.
package control

import "errors"

// Errors that callers branch on.
var (
	ErrNotFound   = errors.New("no such entity")
	ErrConflict   = errors.New("changed by another writer five times in a row")
	ErrInvalidKey = errors.New("unknown, expired or revoked API key")
	// ErrLease means that this node cannot be sure to have seen every revocation: answer 503.
	ErrLease = errors.New("configuration log was not confirmed in the last 5 s")
)

// Sealed is a secret under one of the master keys: "key name:base64(nonce, AES-GCM ciphertext)".
type Sealed string
