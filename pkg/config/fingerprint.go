package config

import (
	"context"
	"log/slog"
	"time"

	"github.com/eventrelay/relay/pkg/config/entity"
	"github.com/eventrelay/relay/pkg/wait"
)

// The fingerprint of an API key recognises the key where its text has leaked. Keys get it when they are created. Those
// that were created without one, and bootstrap keys, whose text only the environment has, get it at their next use.

// keyIndex finds API keys by their fingerprint.
type keyIndex struct {
	changed       <-chan struct{} // closed when a key was changed since
	byFingerprint map[string]string
}

// KeyByFingerprint returns the API key whose text has that fingerprint, revoked and expired ones included; nil if there
// is none.
func (c callers) KeyByFingerprint(fingerprint string) *Key {
	index := c.keyIndex.Load()
	if index == nil || isClosed(index.changed) {
		index = &keyIndex{c.Changed(entity.KindKey), make(map[string]string)}
		for e := range c.View().OldestFirst(entity.KindKey) {
			if k := c.key(e); k.Fingerprint != "" {
				index.byFingerprint[k.Fingerprint] = k.ID
			}
		}
		c.keyIndex.Store(index)
	}
	k, _ := entity.Get[Key](c, index.byFingerprint[fingerprint])
	return k
}

func isClosed(ch <-chan struct{}) bool {
	select {
	case <-ch:
		return true
	default:
		return false
	}
}

// keyUsePause is the pause after a fingerprint could not be stored: uses ask again and again.
const keyUsePause = time.Second

// usedKey is an API key that was used: its text, or that a browser has sent it.
type usedKey struct {
	id, text    string
	fromBrowser bool
}

// MarkUsedFromBrowser records that a browser has sent a key, with an entry in the audit log for the first time. It does
// not wait; if it cannot record it now, the next use does.
func (c callers) MarkUsedFromBrowser(k *Key) {
	if k.UsedFromBrowser {
		return
	}
	select {
	case c.usedKeys <- usedKey{id: k.ID, fromBrowser: true}:
	default:
	}
}

// requestFingerprint makes recordKeyUses set the fingerprint of a key, unless this node has done so before. An import
// brings another service secret, so each key is checked once under each. It never waits: a later use of the key asks
// again.
func (c *core) requestFingerprint(key, text string) {
	secret := c.View().FindLiving(entity.KindServiceSecret, serviceSecretID)
	if under, checked := c.fingerprintedKeys.Load(key); checked && under == secret {
		return
	}
	select {
	case c.usedKeys <- usedKey{id: key, text: text}:
	default:
	}
}

// recordKeyUses sets what requestFingerprint and MarkUsedFromBrowser ask for until ctx ends.
func (c *core) recordKeyUses(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case u := <-c.usedKeys:
			err := c.recordKeyUse(ctx, u)
			if err == nil || ctx.Err() != nil {
				continue
			}
			c.log.LogAttrs(ctx, slog.LevelWarn, "cannot store what the use of an API key says", slog.String("key", u.id),
				slog.Any("error", err))
			if wait.For(ctx, keyUsePause) != nil {
				return nil
			}
		}
	}
}

// recordKeyUse sets the fingerprint of a key, or that a browser has sent it.
func (c *core) recordKeyUse(ctx context.Context, u usedKey) error {
	if u.fromBrowser {
		_, _, err := entity.UpdateUnawaited(ctx, c.Core, u.id, func(k *Key) error {
			k.UsedFromBrowser = true
			return nil
		})
		return err
	}
	secret := c.View().FindLiving(entity.KindServiceSecret, serviceSecretID)
	fingerprint, err := callers{c}.KeyFingerprint(ctx, u.text)
	if err != nil {
		return err
	}
	_, _, err = entity.UpdateUnawaited(ctx, c.Core, u.id, func(k *Key) error {
		k.Fingerprint = fingerprint
		return nil
	})
	if err == nil {
		c.fingerprintedKeys.Store(u.id, secret)
	}
	return err
}
