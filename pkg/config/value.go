package config

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"sync/atomic"

	"github.com/klauspost/compress/s2"

	"github.com/eventrelay/relay/pkg/verify"
)

// kind names what an entity is. New kinds go to the end.
type kind uint8

const (
	kindAccount kind = iota
	kindEndpoint
	kindKey
	kindRun
	kindAnswer
	kindRecovery
	kindAlertSettings
	kindAlert
	kindUser
	kindTrail
	kindErasure
	kindLog
	kinds // how many there are
)

var kindNames = [kinds]string{"account", "endpoint", "key", "run", "answer", "recovery", "alert_settings", "alert", "user", "trail", "erasure", "log"}

func (k kind) String() string { return kindNames[k] }

func kindNamed(name string) (kind, bool) {
	for k, n := range kindNames {
		if n == name {
			return kind(k), true
		}
	}
	return 0, false
}

// value is what an entity holds: *Account, *Endpoint, *Key, or a type with a Meta.
type value interface {
	entityID() string
	// secretHash is the SHA-256 by which the entity is looked up, unique among its kind; nil = none.
	secretHash() []byte
}

func (a *Account) entityID() string    { return a.ID }
func (a *Account) secretHash() []byte  { return nil }
func (k *Key) entityID() string        { return k.ID }
func (k *Key) secretHash() []byte      { return k.Hash }
func (e *Endpoint) entityID() string   { return e.ID }
func (e *Endpoint) secretHash() []byte { return e.TokenHash }

// newValue returns an empty value of a kind.
func newValue(k kind) value {
	switch k {
	case kindAccount:
		return &Account{}
	case kindEndpoint:
		return &Endpoint{}
	case kindKey:
		return &Key{}
	case kindRun:
		return &Run{}
	case kindAnswer:
		return &Answer{}
	case kindRecovery:
		return &Recovery{}
	case kindAlertSettings:
		return &AlertSettings{}
	case kindAlert:
		return &Alert{}
	case kindUser:
		return &User{}
	case kindTrail:
		return &trail{}
	case kindErasure:
		return &Erasure{}
	case kindLog:
		return &LogSecret{}
	}
	panic("BUG: unknown kind")
}

// decodeValue reads the JSON of a value and judges what apply relies on.
func decodeValue(k kind, b []byte) (value, error) {
	v := newValue(k)
	if err := json.Unmarshal(b, v); err != nil {
		return nil, fmt.Errorf("decode %s: %w", k, err)
	}
	if h := v.secretHash(); (k == kindEndpoint || k == kindKey) && len(h) != hashLen {
		return nil, fmt.Errorf("decode %s: hash of %d bytes", k, len(h))
	}
	return v, nil
}

// codec keeps values small in memory and decoded while they are used.
//
// In memory a value is its JSON under S2 with a dictionary of the texts that nearly every endpoint
// shares: 320 bytes instead of 1,100, in one allocation without pointers, so that the garbage collector
// does not walk through 200,000 endpoints. Decoding one costs about 25 µs; the values in use are cached,
// 16,384 of them (some 40 MB) in sets of four, without locks. A cached value belongs to one *entity, which
// never changes, so nothing has to be invalidated.
type codec struct {
	dict  *s2.Dict
	cache [4096][4]atomic.Pointer[decoded]
}

type decoded struct {
	of    *entity
	value value
}

func newCodec() *codec {
	text := "text"
	sample, err := json.Marshal([]any{
		Key{Scope: ReadWrite}, Account{},
		Endpoint{
			Name: text, Description: &text, Provider: verify.Generic, TypeSource: &text, Enabled: true,
			Verification: &Verification{Type: verify.StandardWebhooks, Mode: "enforce", Secrets: []Sealed{"key:"}, ToleranceSeconds: 300},
			Destinations: []Destination{{
				URL: "https://example.com/webhooks", Enabled: true, TimeoutSeconds: 15, MaxInFlight: 64,
				Secrets: []SigningSecret{{Secret: "key:"}},
			}},
			RetryPolicy: DefaultRetryPolicy(),
			Response:    Response{Status: 200, ContentType: "application/json", Body: `{"received":true}`},
		},
	})
	if err != nil {
		panic(fmt.Sprintf("BUG: encode the dictionary: %v", err))
	}
	return &codec{dict: s2.MakeDict(sample, nil)}
}

// pack returns the form of a value's JSON that is kept in memory.
func (c *codec) pack(raw []byte) []byte {
	return bytes.Clone(c.dict.Encode(make([]byte, s2.MaxEncodedLen(len(raw))), raw))
}

// unpack is the reverse of pack.
func (c *codec) unpack(e *entity) []byte {
	raw, err := c.dict.Decode(nil, e.packed)
	if err != nil {
		panic(fmt.Sprintf("BUG: unpack %s %s: %v", e.kind, e.id, err))
	}
	return raw
}

// value returns the value of a living entity. It is shared and read-only.
func (c *codec) value(e *entity) value {
	set := &c.cache[uint64(e.seq)%uint64(len(c.cache))]
	victim := rand.IntN(len(set))
	for i := range set {
		d := set[i].Load()
		if d != nil && d.of == e {
			return d.value
		}
		if d == nil || d.of.id == e.id { // free, or an earlier value of the same
			victim = i
		}
	}
	v, err := decodeValue(e.kind, c.unpack(e))
	if err != nil {
		panic(fmt.Sprintf("BUG: %s %s was applied and %v", e.kind, e.id, err))
	}
	switch v := v.(type) {
	case *Endpoint:
		v.Rev, v.Seq = e.rev, e.seq
	case interface{ meta() *Meta }:
		v.meta().Rev, v.meta().Seq = e.rev, e.seq
	}
	set[victim].Store(&decoded{of: e, value: v})
	return v
}

func (c *codec) account(e *entity) *Account   { return c.value(e).(*Account) }
func (c *codec) endpoint(e *entity) *Endpoint { return c.value(e).(*Endpoint) }
func (c *codec) key(e *entity) *Key           { return c.value(e).(*Key) }
