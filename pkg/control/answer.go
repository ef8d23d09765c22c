package control

import "time"

// Answer is what a request under an Idempotency-Key came to. Its id is a hash of account, path and key.
type Answer struct {
	Meta
	Body    []byte    `json:"body_hash"` // SHA-256 of the request's body
	Status  int       `json:"status,omitempty"`
	Answer  Sealed    `json:"answer,omitempty"` // sealed, for an answer may show a secret
	Run     string    `json:"run,omitempty"`    // the run that the request began
	Expires time.Time `json:"expires"`
}
