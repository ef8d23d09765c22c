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
type ImportProgress struct {
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
	head     ExportHeader
	account  *Account
	entities []importedEntity // in the order of their creation
	index    map[string]int   // in entities, by kind and id
	progress ImportProgress
	options  ImportOptions
	report   func(ImportProgress)
}

// Importing says how a document is imported.
type ImportOptions struct {
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
// Everything in it is judged as what the API takes is. Without a MAC under one of the master keys it is
// ErrUnsignedExport.
func (c documents) Import(ctx context.Context, from io.Reader, how ImportOptions, tell func(ImportProgress)) (
	ImportProgress, error) {
	if err := c.Sync(ctx); err != nil {
		return ImportProgress{}, err
	}
	im := &importing{documents: c, index: make(map[string]int), options: how, report: tell}
	if err := im.read(from); err != nil {
		return im.progress, err
	}
	if err := im.head.verifyMAC(c.keyring); err != nil && !(how.Unsigned && errors.Is(err, ErrUnsignedExport)) {
		return im.progress, err
	}
	for _, key := range im.head.MasterKeys {
		if err := im.checkMasterKey(key); err != nil {
			return im.progress, err
		}
	}
	left := im.unlisted()
	if len(left) > 0 && !how.Replace {
		return im.progress, fmt.Errorf("%w: %d entities that are not in the document, such as %s %s", ErrNotEmpty, len(left),
			c.KindName(left[0].Kind), left[0].ID)
	}
	if err := im.write(ctx, left); err != nil {
		return im.progress, err
	}
	return im.progress, c.Barrier(ctx, c.CurrentPosition())
}

// read takes the whole document in and judges it.
func (im *importing) read(from io.Reader) (err error) {
	im.head, err = ReadExport(from, func(name string, raw json.RawMessage) error {
		k, ok := im.KindByName(name)
		if !ok || !kindTable[k].exported {
			return fmt.Errorf("%w: unknown kind %q; was it written by a newer program?", ErrInvalidExport, name)
		}
		v, err := decodeValue(k, raw)
		if err != nil {
			return fmt.Errorf("%w: %w", ErrInvalidExport, err)
		}
		if err := validate(v, im.options.CheckURL); err != nil {
			return fmt.Errorf("%w: %s %.100s: %w", ErrInvalidExport, name, v.entityID(), err)
		}
		if a, ok := v.(*Account); ok {
			if im.account != nil {
				return fmt.Errorf("%w: it has two accounts", ErrInvalidExport)
			}
			im.account = a
			im.progress.Entities++
			return nil
		}
		if e, ok := v.(*Endpoint); ok {
			im.fitPartitions(e)
		}
		if _, unread := v.(*Opaque); !unread { // as it was validated: without members that nobody knows
			if raw, err = json.Marshal(v); err != nil {
				return fmt.Errorf("encode %s %s: %w", name, v.entityID(), err)
			}
		}
		if len(raw) > conflog.MaxEntityBytes {
			return fmt.Errorf("%w: %s %.100s: %w", ErrInvalidExport, name, v.entityID(), ErrEntityTooLarge)
		}
		return im.addEntity(k, v.entityID(), raw)
	})
	if err == nil && (im.account == nil || im.account.ID != im.head.Account) {
		err = fmt.Errorf("%w: it has not the account that it names", ErrInvalidExport)
	}
	return err
}

func (im *importing) addEntity(k kind, id string, raw []byte) error {
	var line bytes.Buffer
	if err := json.Compact(&line, raw); err != nil {
		return fmt.Errorf("%w: %w", ErrInvalidExport, err)
	}
	if id == "" {
		return fmt.Errorf("%w: %s without an id", ErrInvalidExport, im.KindName(k))
	}
	if _, twice := im.index[im.indexKey(k, id)]; twice {
		return fmt.Errorf("%w: %s %s stands in it twice", ErrInvalidExport, im.KindName(k), id)
	}
	im.index[im.indexKey(k, id)] = len(im.entities)
	im.entities = append(im.entities, importedEntity{k, id, im.Pack(line.Bytes())})
	im.progress.Entities++
	return nil
}

// resettle gives an endpoint a partition that exists here. A move that was under way is over: the records that it
// waited for are not here.
func (im *importing) fitPartitions(e *Endpoint) {
	here := func(p int32) bool { return p >= 0 && p < im.cfg.Partitions }
	former := slices.DeleteFunc(slices.Clone(e.FormerPartitions), func(p int32) bool { return !here(p) })
	if here(e.Partition) && len(former) == len(e.FormerPartitions) && e.Move == nil {
		return
	}
	if was := e.Partition; !here(was) {
		e.Partition = partitionOf(e.ID, im.cfg.Partitions)
		im.warn("endpoint %s is on partition %d now: there is no %d here", e.ID, e.Partition, was)
	}
	e.FormerPartitions, e.Move = slices.DeleteFunc(former, func(p int32) bool { return p == e.Partition }), nil
}

func (im *importing) warn(format string, args ...any) {
	switch {
	case len(im.progress.Warnings) < maxWarnings-1:
		im.progress.Warnings = append(im.progress.Warnings, fmt.Sprintf(format, args...))
	case len(im.progress.Warnings) == maxWarnings-1:
		im.progress.Warnings = append(im.progress.Warnings, "… and more of them")
	}
}

// opens reports when a node could not open what a master key has sealed.
func (im *importing) checkMasterKey(key string) error {
	name := key[:strings.IndexByte(key+":", ':')+1]
	if name == key { // the export did not know its fingerprint
		for _, id := range im.keyring.IDs() {
			if strings.HasPrefix(id, name) {
				key = id
			}
		}
	}
	if !slices.Contains(im.keyring.IDs(), key) {
		return missingMasterKey(im.keyring.IDs(), key)
	}
	return im.checkPeerKeys(key)
}

// missingMasterKey says how to get the master key of that id, which a document needs and the node does not have. An id
// is a name and a fingerprint, or a name alone; a key cannot be made from it.
func missingMasterKey(here []string, id string) error {
	name, fingerprint, _ := strings.Cut(id, ":")
	if fingerprint != "" {
		fingerprint = ", fingerprint " + fingerprint
	}
	for _, h := range here {
		if strings.HasPrefix(h, name+":") {
			return fmt.Errorf("%w: the document needs another master key of the name %.100s than is here%.100s; start on a new "+
				"data directory that has the old master.keys, or with the old RELAY_MASTER_KEYS, then import",
				ErrMissingMasterKey, name,
				fingerprint)
		}
	}
	return fmt.Errorf("%w: the document needs the master key %.100s%.100s; add it to RELAY_MASTER_KEYS as it stands in "+
		"master.keys or RELAY_MASTER_KEYS where the document comes from, and restart, then import", ErrMissingMasterKey, name,
		fingerprint)
}

// at is the key of an entity in place.
func (im *importing) indexKey(k kind, id string) string { return im.KindName(k) + " " + id }

// left are the entities that are here and not, or not so, in the document, and that no node has made by itself.
func (im *importing) unlisted() (left []*conflog.Entity) {
	v := im.View()
	for k := conflog.FirstUserKind; k < kinds; k++ {
		if !kindTable[k].exported || k == kindAccount {
			continue
		}
		for e := range v.NewestFirst(k, 0) {
			i, there := im.index[im.indexKey(k, e.ID)]
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
	im.progress.Done++
	var batch []conflog.BatchChange
	flush := func() (err error) {
		if len(batch) > 0 {
			err = im.WriteBatch(ctx, batch)
			batch = batch[:0]
		}
		im.report(im.progress)
		return err
	}
	push := func(r conflog.BatchChange) error {
		if batch = append(batch, r); len(batch) < importBatch {
			return nil
		}
		return flush()
	}
	v := im.View()
	for _, e := range left {
		if _, there := im.index[im.indexKey(e.Kind, e.ID)]; there {
			continue // it is written over
		}
		if err := push(conflog.BatchChange{Kind: e.Kind, ID: e.ID, Old: e}); err != nil {
			return err
		}
		im.progress.Removed++
	}
	for i := range im.entities {
		x := &im.entities[i]
		old := v.FindLiving(x.kind, x.id)
		im.progress.Done++
		if old != nil && bytes.Equal(old.Packed(), x.packed) {
			continue
		}
		im.progress.Changed++
		if err := push(conflog.BatchChange{Kind: x.kind, ID: x.id, Old: old, Value: im.Unpack(x.packed)}); err != nil {
			return err
		}
	}
	for _, r := range im.accountChanges(v) {
		if err := push(r); err != nil {
			return err
		}
	}
	return flush()
}

// rehomed are the changes that give what the nodes have made at their start, and the document does not have, to its
// account.
func (im *importing) accountChanges(s *conflog.View) (changes []conflog.BatchChange) {
	for _, k := range []kind{kindKey, kindUser} {
		for e := range s.NewestFirst(k, 0) {
			if _, there := im.index[im.indexKey(k, e.ID)]; there || !im.madeAtStart(e) {
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
				panic(fmt.Sprintf("BUG: encode %s %s: %v", im.KindName(k), e.ID, err)) // it was decoded from JSON
			}
			if !bytes.Equal(raw, im.Value(e)) {
				changes = append(changes, conflog.BatchChange{Kind: k, ID: e.ID, Old: e, Value: raw})
			}
		}
	}
	return changes
}
