package config

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/eventrelay/relay/pkg/config/entity"
	"github.com/eventrelay/relay/pkg/config/seal"
	"github.com/eventrelay/relay/pkg/conflog"
)

// ErrNotRewrapped means that some secrets are not sealed with the first master key.
var ErrNotRewrapped = errors.New("some secrets are still sealed with another master key")

// RewrapProgress is the progress of a rewrap.
type RewrapProgress struct {
	Entities int // entities with secrets under another key than the first
	Done     int // of these: processed
	Secrets  int // secrets sealed again
}

// rewrapWriters is how many records are written at once: the log acknowledges several as fast as one.
const rewrapWriters = 16

// rewrapPasses bounds how often Rewrap searches again for secrets that other nodes have sealed meanwhile.
const rewrapPasses = 5

// Rewrap seals all secrets again that are not sealed with the first master key. It writes conditional records, so other
// writers can work at the same time. If it is interrupted, a second call continues. It calls progress after each
// entity, one call at a time. At the end it writes a snapshot.
//
// It returns seal.ErrMissingKey before it writes anything, when a living node lacks the first key. It returns
// ErrNotRewrapped with the ids of entities whose secrets cannot be opened and stay unchanged, or when other nodes still
// seal with another key after rewrapPasses passes.
func (c documents) Rewrap(ctx context.Context, progress func(RewrapProgress)) (RewrapProgress, error) {
	var total RewrapProgress
	if err := c.WaitReady(ctx); err != nil {
		return total, err
	}
	if err := c.checkPeerKeys(c.Keyring.IDs()[0]); err != nil {
		return total, err
	}
	for range rewrapPasses {
		found, err := c.sealedByOtherKeys()
		if err != nil {
			return total, err
		}
		// The first record of the log cannot be changed and still needs the old key. A node with only the new key starts
		// from this snapshot instead.
		if len(found) == 0 {
			return total, c.WriteSnapshot(ctx)
		}
		total.Entities += len(found)
		unopened, err := c.rewrapAll(ctx, found, &total, progress)
		if err != nil {
			return total, err
		}
		if len(unopened) > 0 {
			return total, fmt.Errorf(
				"%w: the secrets of %d entities cannot be opened, such as %s; add their key to RELAY_MASTER_KEYS",
				ErrNotRewrapped, len(unopened), strings.Join(unopened[:min(len(unopened), 3)], ", "))
		}
	}
	return total, fmt.Errorf("%w: another node still seals with it; restart all nodes with the new RELAY_MASTER_KEYS",
		ErrNotRewrapped)
}

// checkPeerKeys returns an error that names the living nodes without the master key of that id.
func (c documents) checkPeerKeys(keyID string) error {
	var lack []string
	for _, n := range c.Nodes() {
		if !slices.Contains(n.Keys, keyID) {
			lack = append(lack, n.Name)
		}
	}
	if len(lack) == 0 {
		return nil
	}
	return fmt.Errorf("%w: %s: add %s to its RELAY_MASTER_KEYS and restart it, then try again", seal.ErrMissingKey,
		strings.Join(lack, ", "), keyID[:strings.IndexByte(keyID, ':')])
}

// sealedByOtherKeys returns the entities with a secret that is not sealed with the first key.
func (c documents) sealedByOtherKeys() (found []*conflog.Entity, err error) {
	err = c.eachSecret(c.View(), func(e *conflog.Entity, s seal.Secret) {
		if !c.Keyring.SealedByFirst(s) && (len(found) == 0 || found[len(found)-1] != e) {
			found = append(found, e)
		}
	})
	return found, err
}

// eachSecret calls f with every secret of the entities of a view, and its entity.
func (c documents) eachSecret(v *conflog.View, f func(*conflog.Entity, seal.Secret)) error {
	for k := range entity.NumKinds {
		if !kindTable.Has(k, holdsSecrets) {
			continue
		}
		for e := range v.NewestFirst(k, 0) {
			x, err := c.Decode(e)
			if err != nil {
				return err
			}
			eachSealed(x, func(_, _ string, s *seal.Secret) { f(e, *s) })
		}
	}
	return nil
}

// SecretsByMasterKey returns the number of secrets that each master key seals, by the name of the key.
func (c documents) SecretsByMasterKey() (map[string]int, error) {
	n := make(map[string]int)
	err := c.eachSecret(c.View(), func(_ *conflog.Entity, s seal.Secret) { n[s.KeyName()]++ })
	return n, err
}

// rewrapAll seals the secrets of the entities again, and returns the ids of entities whose secrets cannot be opened.
func (c documents) rewrapAll(
	ctx context.Context, found []*conflog.Entity, total *RewrapProgress, progress func(RewrapProgress)) (
	unopened []string, err error) {
	var mu sync.Mutex // guards total and unopened
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(rewrapWriters)
	for _, e := range found {
		group.Go(func() error {
			n := 0
			_, _, err := c.Change(ctx, e.Kind, e.ID, func(old *conflog.Entity) (conflog.NewValue, error) {
				v, err := entity.CopyOf(c.Core, c.Decoded(old))
				if err == nil {
					n, err = c.reseal(v)
				}
				if err != nil || n == 0 {
					return conflog.NewValue{}, err
				}
				raw, err := c.Encode(old, v)
				// It adds only the few bytes by which one key's name is longer than another's.
				return conflog.NewValue{Value: raw, Exempt: true}, err
			})
			mu.Lock()
			defer mu.Unlock()
			switch {
			case errors.Is(err, seal.ErrOpen):
				unopened, n = append(unopened, e.ID), 0
			case err != nil && !errors.Is(err, ErrNotFound): // deleted meanwhile
				return fmt.Errorf("rewrap %s: %w", e.ID, err)
			}
			total.Done++
			total.Secrets += n
			progress(*total)
			return nil
		})
	}
	err = group.Wait()
	slices.Sort(unopened)
	return unopened, err
}

func (c documents) reseal(v entity.Value) (n int, err error) {
	eachSealed(v, func(entity, field string, s *seal.Secret) {
		if err != nil || c.Keyring.SealedByFirst(*s) {
			return
		}
		var plain string
		if plain, err = c.Keyring.OpenString(entity, field, *s); err == nil {
			*s = c.Keyring.SealString(entity, field, plain)
			n++
		}
	})
	return n, err
}

// eachSealed calls f with the secrets of a value that are set; see entity.Value.EachSealed.
func eachSealed(v entity.Value, f func(entity, field string, s *seal.Secret)) {
	v.EachSealed(func(entity, field string, s *seal.Secret) {
		if *s != "" {
			f(entity, field, s)
		}
	})
}

func (e *Endpoint) EachSealed(f func(entity, field string, s *seal.Secret)) {
	f(e.ID, seal.FieldToken, &e.Token)
	if e.FormerToken != nil {
		f(e.ID, seal.FieldToken, &e.FormerToken.Token)
	}
	for path, secret := range e.Inbound.Secrets() {
		f(e.ID, path, secret)
	}
	if e.Verification != nil {
		for i := range e.Verification.Secrets {
			f(e.ID, seal.FieldVerification, &e.Verification.Secrets[i])
		}
	}
	for i := range e.Destinations {
		d := &e.Destinations[i]
		for name, s := range d.Headers {
			was := s
			if f(d.ID, seal.FieldHeader(name), &s); s != was {
				d.Headers[name] = s
			}
		}
		for j := range d.Secrets {
			f(d.ID, seal.FieldSecret, &d.Secrets[j].Secret)
		}
		for path, secret := range d.Settings.Secrets() {
			f(d.ID, path, secret)
		}
	}
}
