package leak

import (
	"bytes"
	"cmp"
	"errors"

	"github.com/eventrelay/relay/pkg/config/entity"
	"github.com/eventrelay/relay/pkg/config/require"
	"github.com/eventrelay/relay/pkg/config/seal"
	"github.com/eventrelay/relay/pkg/verify"
)

// Drain receives the lines of a log and keeps none of them: what a line leaks becomes a finding. Its URL holds its
// token, which is checked against its SHA-256 and sealed so that it can be shown again.
type Drain struct {
	entity.Meta
	Name     string `json:"name"`
	Platform string `json:"platform"` // one of DrainPlatforms
	Paused   bool   `json:"paused,omitempty"`
	// Version counts the changes, from 1.
	Version int    `json:"version"`
	Hash    []byte `json:"hash"` // SHA-256 of the token; see hashed
	Sealed  struct {
		Token seal.Secret `json:"token"`
		// SigningSecret is the key of Vercel's signatures. While it is set, requests without a valid one are refused.
		SigningSecret seal.Secret `json:"signing_secret,omitempty"`
		// VerifyCode proves to Vercel that the URL belongs to its customer: every answer has it.
		VerifyCode seal.Secret `json:"verify_code,omitempty"`
	} `json:"sealed"`
	// TokenRotatedBy is Answer.IDSeed of the call that rotated to this token, if it had an Idempotency-Key.
	TokenRotatedBy string `json:"token_by,omitempty"`
	CreatedBy      string `json:"created_by"` // key_… or usr_…
}

func (*Drain) EntityKind() entity.Kind { return entity.KindDrain }

func (d *Drain) Hashed() entity.HashedSecret {
	return entity.HashedSecret{Hash: &d.Hash, Field: seal.FieldToken, Sealed: d.Sealed.Token}
}

// Platforms of drains. PlatformAuto recognises the platform from the request.
const (
	PlatformAuto       = "auto"
	PlatformVercel     = "vercel"
	PlatformHeroku     = "heroku"
	PlatformFirehose   = "firehose"
	PlatformCloudflare = "cloudflare"
	PlatformGeneric    = verify.Generic
)

// DrainPlatforms are the platforms that a drain can be set to.
var DrainPlatforms = []string{PlatformAuto, PlatformVercel, PlatformHeroku, PlatformFirehose, PlatformCloudflare,
	PlatformGeneric}

// ErrUnsigned means that a drain has a signing secret, but is of a platform that does not sign.
var ErrUnsigned = errors.New("only requests of vercel are signed")

// MaxDrains is the maximum number of drains.
const MaxDrains = 500

// DrainByToken returns the drain with that id and token. A drain that was deleted is Deleted whatever the token is; any
// other mismatch is Unknown. The time that it takes does not depend on the token.
func (c Findings) DrainByToken(id, token string) (*Drain, entity.Presence) {
	d, presence := entity.Get[Drain](c, id)
	switch {
	case entity.IsHashOf(cmp.Or(d, &Drain{}).Hash, token):
		return d, entity.Present
	case presence == entity.Deleted:
		return nil, entity.Deleted
	}
	return nil, entity.Unknown
}

// DrainSecrets are the opened secrets of a drain, without its token; empty = not set.
type DrainSecrets struct{ Signing, VerifyCode string }

// DrainSecrets opens the secrets of a drain.
func (c Findings) DrainSecrets(d *Drain) (s DrainSecrets, err error) {
	open := func(field string, from seal.Secret, to *string) error {
		if from == "" {
			return nil
		}
		text, err := c.Keyring.OpenString(d.ID, field, from)
		*to = text
		return err
	}
	err = errors.Join(open(seal.FieldSigningSecret, d.Sealed.SigningSecret, &s.Signing),
		open(seal.FieldVerifyCode, d.Sealed.VerifyCode, &s.VerifyCode))
	return s, err
}

func (d *Drain) ChangeCount() *int { return &d.Version }

// Restricts: it was paused, or its token or its signing secret was replaced.
func (d *Drain) Restricts(next entity.Value) bool {
	now, _ := next.(*Drain)
	return now == nil || !d.Paused && now.Paused || !bytes.Equal(d.Hash, now.Hash) ||
		d.Sealed.SigningSecret != now.Sealed.SigningSecret
}

// OnlyRestricts: nothing changed but that it was paused or has another token.
func (d *Drain) OnlyRestricts(next entity.Value) bool {
	want, now := *d, next.(*Drain)
	want.UpdatedAt, want.Version, want.Paused = now.UpdatedAt, now.Version, d.Paused || now.Paused
	want.Sealed.Token, want.Hash, want.TokenRotatedBy = now.Sealed.Token, now.Hash, now.TokenRotatedBy
	return entity.SameJSON(&want, now)
}

func (d *Drain) EachSealed(f func(entity, field string, s *seal.Secret)) {
	f(d.ID, seal.FieldToken, &d.Sealed.Token)
	f(d.ID, seal.FieldSigningSecret, &d.Sealed.SigningSecret)
	f(d.ID, seal.FieldVerifyCode, &d.Sealed.VerifyCode)
}

func (d *Drain) Validate() error {
	var unsigned error
	if d.Sealed.SigningSecret != "" && d.Platform != PlatformAuto && d.Platform != PlatformVercel {
		unsigned = ErrUnsigned
	}
	return errors.Join(require.Hash(d.Hash), unsigned, require.Text("name", d.Name, 1, require.MaxName),
		require.OneOf("platform", d.Platform, DrainPlatforms...), require.Range("version", d.Version, 1, 1<<53))
}
