package conflog

import (
	"context"
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"log/slog"
	"time"

	"github.com/eventrelay/relay/pkg/stream"
)

// MACs keep anyone who can write to the topics of the configuration from creating an API key or redirecting deliveries.
// Every configuration log has its own secret: 256 random bits, sealed with the first master key, in the first record of
// the log and in the footer of every snapshot. It is never exported: an import writes into a log with its own secret.
// HKDF derives one key for each purpose from it. An HMAC-SHA256 with that key is in a header of every record, footer
// and heartbeat. It covers the whole value. Nodes trust nothing else that the writer of a record sets.
//
// Records without a valid MAC are counted, logged and ignored, so they cannot stop a node. Records of another log have
// no valid MAC either, because the secret belongs to one log. A record of the same log that is appended again does have
// a valid MAC: apply refuses it by its op_id, or by its age; see state.repeated. The footer of a snapshot names the log
// and the parts. A footer that is appended again leads to the same parts, and after them the log is read with all later
// records.

// purpose is what a MAC protects; each purpose has its own key.
type purpose string

const (
	macRecord    purpose = "control record"
	macSnapshot  purpose = "control snapshot"
	macHeartbeat purpose = "node heartbeat"
)

// macHeader is the name of the record header with the MAC.
const macHeader = "mac"

// macKeys holds the MAC keys of one log, by purpose.
type macKeys map[purpose][]byte

func deriveMACKeys(secret []byte) macKeys {
	a := make(macKeys)
	for _, p := range []purpose{macRecord, macSnapshot, macHeartbeat} {
		a[p] = DeriveKey(secret, string(p))
	}
	return a
}

// DeriveKey derives a 32-byte key for one purpose from a secret, with HKDF-SHA256 (RFC 5869).
func DeriveKey(secret []byte, purpose string) []byte {
	key, err := hkdf.Key(sha256.New, secret, nil, "eventrelay "+purpose, sha256.Size)
	if err != nil {
		panic(fmt.Sprintf("BUG: derive a key: %v", err)) // only for lengths that HKDF does not support
	}
	return key
}

func mac(key, value []byte) []byte {
	h := hmac.New(sha256.New, key)
	h.Write(value)
	return h.Sum(nil)
}

// sign adds the MAC header to a record and returns the record.
func (a macKeys) sign(p purpose, r *stream.Record) *stream.Record {
	r.Headers = append(r.Headers, stream.Header{Key: macHeader, Value: mac(a[p], r.Value)})
	return r
}

// verify reports whether a record has a valid MAC.
func (a macKeys) verify(p purpose, r *stream.Record) bool {
	for _, h := range r.Headers {
		if h.Key == macHeader {
			return hmac.Equal(h.Value, mac(a[p], r.Value))
		}
	}
	return false
}

// authenticator separates records that nodes of this log wrote from all others.
type authenticator struct{ *Log }

// newSecret generates the secret of a new log. It returns the value of the first record, and the MAC keys.
func (l authenticator) newSecret() ([]byte, *macKeys) {
	secret := make([]byte, 32)
	rand.Read(secret) // never fails: crypto/rand ends the process instead
	value, err := json.Marshal(firstRecord{ID: LogID, Secret: l.keys.Seal(secret)})
	if err != nil {
		panic(fmt.Sprintf("BUG: encode the secret of the log: %v", err)) // two strings
	}
	keys := deriveMACKeys(secret)
	return value, &keys
}

// openSecret opens a sealed secret and returns its MAC keys.
func (l authenticator) openSecret(sealed string) (macKeys, error) {
	secret, err := l.keys.Open(sealed)
	if err != nil {
		return nil, err
	}
	return deriveMACKeys(secret), nil
}

// secretOf returns the sealed secret in the entity of KindLog.
func (p *parser) secretOf(e *Entity) string {
	x, err := p.index(KindLog, p.unpack(e.packed))
	if err != nil {
		panic(fmt.Sprintf("BUG: the secret of the log was applied but cannot be decoded: %v", err))
	}
	return x.sealedSecret
}

// authentic reports whether a node of this log wrote the record. From the first record it learns the secret of the log;
// it returns an error when it cannot open that.
func (l authenticator) authentic(rec *stream.Record) (bool, error) {
	if l.cfg.Unverified {
		return true, nil
	}
	known := l.macKeys.Load()
	if known != nil && known.verify(macRecord, rec) {
		return true, nil
	}
	r := l.parse(rec.Value)
	if r.fault != nil || r.kind != KindLog || r.Pre != preAbsent {
		if known == nil && r.fault == nil && r.OpID != "" {
			l.firstRecordMissing.Store(true)
			return false, nil
		}
		l.reportUnauthentic(stream.Control, rec.Offset)
		return false, nil
	}
	// This record starts a log. If several nodes wrote one, the first counts, and the others learn its secret.
	keys, err := l.openSecret(r.index.sealedSecret)
	if err != nil && known == nil && l.stream.Embedded != nil { // no other process writes to it
		return false, err
	}
	if err != nil && known == nil {
		return false, fmt.Errorf(
			"%w. If this service never had another master key, the relay did not write the first record of the "+
				"topic %s: allow only the relay's principal to write to it, delete the topic, and run relay migrate",
			err, l.stream.Prefix+stream.Control)
	}
	if err != nil || !keys.verify(macRecord, rec) {
		l.reportUnauthentic(stream.Control, rec.Offset)
		return false, nil
	}
	if known == nil {
		l.macKeys.Store(&keys)
		return true, nil
	}
	l.pendingWrites.finish(r.OpID, WriteResult{result: conflict, nextOffset: rec.Offset + 1, appliedAt: time.Now()})
	return false, nil
}

// unauthenticLogInterval is the minimum time between two log messages about records of one topic without a valid MAC.
const unauthenticLogInterval = time.Minute

// reportUnauthentic counts an ignored record and logs it, at most once a minute for each topic.
func (l authenticator) reportUnauthentic(topic string, offset int64) {
	l.metrics.unauthentic.WithLabelValues(topic).Inc()
	last, now := l.warned[topic], l.now()
	if before := last.Load(); now.UnixNano()-before < int64(unauthenticLogInterval) ||
		!last.CompareAndSwap(before, now.UnixNano()) {
		return
	}
	l.log.LogAttrs(context.Background(), slog.LevelError,
		"ignored a record without a valid MAC: something other than the relay writes to this topic; "+
			"allow only the relay's principal to write to it",
		slog.String("topic", l.stream.Prefix+topic), slog.Int64("offset", offset))
}

// ensureSecret writes the first record of the log, with a new secret, unless there is one.
func (l authenticator) ensureSecret(ctx context.Context) error {
	if l.macKeys.Load() != nil {
		return nil
	}
	value, keys := l.newSecret()
	r := l.newRecord(l.view.Load().state, KindLog, LogID, preAbsent, opPut)
	r.Value = value
	_, err := writer(l).writeSigned(ctx, r, keys)
	if err == nil && l.macKeys.Load() == nil {
		err = fmt.Errorf("%w: its first record was not applied", ErrUnavailable)
	}
	return err
}

// checkSecret returns why this node cannot continue with the log that it has read to the end: its first record is
// missing, or its secret cannot be opened.
func (l authenticator) checkSecret() error {
	e := l.view.Load().FindLiving(KindLog, LogID)
	switch {
	case e != nil && l.cfg.Unverified:
		return nil
	case e != nil: // it may have been sealed with another master key since the node read it
		_, err := l.openSecret(l.secretOf(e))
		return err
	case l.firstRecordMissing.Load():
		return fmt.Errorf("%w: the first record of the log does not exist", errGap)
	}
	return nil
}
