// Package leaktest has what stages that find secrets need of the configuration and of the log, in memory, for their
// tests.
package leaktest

import (
	"context"
	"errors"
	"sync"
	"testing"

	"github.com/eventrelay/relay/pkg/config"
	"github.com/eventrelay/relay/pkg/config/entity"
	"github.com/eventrelay/relay/pkg/config/leak"
	"github.com/eventrelay/relay/pkg/finding"
	"github.com/eventrelay/relay/pkg/stream"
)

// Partitions is how many partitions the topic of findings has.
const Partitions = 4

// CanaryToken is the token of the ingest URL of a tripwire.
const CanaryToken = "3vtestq2mfx8h5n7k0w9c4r6da"

// Keys are the keys of every World.
var Keys = finding.Keys{Salt: []byte("0123456789abcdef"), Key: [32]byte{1}}

// World keeps the records of findings. A test sets its fields before the stage runs.
type World struct {
	TB       testing.TB
	Canary   string                 // fingerprint of the secret of a tripwire
	Keys     map[string]*config.Key // by fingerprint
	KeysErr  error                  // of FindingKeys
	Known    map[string]bool        // findings
	KnowsAll bool                   // all findings are known

	Mu      sync.Mutex // guards what follows
	Records []*stream.Record
	Answer  func(r *stream.Record) error // of the log; nil = acknowledge
	Silent  bool                         // the log does not answer
}

// New returns a World without keys and findings.
func New(tb testing.TB) *World {
	return &World{TB: tb, Keys: map[string]*config.Key{}, Known: map[string]bool{}}
}

// FindingKeys implements intake.Configuration.
func (w *World) FindingKeys(context.Context) (finding.Keys, error) {
	return Keys, w.KeysErr
}

// AddKey adds an API key with that text.
func (w *World) AddKey(text string, key *config.Key) {
	w.Keys[Fingerprint(text)] = key
}

// Fingerprint is the fingerprint of a secret.
func Fingerprint(text string) string { return Keys.Fingerprint(Keys.SaltedHash([]byte(text))) }

// TripwireByFingerprint implements intake.Tripwires.
func (w *World) TripwireByFingerprint(fingerprint string) *leak.Tripwire {
	if w.Canary == "" || w.Canary != fingerprint {
		return nil
	}
	return &leak.Tripwire{Meta: entity.Meta{ID: "trw_1"}, Domain: "dom_1"}
}

// TripwireByToken knows one tripwire.
func (w *World) TripwireByToken(token string) *leak.Tripwire {
	if token != CanaryToken {
		return nil
	}
	return &leak.Tripwire{}
}

// LeakedKey implements the configuration of the stages.
func (w *World) LeakedKey(fingerprint string) (*config.Key, bool) {
	key := w.Keys[fingerprint]
	return key, key != nil && key.RevokedAt.IsZero()
}

// HasFinding implements the configuration of the stages.
func (w *World) HasFinding(id string) bool { return w.KnowsAll || w.Known[id] }

// SetAnswer sets what the log answers while the stage runs.
func (w *World) SetAnswer(answer func(*stream.Record) error) {
	w.Mu.Lock()
	defer w.Mu.Unlock()
	w.Answer = answer
}

// ProduceUnordered implements the producer of the stages.
func (w *World) ProduceUnordered(topic string, partition int32, r *stream.Record, done func(*stream.Record, error)) {
	if topic != stream.Findings || partition != finding.PartitionOf(string(r.Key), Partitions) {
		w.TB.Errorf("a record of %s goes to %s-%d", r.Key, topic, partition)
	}
	w.Mu.Lock()
	if w.Silent {
		w.Mu.Unlock()
		return
	}
	var err error
	if w.Answer != nil {
		err = w.Answer(r)
	}
	if err == nil {
		w.Records = append(w.Records, r)
	}
	w.Mu.Unlock()
	done(r, err)
}

// Hits returns the hits in the log, without those that were stored twice.
func (w *World) Hits() (all []*finding.Hit) {
	w.TB.Helper()
	w.Mu.Lock()
	defer w.Mu.Unlock()
	seen := map[string]int{}
	for _, r := range w.Records {
		h, err := finding.Decode(r.Value)
		if errors.Is(err, finding.ErrNotHit) {
			continue
		}
		if err != nil {
			w.TB.Fatal(err)
		}
		key := h.Finding + string(h.ID[:])
		if i, twice := seen[key]; twice {
			all[i] = h
			continue
		}
		seen[key] = len(all)
		all = append(all, h)
	}
	return all
}

// Only returns the one hit of the log.
func (w *World) Only() *finding.Hit {
	w.TB.Helper()
	all := w.Hits()
	if len(all) != 1 {
		w.TB.Fatalf("%d hits, want one", len(all))
	}
	return all[0]
}
