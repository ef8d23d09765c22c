package config

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/eventrelay/relay/pkg/stream"
)

// ErrNotEmpty means that there is a configuration that an import would mix with.
var ErrNotEmpty = errors.New("there is a configuration already")

// Imported is how far an import has come.
type Imported struct {
	Entities int      // of the document
	Done     int      // of them: written, or there already
	Changed  int      // of them: written
	Removed  int      // what was there and is not in the document
	Warnings []string // what could not be kept as it was; bounded
}

// maxWarnings bounds those of an import.
const maxWarnings = 100

// importBatch is how many records are on their way at once. They are appended in order, so that lists keep theirs.
const importBatch = 500

// importing is one import.
type importing struct {
	*Control
	head     ExportHead
	account  *Account
	entities []importedEntity // in the order of their creation
	place    map[string]int   // in entities, by kind and id
	done     Imported
	how      Importing
	tell     func(Imported)
}

// Importing says how a document is imported.
type Importing struct {
	Replace  bool // delete what is not in it
	Unsigned bool // take one without a MAC, as older versions wrote it
	// CheckURL judges the URL of a destination, as the API does.
	CheckURL func(string) error
}

// importedEntity is kept as it will be in memory, which is a third of its text.
type importedEntity struct {
	kind   kind
	id     string
	packed []byte
}

// Import makes the configuration what an export says: under the same ids, in the same order, with the same keys. It
// reads the whole document before it writes anything, and goes on where it stopped when it is called again.
//
// Without replace the log must be empty but for what a node writes at its first start, or hold what the document has
// already: ErrNotEmpty. With it what is not in the document is deleted. It returns when no node acts on the
// configuration before it any more.
//
// Everything in it is judged as what the API takes is. Without a MAC under one of the master keys it is ErrUnsigned.
func (c *Control) Import(ctx context.Context, from io.Reader, how Importing, tell func(Imported)) (Imported, error) {
	if err := c.Sync(ctx); err != nil {
		return Imported{}, err
	}
	if err := c.view.Load().allows(kindTrail); err != nil { // the level that adopting an account came with
		return Imported{}, err
	}
	im := &importing{Control: c, place: make(map[string]int), how: how, tell: tell}
	if err := im.read(from); err != nil {
		return im.done, err
	}
	if err := im.head.authentic(c.keyring); err != nil && !(how.Unsigned && errors.Is(err, ErrUnsigned)) {
		return im.done, err
	}
	for _, key := range im.head.MasterKeys {
		if err := im.opens(key); err != nil {
			return im.done, err
		}
	}
	left, err := im.left()
	if err != nil {
		return im.done, err
	}
	if len(left) > 0 && !how.Replace {
		return im.done, fmt.Errorf("%w: %d entities that are not in the document, such as %s %s", ErrNotEmpty, len(left), left[0].kind, left[0].id)
	}
	if err := im.write(ctx, left); err != nil {
		return im.done, err
	}
	return im.done, c.barrier(ctx, opResult{next: c.view.Load().next, at: time.Now()})
}

// read takes the whole document in and judges it.
func (im *importing) read(from io.Reader) (err error) {
	im.head, err = ReadExport(from, func(name string, raw json.RawMessage) error {
		k, ok := kindNamed(name)
		if !ok || !k.exported() {
			return fmt.Errorf("%w: unknown kind %q; was it written by a newer program?", ErrExport, name)
		}
		v, err := decodeValue(k, raw)
		if err != nil {
			return fmt.Errorf("%w: %w", ErrExport, err)
		}
		if err := validate(v, im.how.CheckURL); err != nil {
			return fmt.Errorf("%w: %s %.100s: %w", ErrExport, k, v.entityID(), err)
		}
		if a, ok := v.(*Account); ok {
			if im.account != nil {
				return fmt.Errorf("%w: it has two accounts", ErrExport)
			}
			im.account = a
			im.done.Entities++
			return nil
		}
		if e, ok := v.(*Endpoint); ok {
			im.resettle(e)
		}
		if raw, err = json.Marshal(v); err != nil { // as it was judged: without members that nobody knows
			return fmt.Errorf("encode %s %s: %w", k, v.entityID(), err)
		}
		if len(raw) > MaxEntity {
			return fmt.Errorf("%w: %s %.100s: %w", ErrExport, k, v.entityID(), ErrEntityTooLarge)
		}
		return im.add(k, v.entityID(), raw)
	})
	if err == nil && (im.account == nil || im.account.ID != im.head.Account) {
		err = fmt.Errorf("%w: it has not the account that it names", ErrExport)
	}
	return err
}

func (im *importing) add(k kind, id string, raw []byte) error {
	var line bytes.Buffer
	if err := json.Compact(&line, raw); err != nil {
		return fmt.Errorf("%w: %w", ErrExport, err)
	}
	if id == "" {
		return fmt.Errorf("%w: %s without an id", ErrExport, k)
	}
	if _, twice := im.place[k.String()+" "+id]; twice {
		return fmt.Errorf("%w: %s %s stands in it twice", ErrExport, k, id)
	}
	im.place[k.String()+" "+id] = len(im.entities)
	im.entities = append(im.entities, importedEntity{k, id, im.codec.pack(line.Bytes())})
	im.done.Entities++
	return nil
}

// resettle gives an endpoint a partition that exists here. A move that was under way is over: the records that it waited
// for are not here.
func (im *importing) resettle(e *Endpoint) {
	here := func(p int32) bool { return p >= 0 && p < im.cfg.Partitions }
	former := slices.DeleteFunc(slices.Clone(e.Former), func(p int32) bool { return !here(p) })
	if here(e.Partition) && len(former) == len(e.Former) && e.Moving == nil {
		return
	}
	if was := e.Partition; !here(was) {
		e.Partition = partitionOf(e.ID, im.cfg.Partitions)
		im.warn("endpoint %s is on partition %d now: there is no %d here", e.ID, e.Partition, was)
	}
	e.Former, e.Moving = slices.DeleteFunc(former, func(p int32) bool { return p == e.Partition }), nil
}

func (im *importing) warn(format string, args ...any) {
	switch {
	case len(im.done.Warnings) < maxWarnings-1:
		im.done.Warnings = append(im.done.Warnings, fmt.Sprintf(format, args...))
	case len(im.done.Warnings) == maxWarnings-1:
		im.done.Warnings = append(im.done.Warnings, "… and more of them")
	}
}

// opens reports when a node could not open what a master key has sealed.
func (im *importing) opens(key string) error {
	name := key[:strings.IndexByte(key+":", ':')+1]
	if name == key { // the export did not know its fingerprint
		for _, id := range im.keyring.IDs() {
			if strings.HasPrefix(id, name) {
				key = id
			}
		}
	}
	if !slices.Contains(im.keyring.IDs(), key) {
		return lacksKey(im.keyring.IDs(), key)
	}
	return im.peersHave(key)
}

// lacksKey says how to get the master key of that id, which a document needs and the node does not have. An id is a
// name and a fingerprint, or a name alone; a key cannot be made from it.
func lacksKey(here []string, id string) error {
	name, fingerprint, _ := strings.Cut(id, ":")
	if fingerprint != "" {
		fingerprint = ", fingerprint " + fingerprint
	}
	for _, h := range here {
		if strings.HasPrefix(h, name+":") {
			return fmt.Errorf("%w: the document needs another master key of the name %.100s than is here%.100s; start on a new "+
				"data directory that has the old master.keys, or with the old RELAY_MASTER_KEYS, then import", ErrKeys, name, fingerprint)
		}
	}
	return fmt.Errorf("%w: the document needs the master key %.100s%.100s; add it to RELAY_MASTER_KEYS as it stands in "+
		"master.keys or RELAY_MASTER_KEYS where the document comes from, and restart, then import", ErrKeys, name, fingerprint)
}

// left are the entities that are here and not, or not so, in the document, and that no node has made by itself.
func (im *importing) left() (left []*entity, err error) {
	s := im.view.Load().state
	for k := range kinds {
		if !k.exported() || k == kindAccount {
			continue
		}
		for e := range s.sets[k].bySeq.below(math.MaxUint64) {
			i, there := im.place[k.String()+" "+e.id]
			if there && bytes.Equal(im.entities[i].packed, e.packed) || im.madeAtStart(e) {
				continue
			}
			left = append(left, e)
		}
	}
	return left, nil
}

// madeAtStart reports whether a node has written it by itself when it started.
func (im *importing) madeAtStart(e *entity) bool {
	switch v := im.codec.value(e).(type) {
	case *Key:
		return v.Bootstrap
	case *User:
		return v.FromEnvironment
	}
	return false
}

// write does it: the account first, then what is in the way, then the entities in their order.
func (im *importing) write(ctx context.Context, left []*entity) error {
	if own := im.Account(); own.ID != im.account.ID {
		r := im.newRecord(im.view.Load().state, kindAccount, im.account.ID, preNone, opAdopt)
		res, err := im.Control.write(ctx, r, im.account)
		if err != nil {
			return err
		}
		if res.result != applied {
			return fmt.Errorf("take over the account: %w: record was %s", ErrConflict, res.result)
		}
	}
	im.done.Done++
	var batch []record
	flush := func() error {
		err := im.append(ctx, batch)
		batch = batch[:0]
		im.tell(im.done)
		return err
	}
	push := func(r record) error {
		if batch = append(batch, r); len(batch) < importBatch {
			return nil
		}
		return flush()
	}
	s := im.view.Load().state
	for _, e := range left {
		if _, there := im.place[e.kind.String()+" "+e.id]; there {
			continue // it is written over
		}
		r := im.newRecord(s, e.kind, e.id, preRev, opDelete)
		r.Rev = e.rev
		if err := push(r); err != nil {
			return err
		}
		im.done.Removed++
	}
	for i := range im.entities {
		r, needed := im.record(s, &im.entities[i])
		im.done.Done++
		if !needed {
			continue
		}
		im.done.Changed++
		if err := push(r); err != nil {
			return err
		}
	}
	for _, r := range im.rehomed(s) {
		if err := push(r); err != nil {
			return err
		}
	}
	return flush()
}

// record is what makes an entity of the document stand in the state, unless it does.
func (im *importing) record(s *state, x *importedEntity) (r record, needed bool) {
	old := s.sets[x.kind].living(x.id)
	if old != nil && bytes.Equal(old.packed, x.packed) {
		return r, false
	}
	r = im.newRecord(s, x.kind, x.id, preAbsent, opPut)
	if old != nil {
		r.Pre, r.Rev, r.before = preRev, old.rev, old
	}
	r.Value = im.codec.unpack(&entity{kind: x.kind, id: x.id, packed: x.packed})
	return r, true
}

// rehomed are the records that give what the nodes have made at their start, and the document does not have, to its
// account.
func (im *importing) rehomed(s *state) (records []record) {
	for _, k := range []kind{kindKey, kindUser} {
		for e := range s.sets[k].bySeq.below(math.MaxUint64) {
			if _, there := im.place[k.String()+" "+e.id]; there || !im.madeAtStart(e) {
				continue
			}
			var v value
			switch old := im.codec.value(e).(type) {
			case *Key:
				own := *old
				own.Account, v = im.account.ID, &own
			case *User:
				own := *old
				own.Account, v = im.account.ID, &own
			}
			raw, err := json.Marshal(v)
			if err != nil {
				panic(fmt.Sprintf("BUG: encode %s %s: %v", k, e.id, err)) // it was decoded from JSON
			}
			if bytes.Equal(im.codec.pack(raw), e.packed) {
				continue
			}
			r := im.newRecord(s, k, e.id, preRev, opPut)
			r.Rev, r.before, r.Value = e.rev, e, raw
			records = append(records, r)
		}
	}
	return records
}

// append appends records in their order, all at once, and waits until this node has applied them. It first waits
// until the audit log has taken enough of what was changed before.
func (im *importing) append(ctx context.Context, batch []record) error {
	if len(batch) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	roomy := func() bool { return im.view.Load().sets[kindTrail].bySeq.len+len(batch) <= im.room/2 }
	if err := im.changed.await(ctx, roomy); err != nil {
		return fmt.Errorf("%w: the audit log does not take what was changed: %w", ErrUnavailable, err)
	}
	results := make([]<-chan opResult, len(batch))
	acked := make(chan error, len(batch))
	for i, r := range batch {
		im.sign(ctx, &r)
		r.SeqSeen = im.view.Load().seq // the whole import may be longer than a record may be late
		rec, err := im.encode(r, im.auth.Load())
		if err != nil {
			return err
		}
		results[i] = im.ops.expect(r.OpID)
		defer im.ops.forget(r.OpID)
		im.producer.Produce(stream.Control, 0, rec, func(_ *stream.Record, err error) { acked <- err })
	}
	for range batch {
		select {
		case err := <-acked:
			if err != nil {
				return fmt.Errorf("%w: %w", ErrUnavailable, err)
			}
		case <-ctx.Done():
			return fmt.Errorf("%w: %w", ErrUnavailable, ctx.Err())
		}
	}
	for i, r := range batch {
		select {
		case res := <-results[i]:
			if res.result == full {
				return fmt.Errorf("%w: %s %s goes beyond a bound of the configuration", ErrStateFull, r.Kind, r.ID)
			}
			if res.result != applied {
				return fmt.Errorf("write %s %s: %w: record was %s; was the configuration changed meanwhile?", r.Kind, r.ID, ErrConflict, res.result)
			}
		case <-im.stopped:
			return fmt.Errorf("%w: it was stopped", ErrUnavailable)
		case <-ctx.Done():
			return fmt.Errorf("%w: %w", ErrUnavailable, ctx.Err())
		}
	}
	return nil
}
