package config

import (
	"context"
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/eventrelay/relay/pkg/stream"
)

// Whoever can write to the topics of the configuration could otherwise create an API key or send deliveries
// elsewhere. So every configuration log has a secret of its own, 256 random bits, sealed under the master keys in the
// log's first record and in the foot of every snapshot. It is never exported: an import begins a new log with a new one.
// From it come the keys of an HMAC-SHA256, one for each purpose, in a header of records, feet of snapshots and
// heartbeats. It covers the whole value, which is all that a node reads of them.
//
// What has no right MAC is counted, logged and passed over, as if it were not there: it cannot stop a node. As the
// secret belongs to one log, a record of another log has no right MAC either. A record of the same log that is appended
// once more has one: its op_id is refused as long as its writer can have seen the present, and older ones are refused
// for their age; see state.repeated. The foot of a snapshot says which log it is of, and where and what each of its parts
// is: one that is appended once more leads to the same parts, and after it the log is read, with all that came later.

// LogSecret is the value of the first record of a configuration log.
type LogSecret struct {
	ID     string `json:"id"`
	Secret Sealed `json:"secret"`
}

// logID is the id of the one LogSecret, FieldLogSecret the field under which it is sealed.
const (
	logID          = "log"
	FieldLogSecret = "secret"
)

func (l *LogSecret) entityID() string   { return l.ID }
func (l *LogSecret) secretHash() []byte { return nil }

// Errors that end a node at its start.
var (
	// ErrOlderLog means that a version whose control records have no MAC wrote the log or the data directory.
	ErrOlderLog = errors.New("this configuration was written by an older version, which this one cannot read: " +
		"with the older version, run relay config export --file config.json; then start this version with the same " +
		"master keys on an empty log (dev: a new data directory of mode 700, with the old master.keys copied into it " +
		"before the first start; serve: another RELAY_TOPIC_PREFIX, after relay migrate, and the same ClickHouse), and run " +
		"relay config import config.json --unsigned")
	// ErrLogSecret means that the master keys are others than those that the log was made with.
	ErrLogSecret = errors.New("cannot open the secret of the configuration log")
)

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
		a[p] = deriveKey(secret, string(p))
	}
	return a
}

// deriveKey returns a key for one purpose.
func deriveKey(secret []byte, purpose string) []byte {
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

// newLogSecret makes the secret of a new log, sealed and not.
func (c *Control) newLogSecret() (*LogSecret, authority) {
	secret := make([]byte, 32)
	rand.Read(secret) // never fails: crypto/rand ends the process instead
	return &LogSecret{ID: logID, Secret: c.keyring.SealString(logID, FieldLogSecret, string(secret))}, newAuthority(secret)
}

// openLogSecret returns the authority of a sealed secret, or says what to do about the master keys.
func (c *Control) openLogSecret(s Sealed) (authority, error) {
	secret, err := c.keyring.OpenString(logID, FieldLogSecret, s)
	if err == nil {
		return newAuthority([]byte(secret)), nil
	}
	name := s.keyName()
	for _, id := range c.keyring.IDs() {
		if strings.HasPrefix(id, name+":") {
			return nil, fmt.Errorf("%w: this node's master key %q differs from the one that sealed it; "+
				"set RELAY_MASTER_KEYS to the keys that this configuration was made with", ErrLogSecret, name)
		}
	}
	return nil, fmt.Errorf("%w: it is sealed with the master key %.64q, and this node has %s; add that key to RELAY_MASTER_KEYS",
		ErrLogSecret, name, strings.Join(c.keyring.IDs(), ", "))
}

// authentic reports whether a record of the log is one of this service. With the first record of a log it learns the
// log's secret; an error means that it cannot.
func (c *Control) authentic(rec *stream.Record) (bool, error) {
	if c.cfg.Unverified {
		return c.newest(rec), nil
	}
	known := c.auth.Load()
	if known != nil && known.verify(macRecord, rec) {
		return true, nil
	}
	r := c.codec.parse(rec.Value)
	if r.fault != nil || r.kind != kindLog || r.Pre != preAbsent {
		if known == nil && r.fault == nil && r.OpID != "" {
			c.headless.Store(true)
			if r.V < recordVersion {
				c.older.Store(true)
			}
			return false, nil
		}
		c.unauthentic(stream.Control, rec.Offset)
		return false, nil
	}
	// It begins a log. Of several nodes that do the first counts, and the others learn its secret.
	own, err := c.openLogSecret(r.begins)
	if err != nil && known == nil {
		return false, fmt.Errorf("%w. If this service never had another master key, somebody else wrote the first record of the "+
			"topic %s: let only the relay's principal write to it, delete the topic, and run relay migrate",
			err, c.stream.Prefix+stream.Control)
	}
	if err != nil || !own.verify(macRecord, rec) {
		c.unauthentic(stream.Control, rec.Offset)
		return false, nil
	}
	if known == nil {
		c.auth.Store(&own)
		return true, nil
	}
	c.ops.finish(r.OpID, opResult{result: conflict, next: rec.Offset + 1, at: time.Now()})
	return false, nil
}

// newest reports whether a record is of this version, for those who read a log without its master keys.
func (c *Control) newest(rec *stream.Record) bool {
	r := c.codec.parse(rec.Value)
	if r.V < recordVersion && r.fault == nil && r.OpID != "" {
		c.older.Store(true)
	}
	return r.V >= recordVersion
}

// loggedEvery is how often records without a right MAC are logged, of each topic.
const loggedEvery = time.Minute

// unauthentic counts a record that is passed over.
func (c *Control) unauthentic(topic string, offset int64) {
	c.metrics.unauthentic.WithLabelValues(topic).Inc()
	last, now := c.warned[topic], c.now()
	if before := last.Load(); now.UnixNano()-before < int64(loggedEvery) || !last.CompareAndSwap(before, now.UnixNano()) {
		return
	}
	c.log.LogAttrs(context.Background(), slog.LevelError,
		"record without a valid MAC was ignored: somebody else writes to this topic; only the relay's principal should be allowed to",
		slog.String("topic", c.stream.Prefix+topic), slog.Int64("offset", offset))
}

// ensureLogSecret begins the log unless it has begun.
func (c *Control) ensureLogSecret(ctx context.Context) error {
	if c.auth.Load() != nil {
		return nil
	}
	v, own := c.newLogSecret()
	r := c.newRecord(c.view.Load().state, kindLog, logID, preAbsent, opPut)
	_, err := c.writeSigned(ctx, r, v, own)
	if err == nil && c.auth.Load() == nil {
		err = fmt.Errorf("%w: its first record was not applied", ErrUnavailable)
	}
	return err
}

// readable reports why the log, which is read to its end, is none that this node can go on with.
func (c *Control) readable() error {
	s := c.view.Load().state
	e := s.sets[kindLog].living(logID)
	switch {
	case e != nil && c.cfg.Unverified:
		return nil
	case e != nil: // it may have been sealed anew since the node learnt it
		_, err := c.openLogSecret(c.codec.value(e).(*LogSecret).Secret)
		return err
	case c.older.Load():
		return ErrOlderLog
	case c.headless.Load():
		return fmt.Errorf("%w: the first record of the log is not there", errGap)
	}
	return nil
}
