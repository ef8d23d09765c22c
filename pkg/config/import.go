package config

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/eventrelay/relay/pkg/conflog"
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
	documents
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
func (c documents) Import(ctx context.Context, from io.Reader, how Importing, tell func(Imported)) (Imported, error) {
	if err := c.Sync(ctx); err != nil {
		return Imported{}, err
	}
	im := &importing{documents: c, place: make(map[string]int), how: how, tell: tell}
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
	left := im.left()
	if len(left) > 0 && !how.Replace {
		return im.done, fmt.Errorf("%w: %d entities that are not in the document, such as %s %s", ErrNotEmpty, len(left),
			c.Name(left[0].Kind), left[0].ID)
	}
	if err := im.write(ctx, left); err != nil {
		return im.done, err
	}
	return im.done, c.Barrier(ctx, c.Here())
}

// read takes the whole document in and judges it.
func (im *importing) read(from io.Reader) (err error) {
	im.head, err = ReadExport(from, func(name string, raw json.RawMessage) error {
		k, ok := im.KindNamed(name)
		if !ok || !kindTable[k].exported {
			return fmt.Errorf("%w: unknown kind %q; was it written by a newer program?", ErrExport, name)
		}
		v, err := decodeValue(k, raw)
		if err != nil {
			return fmt.Errorf("%w: %w", ErrExport, err)
		}
		if err := validate(v, im.how.CheckURL); err != nil {
			return fmt.Errorf("%w: %s %.100s: %w", ErrExport, name, v.entityID(), err)
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
		if _, unread := v.(*Unread); !unread { // as it was validated: without members that nobody knows
			if raw, err = json.Marshal(v); err != nil {
				return fmt.Errorf("encode %s %s: %w", name, v.entityID(), err)
			}
		}
		if len(raw) > conflog.MaxEntity {
			return fmt.Errorf("%w: %s %.100s: %w", ErrExport, name, v.entityID(), ErrEntityTooLarge)
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
		return fmt.Errorf("%w: %s without an id", ErrExport, im.Name(k))
	}
	if _, twice := im.place[im.at(k, id)]; twice {
		return fmt.Errorf("%w: %s %s stands in it twice", ErrExport, im.Name(k), id)
	}
	im.place[im.at(k, id)] = len(im.entities)
	im.entities = append(im.entities, importedEntity{k, id, im.Pack(line.Bytes())})
	im.done.Entities++
	return nil
}

// resettle gives an endpoint a partition that exists here. A move that was under way is over: the records that it
// waited for are not here.
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
				"data directory that has the old master.keys, or with the old RELAY_MASTER_KEYS, then import", ErrKeys, name,
				fingerprint)
		}
	}
	return fmt.Errorf("%w: the document needs the master key %.100s%.100s; add it to RELAY_MASTER_KEYS as it stands in "+
		"master.keys or RELAY_MASTER_KEYS where the document comes from, and restart, then import", ErrKeys, name,
		fingerprint)
}

// at is the key of an entity in place.
func (im *importing) at(k kind, id string) string { return im.Name(k) + " " + id }

// left are the entities that are here and not, or not so, in the document, and that no node has made by itself.
func (im *importing) left() (left []*conflog.Entity) {
	v := im.View()
	for k := conflog.FirstKind; k < kinds; k++ {
		if !kindTable[k].exported || k == kindAccount {
			continue
		}
		for e := range v.Below(k, 0) {
			i, there := im.place[im.at(k, e.ID)]
			if there && bytes.Equal(im.entities[i].packed, e.Packed()) || im.madeAtStart(e) {
				continue
			}
			left = append(left, e)
		}
	}
	return left
}

// madeAtStart reports whether a node has written it by itself when it started.
func (im *importing) madeAtStart(e *conflog.Entity) bool {
	switch v := im.value(e).(type) {
	case *Key:
		return v.Bootstrap
	case *User:
		return v.FromEnvironment
	}
	return e.Kind == kindServiceSecret
}

// write does it: the account first, then what is in the way, then the entities in their order.
func (im *importing) write(ctx context.Context, left []*conflog.Entity) error {
	if own := im.Account(); own.ID != im.account.ID {
		raw, err := json.Marshal(im.account)
		if err != nil {
			return fmt.Errorf("encode the account: %w", err)
		}
		if err := im.Adopt(ctx, kindAccount, im.account.ID, raw); err != nil {
			return err
		}
	}
	im.done.Done++
	var batch []conflog.Replacement
	flush := func() (err error) {
		if len(batch) > 0 {
			err = im.Replace(ctx, batch)
			batch = batch[:0]
		}
		im.tell(im.done)
		return err
	}
	push := func(r conflog.Replacement) error {
		if batch = append(batch, r); len(batch) < importBatch {
			return nil
		}
		return flush()
	}
	v := im.View()
	for _, e := range left {
		if _, there := im.place[im.at(e.Kind, e.ID)]; there {
			continue // it is written over
		}
		if err := push(conflog.Replacement{Kind: e.Kind, ID: e.ID, Old: e}); err != nil {
			return err
		}
		im.done.Removed++
	}
	for i := range im.entities {
		x := &im.entities[i]
		old := v.Living(x.kind, x.id)
		im.done.Done++
		if old != nil && bytes.Equal(old.Packed(), x.packed) {
			continue
		}
		im.done.Changed++
		if err := push(conflog.Replacement{Kind: x.kind, ID: x.id, Old: old, Value: im.Unpack(x.packed)}); err != nil {
			return err
		}
	}
	for _, r := range im.rehomed(v) {
		if err := push(r); err != nil {
			return err
		}
	}
	return flush()
}

// rehomed are the changes that give what the nodes have made at their start, and the document does not have, to its
// account.
func (im *importing) rehomed(s *conflog.View) (changes []conflog.Replacement) {
	for _, k := range []kind{kindKey, kindUser} {
		for e := range s.Below(k, 0) {
			if _, there := im.place[im.at(k, e.ID)]; there || !im.madeAtStart(e) {
				continue
			}
			was := im.value(e)
			var v value
			switch old := was.(type) {
			case *Key:
				own := *old
				own.Account, v = im.account.ID, &own
			case *User:
				own := *old
				own.Account, v = im.account.ID, &own
			}
			raw, err := im.encode(e, was, v)
			if err != nil {
				panic(fmt.Sprintf("BUG: encode %s %s: %v", im.Name(k), e.ID, err)) // it was decoded from JSON
			}
			if !bytes.Equal(raw, im.Value(e)) {
				changes = append(changes, conflog.Replacement{Kind: k, ID: e.ID, Old: e, Value: raw})
			}
		}
	}
	return changes
}
