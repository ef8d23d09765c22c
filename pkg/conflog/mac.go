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

// Whoever can write to the topics of the configuration could otherwise create an API key or send deliveries
// elsewhere. So every configuration log has a secret of its own, 256 random bits, sealed under the master keys in the
// log's first record and in the foot of every snapshot. It is never exported: an import begins a new log with a new
// one. From it come the keys of an HMAC-SHA256, one for each purpose, in a header of records, feet of snapshots and
// heartbeats. It covers the whole value, which is all that a node reads of them.
//
// What has no right MAC is counted, logged and passed over, as if it were not there: it cannot stop a node. As the
// secret belongs to one log, a record of another log has no right MAC either. A record of the same log that is appended
// once more has one: its op_id is refused as long as its writer can have seen the present, and older ones are refused
// for their age; see state.repeated. The foot of a snapshot says which log it is of, and where and what each of its
// parts is: one that is appended once more leads to the same parts, and after it the log is read, with all that came
// later.

// purpose is what a MAC is for; each has a key of its own.
type purpose string

const (
	macRecord    purpose = "control record"
	macSnapshot  purpose = "control snapshot"
	macHeartbeat purpose = "node heartbeat"
)

// macHeader is the name of the header that holds the MAC.
const macHeader = "mac"

// authority makes and checks the MACs of one log.
type authority map[purpose][]byte

func newAuthority(secret []byte) authority {
	a := make(authority)
	for _, p := range []purpose{macRecord, macSnapshot, macHeartbeat} {
		a[p] = DeriveKey(secret, string(p))
	}
	return a
}

// DeriveKey returns a key for one purpose.
func DeriveKey(secret []byte, purpose string) []byte {
	key, err := hkdf.Key(sha256.New, secret, nil, "eventrelay "+purpose, sha256.Size)
	if err != nil {
		panic(fmt.Sprintf("BUG: derive a key: %v", err)) // only for lengths that HKDF does not have
	}
	return key
}

func mac(key, value []byte) []byte {
	h := hmac.New(sha256.New, key)
	h.Write(value)
	return h.Sum(nil)
}

// sign adds the MAC of a record's value.
func (a authority) sign(p purpose, r *stream.Record) *stream.Record {
	r.Headers = append(r.Headers, stream.Header{Key: macHeader, Value: mac(a[p], r.Value)})
	return r
}

// verify reports whether a record has the right MAC.
func (a authority) verify(p purpose, r *stream.Record) bool {
	for _, h := range r.Headers {
		if h.Key == macHeader {
			return hmac.Equal(h.Value, mac(a[p], r.Value))
		}
	}
	return false
}

// guard tells what nodes have written from what others have.
type authenticator struct{ *Log }

// newSecret makes the secret of a new log, as the value of its first record, and what it gives.
func (l authenticator) newSecret() ([]byte, *authority) {
	secret := make([]byte, 32)
	rand.Read(secret) // never fails: crypto/rand ends the process instead
	value, err := json.Marshal(firstRecord{ID: LogID, Secret: l.keys.Seal(secret)})
	if err != nil {
		panic(fmt.Sprintf("BUG: encode the secret of the log: %v", err)) // two texts
	}
	own := newAuthority(secret)
	return value, &own
}

// openSecret returns the authority of a sealed secret.
func (l authenticator) openSecret(sealed string) (authority, error) {
	secret, err := l.keys.Open(sealed)
	if err != nil {
		return nil, err
	}
	return newAuthority(secret), nil
}

// secretOf is the sealed secret in the entity of the log's own.
func (p *parser) secretOf(e *Entity) string {
	x, err := p.index(KindLog, p.unpack(e.packed))
	if err != nil {
		panic(fmt.Sprintf("BUG: the secret of the log was applied and %v", err))
	}
	return x.sealedSecret
}

// authentic reports whether a record of the log is one of this service. With the first record of a log it learns the
// log's secret; an error means that it cannot.
func (l authenticator) authentic(rec *stream.Record) (bool, error) {
	if l.cfg.Unverified {
		return true, nil
	}
	known := l.auth.Load()
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
	// It begins a log. Of several nodes that do the first counts, and the others learn its secret.
	own, err := l.openSecret(r.index.sealedSecret)
	if err != nil && known == nil {
		return false, fmt.Errorf(
			"%w. If this service never had another master key, somebody else wrote the first record of the "+
				"topic %s: let only the relay's principal write to it, delete the topic, and run relay migrate",
			err, l.stream.Prefix+stream.Control)
	}
	if err != nil || !own.verify(macRecord, rec) {
		l.reportUnauthentic(stream.Control, rec.Offset)
		return false, nil
	}
	if known == nil {
		l.auth.Store(&own)
		return true, nil
	}
	l.pendingWrites.finish(r.OpID, WriteResult{result: conflict, nextOffset: rec.Offset + 1, appliedAt: time.Now()})
	return false, nil
}

// unauthenticLogInterval is how often records without a right MAC are logged, of each topic.
const unauthenticLogInterval = time.Minute

// unauthentic counts a record that is passed over.
func (l authenticator) reportUnauthentic(topic string, offset int64) {
	l.metrics.unauthentic.WithLabelValues(topic).Inc()
	last, now := l.warned[topic], l.now()
	if before := last.Load(); now.UnixNano()-before < int64(unauthenticLogInterval) ||
		!last.CompareAndSwap(before, now.UnixNano()) {
		return
	}
	l.log.LogAttrs(context.Background(), slog.LevelError,
		"record without a valid MAC was ignored: somebody else writes to this topic; only the relay's principal should be "+
			"allowed to",
		slog.String("topic", l.stream.Prefix+topic), slog.Int64("offset", offset))
}

// ensureSecret begins the log unless it has begun.
func (l authenticator) ensureSecret(ctx context.Context) error {
	if l.auth.Load() != nil {
		return nil
	}
	value, own := l.newSecret()
	r := l.newRecord(l.view.Load().state, KindLog, LogID, preAbsent, opPut)
	r.Value = value
	_, err := writer(l).writeSigned(ctx, r, own)
	if err == nil && l.auth.Load() == nil {
		err = fmt.Errorf("%w: its first record was not applied", ErrUnavailable)
	}
	return err
}

// readable reports why the log, which is read to its end, is none that this node can go on with.
func (l authenticator) checkSecret() error {
	e := l.view.Load().FindLiving(KindLog, LogID)
	switch {
	case e != nil && l.cfg.Unverified:
		return nil
	case e != nil: // it may have been sealed anew since the node learnt it
		_, err := l.openSecret(l.secretOf(e))
		return err
	case l.firstRecordMissing.Load():
		return fmt.Errorf("%w: the first record of the log is not there", errGap)
	}
	return nil
}
