package config

import (
	"bytes"
	"context"
	"crypto/subtle"
	"errors"
	"fmt"

	"github.com/eventrelay/relay/pkg/conflog"
	"github.com/eventrelay/relay/pkg/verify"
)

// drains has the methods for log drains.
type drains struct{ *core }

// Drain receives the lines of a log and keeps none of them: what a line leaks becomes a finding. Its URL holds its
// token, which is found by its SHA-256 and sealed so that it can be shown again.
type Drain struct {
	Meta
	Name     string `json:"name"`
	Platform string `json:"platform"` // one of DrainPlatforms
	Paused   bool   `json:"paused,omitempty"`
	// Version counts the changes, from 1.
	Version int    `json:"version"`
	Hash    []byte `json:"hash"` // SHA-256 of the token; CreateDrain and UpdateDrain set it
	Sealed  struct {
		Token Sealed `json:"token"`
		// SigningSecret is the key of Vercel's signatures. While it is set, requests without a valid one are refused.
		SigningSecret Sealed `json:"signing_secret,omitempty"`
		// VerifyCode proves to Vercel that the URL belongs to its customer: every answer has it.
		VerifyCode Sealed `json:"verify_code,omitempty"`
	} `json:"sealed"`
	// TokenRotatedBy is Answer.IDSeed of the call that rotated to this token, if it had an Idempotency-Key.
	TokenRotatedBy string `json:"token_by,omitempty"`
	CreatedBy      string `json:"created_by"` // key_… or usr_…
}

func (d *Drain) secretHash() []byte { return d.Hash }

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

// ErrTooManyDrains means that there are MaxDrains drains.
var ErrTooManyDrains = fmt.Errorf("the maximum of %d drains is reached", MaxDrains)

// Drain returns the drain with that id; nil unless it is Present.
func (c drains) Drain(id string) (*Drain, Presence) { return findEntity[*Drain](c.core, kindDrain, id) }

// Drains returns at most limit drains of an account, newest first, created before the one with beforeSeq (0 = from the
// newest), and whether there are more.
func (c drains) Drains(account string, beforeSeq int64, limit int) ([]*Drain, bool) {
	return listEntities[*Drain](c.core, kindDrain, account, beforeSeq, limit, nil)
}

// DrainByToken returns the drain with that id and token. A drain that was deleted is Deleted whatever the token is; any
// other mismatch is Unknown. The time that it takes does not depend on the token.
func (c drains) DrainByToken(id, token string) (*Drain, Presence) {
	d, presence := c.Drain(id)
	var want []byte
	if d != nil {
		want = d.Hash
	}
	hash := hashOf(token)
	if subtle.ConstantTimeCompare(hash[:], want) == 1 {
		return d, Present
	}
	if presence == Deleted {
		return nil, Deleted
	}
	return nil, Unknown
}

// DrainSecrets are the opened secrets of a drain, without its token; empty = not set.
type DrainSecrets struct{ Signing, VerifyCode string }

// DrainSecrets opens the secrets of a drain.
func (c drains) DrainSecrets(d *Drain) (s DrainSecrets, err error) {
	open := func(field string, from Sealed, to *string) error {
		if from == "" {
			return nil
		}
		text, err := c.keyring.OpenString(d.ID, field, from)
		*to = text
		return err
	}
	err = errors.Join(open(FieldSigningSecret, d.Sealed.SigningSecret, &s.Signing),
		open(FieldVerifyCode, d.Sealed.VerifyCode, &s.VerifyCode))
	return s, err
}

// CreateDrain creates a drain. The caller sets everything except hash and version; account and times are set where they
// are empty. It returns ErrConflict when the id exists.
func (c drains) CreateDrain(ctx context.Context, d *Drain) (*Drain, error) {
	filled := *d
	filled.Version = 1
	if err := c.setHash(&filled); err != nil {
		return nil, fmt.Errorf("create drain: %w", err)
	}
	return addEntity(ctx, c.core, kindDrain, &filled)
}

// UpdateDrain changes a drain; see updateEntity. An update that restricts the drain (pauses it, or replaces its token
// or its signing secret) returns only when no node acts on the old configuration.
func (c drains) UpdateDrain(ctx context.Context, id string, change func(*Drain) error) (*Drain, error) {
	before, res, err := c.change(ctx, kindDrain, id, isExempt, func(old value) (value, error) {
		was := old.(*Drain)
		next, err := changedEntity(c.core, kindDrain, was, func(d *Drain) error {
			if err := change(d); err != nil {
				return err
			}
			d.Version = was.Version
			return c.setHash(d)
		})
		if d, changed := next.(*Drain); changed && err == nil {
			d.Version++
		}
		return next, err
	})
	if err != nil {
		return nil, err
	}
	after := c.value(res.Entity).(*Drain)
	if res.Entity == before {
		return after, nil
	}
	was := c.value(before).(*Drain)
	if !was.Paused && after.Paused || !bytes.Equal(was.Hash, after.Hash) ||
		was.Sealed.SigningSecret != after.Sealed.SigningSecret {
		return after, c.Barrier(ctx, res)
	}
	c.WaitForPeers(ctx, res)
	return after, nil
}

// setHash sets the hash of the token.
func (c drains) setHash(d *Drain) error {
	token, err := c.keyring.OpenString(d.ID, FieldToken, d.Sealed.Token)
	hash := hashOf(token)
	d.Hash = hash[:]
	return err
}

// DeleteDrain deletes a drain. It returns when no node accepts its lines.
func (c drains) DeleteDrain(ctx context.Context, id string) error {
	res, err := c.Delete(ctx, kindDrain, id, 0)
	if err != nil {
		return err
	}
	return c.Barrier(ctx, res)
}

// onlyRestrictsDrain reports whether two versions of a drain differ only in that it was paused or has another token.
func onlyRestrictsDrain(before, after *Drain) bool {
	want := *before
	want.UpdatedAt, want.Version, want.Paused = after.UpdatedAt, after.Version, before.Paused || after.Paused
	want.Sealed.Token, want.Hash, want.TokenRotatedBy = after.Sealed.Token, after.Hash, after.TokenRotatedBy
	return sameJSON(&want, after)
}

// eachSealed calls f with every secret of the drain; see the function eachSealed.
func (d *Drain) eachSealed(f func(entity, field string, s *Sealed)) {
	f(d.ID, FieldToken, &d.Sealed.Token)
	if d.Sealed.SigningSecret != "" {
		f(d.ID, FieldSigningSecret, &d.Sealed.SigningSecret)
	}
	if d.Sealed.VerifyCode != "" {
		f(d.ID, FieldVerifyCode, &d.Sealed.VerifyCode)
	}
}

func (d *Drain) validate() error {
	var hash error
	if len(d.Hash) != conflog.HashLen {
		hash = errors.New("hash is missing")
	}
	var unsigned error
	if d.Sealed.SigningSecret != "" && d.Platform != PlatformAuto && d.Platform != PlatformVercel {
		unsigned = ErrUnsigned
	}
	return errors.Join(hash, unsigned, requireText("name", d.Name, 1, maxNameText),
		requireOneOf("platform", d.Platform, DrainPlatforms...), requireRange("version", d.Version, 1, 1<<53))
}
