package leak

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"time"

	"github.com/eventrelay/relay/pkg/apikey"
	"github.com/eventrelay/relay/pkg/config/entity"
	"github.com/eventrelay/relay/pkg/config/require"
	"github.com/eventrelay/relay/pkg/conflog"
	"github.com/eventrelay/relay/pkg/id"
)

// Tripwire is a honeytoken: an API key, an ingest URL, or a file with both, which has no legitimate use. Who uses it
// has found it. Its secrets are shown once, and only their hashes are stored.
type Tripwire struct {
	entity.Meta
	Domain    string `json:"domain"`         // dom_…
	Kind      string `json:"kind"`           // one of TripwireKinds
	File      string `json:"file,omitempty"` // the one of FakeFiles that has the secrets, for the kind TripwireFile
	Label     string `json:"label"`
	Placement string `json:"placement"` // where people have put it
	// Key is the API key, URL the token of the ingest URL. A file has both. issue sets them.
	Key *TripwireSecret `json:"key,omitempty"`
	URL *TripwireSecret `json:"url,omitempty"`
	// IssuedAt is when the secrets were made. IssuedBy is Answer.IDSeed of the call, if it had an Idempotency-Key.
	IssuedAt time.Time `json:"issued_at"`
	IssuedBy string    `json:"issued_by,omitempty"`
	// TrippedAt is the newest use of the secrets, within tripResolution; zero or before IssuedAt: there was none.
	TrippedAt time.Time     `json:"tripped_at,omitzero"`
	Test      *TripwireTest `json:"test,omitempty"` // nil: none is expected
	CreatedBy string        `json:"created_by"`     // key_… or usr_…
}

// TripwireSecret is what is stored of a secret of a tripwire.
type TripwireSecret struct {
	Hash        []byte `json:"hash"`        // SHA-256 of the API key, or of urlHashPrefix and the token
	Fingerprint string `json:"fingerprint"` // fpr_…
	Last4       string `json:"last4"`
}

// TripwireTest makes the next use of the tripwire from an address a test.
type TripwireTest struct {
	From  string    `json:"from"` // an IP address
	Until time.Time `json:"until"`
}

// TripwireText holds the secrets of a tripwire in clear text. Nobody can read them again.
type TripwireText struct {
	Key   string // the API key; empty for an ingest URL
	Token string // of the ingest URL; empty for an API key
}

// Kinds of tripwires.
const (
	TripwireKey  = "key"
	TripwireURL  = "url"
	TripwireFile = "file"
)

// TripwireKinds are the kinds of tripwires.
var TripwireKinds = []string{TripwireKey, TripwireURL, TripwireFile}

// FakeFiles are the files that a tripwire can be, by the path at which a thief looks for them.
var FakeFiles = []string{"/.env", "/.git/config", "/credentials.json"}

// Statuses of a tripwire.
const (
	TripwireArmed   = "armed"
	TripwireTripped = "tripped"
)

const (
	// MaxTripwires is the maximum number of tripwires of a domain.
	MaxTripwires = 3
	// MaxPlacement is the maximum length of Tripwire.Placement, in characters.
	MaxPlacement = 300
	// TripwireTestLife is how long a test of a tripwire is expected.
	TripwireTestLife = 10 * time.Minute
	// tripResolution is the time between two changes of Tripwire.TrippedAt.
	tripResolution = time.Minute
	// urlHashPrefix keeps tokens of URLs and API keys apart in the one index of hashes.
	urlHashPrefix = "url "
)

func (*Tripwire) EntityKind() entity.Kind { return entity.KindTripwire }

// Hashed has the hash of the API key, or of the URL if there is no key.
func (t *Tripwire) Hashed() entity.HashedSecret {
	for _, s := range []*TripwireSecret{t.Key, t.URL} {
		if s != nil {
			return entity.HashedSecret{Hash: &s.Hash}
		}
	}
	return entity.HashedSecret{}
}

// FormerHash is the hash of the URL of a file, which has an API key too.
func (t *Tripwire) FormerHash() []byte {
	if t.Key != nil && t.URL != nil {
		return t.URL.Hash
	}
	return nil
}

// Status returns the status of the tripwire: whether its present secrets were used, or seen where they should not be.
func (t *Tripwire) Status() string {
	if t.TrippedAt.Before(t.IssuedAt) || t.TrippedAt.IsZero() {
		return TripwireArmed
	}
	return TripwireTripped
}

// Masked returns what may be shown of the secret: of a file, that of its key.
func (t *Tripwire) Masked() string {
	switch {
	case t.Key != nil:
		return apikey.Mask(t.Key.Last4)
	case t.URL != nil:
		return "****" + t.URL.Last4
	}
	return ""
}

// Tripwires are the tripwires in the configuration.
type Tripwires struct {
	*entity.Core
	fingerprint func(ctx context.Context, secret string) (string, error)
}

// NewTripwires returns the tripwires in the configuration. fingerprint returns the fingerprint of a secret.
func NewTripwires(c *entity.Core, fingerprint func(ctx context.Context, secret string) (string, error)) Tripwires {
	return Tripwires{c, fingerprint}
}

// Tripwire returns the tripwire with that id; nil unless it is Present.
func (c Tripwires) Tripwire(id string) (*Tripwire, entity.Presence) {
	return entity.Get[Tripwire](c, id)
}

// TripwireByKey returns the id of the tripwire that has an API key; empty if none has it. It decodes nothing, so that
// it takes as long for a wrong key.
func (c Tripwires) TripwireByKey(text string) string {
	if e := c.View().FindByHash(entity.KindTripwire, entity.HashOf(text)); e != nil {
		return e.ID
	}
	return ""
}

// TripwireByToken returns the tripwire whose URL has a token; nil if none has it.
func (c Tripwires) TripwireByToken(token string) *Tripwire {
	return entity.ByHash[Tripwire](c.Core, entity.HashOf(urlHashPrefix+token))
}

// TripwireByFingerprint returns the tripwire one of whose secrets has a fingerprint; nil if none has it.
func (c Tripwires) TripwireByFingerprint(fingerprint string) *Tripwire {
	has := func(s *TripwireSecret) bool { return s != nil && s.Fingerprint == fingerprint }
	for e := range c.View().OldestFirst(entity.KindTripwire) {
		if t := c.Decoded(e).(*Tripwire); has(t.Key) || has(t.URL) {
			return t
		}
	}
	return nil
}

// CreateTripwire creates a tripwire and returns its secrets, which are stored nowhere. Account and times are set where
// they are empty. It returns ErrConflict when the id exists, and ErrTooManyTripwires.
func (c Tripwires) CreateTripwire(ctx context.Context, t *Tripwire) (*Tripwire, TripwireText, error) {
	filled := *t
	filled.CreatedAt = cmp.Or(filled.CreatedAt, c.Clock().UTC())
	text, err := c.issue(ctx, &filled, filled.CreatedAt)
	if err != nil {
		return nil, text, err
	}
	if c.isFull(&filled) {
		return nil, text, ErrTooManyTripwires
	}
	created, err := entity.Create(ctx, c, &filled)
	if err != nil {
		return nil, text, err
	}
	// Of several that are created at the same time, on any nodes, the first in the log stay.
	if c.isFull(created) {
		return nil, text, errors.Join(ErrTooManyTripwires, entity.Delete[Tripwire](ctx, c, created.ID))
	}
	return created, text, nil
}

func (c Tripwires) isFull(t *Tripwire) bool {
	older := entity.ValuesOf(c.Core, c.View().NewestFirst(entity.KindTripwire, t.Seq), func(other *Tripwire) bool {
		return other.Domain == t.Domain
	})
	return len(older) >= MaxTripwires
}

func (c Tripwires) issue(ctx context.Context, t *Tripwire, at time.Time) (text TripwireText, err error) {
	t.Key, t.URL, t.IssuedAt, t.Test = nil, nil, at, nil
	if t.Kind != TripwireURL {
		text.Key = apikey.New()
		if t.Key, err = c.hashSecret(ctx, text.Key, ""); err != nil {
			return text, err
		}
	}
	if t.Kind != TripwireKey {
		text.Token = id.Random("") // as that of an endpoint
		t.URL, err = c.hashSecret(ctx, text.Token, urlHashPrefix)
	}
	return text, err
}

func (c Tripwires) hashSecret(ctx context.Context, text, prefix string) (*TripwireSecret, error) {
	fingerprint, err := c.fingerprint(ctx, text)
	if err != nil {
		return nil, fmt.Errorf("issue a tripwire: %w", err)
	}
	hash := entity.HashOf(prefix + text)
	return &TripwireSecret{Hash: hash[:], Fingerprint: fingerprint, Last4: apikey.Last4(text)}, nil
}

// RotateTripwire gives a tripwire new secrets and returns them. The former ones are unknown to every node when it
// returns. by is Answer.IDSeed of the call, if it has an Idempotency-Key: when that has rotated before, nothing changes
// and the secrets are empty.
func (c Tripwires) RotateTripwire(ctx context.Context, tripwire, by string) (*Tripwire, TripwireText, error) {
	var text TripwireText
	after, err := entity.Update(ctx, c, tripwire, func(t *Tripwire) (err error) {
		if text = (TripwireText{}); by != "" && t.IssuedBy == by {
			return nil
		}
		t.IssuedBy = by
		text, err = c.issue(ctx, t, c.Clock().UTC())
		return err
	})
	return after, text, err
}

// Restricts: every node must know other secrets, and that a test is expected.
func (t *Tripwire) Restricts(entity.Value) bool { return true }

// ExpectTripwireTest makes the next use from an address within TripwireTestLife a test. It returns when all nodes know.
func (c Tripwires) ExpectTripwireTest(ctx context.Context, tripwire string, from netip.Addr) (*Tripwire, error) {
	return entity.Update(ctx, c, tripwire, func(t *Tripwire) error {
		t.Test = &TripwireTest{From: from.String(), Until: c.Clock().UTC().Add(TripwireTestLife)}
		return nil
	})
}

// EndTripwireTest ends a test that was used. Another one that is expected since stays.
func (c Tripwires) EndTripwireTest(ctx context.Context, tripwire string, used TripwireTest) error {
	_, _, err := entity.UpdateUnawaited(ctx, c.Core, tripwire, func(t *Tripwire) error {
		if t.Test != nil && *t.Test == used {
			t.Test = nil
		}
		return nil
	})
	return err
}

// RecordTrip records that a secret of the tripwire was used or seen.
func (c Tripwires) RecordTrip(ctx context.Context, tripwire string, at time.Time) error {
	if t, _ := c.Tripwire(tripwire); t == nil ||
		t.Status() == TripwireTripped && at.Before(t.TrippedAt.Add(tripResolution)) {
		return nil
	}
	_, _, err := entity.UpdateUnawaited(ctx, c.Core, tripwire, func(t *Tripwire) error {
		if at.After(t.TrippedAt) {
			t.TrippedAt = at
		}
		return nil
	})
	return err
}

func (t *Tripwire) Validate() error {
	var errs []error
	for name, s := range map[string]*TripwireSecret{"key": t.Key, "url": t.URL} {
		if s != nil && len(s.Hash) != conflog.HashLen {
			errs = append(errs, fmt.Errorf("the hash of %s is missing", name))
		}
	}
	if (t.Key != nil) != (t.Kind != TripwireURL) || (t.URL != nil) != (t.Kind != TripwireKey) {
		errs = append(errs, errors.New("the secrets are not those of the kind"))
	}
	files := []string{""}
	if t.Kind == TripwireFile {
		files = FakeFiles
	}
	return errors.Join(append(errs, require.OneOf("kind", t.Kind, TripwireKinds...),
		require.OneOf("file", t.File, files...), require.Text("label", t.Label, 1, require.MaxName),
		require.Text("placement", t.Placement, 0, MaxPlacement))...)
}
