package config

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"slices"
	"strings"

	"github.com/eventrelay/relay/pkg/config/document"
	"github.com/eventrelay/relay/pkg/config/entity"
	"github.com/eventrelay/relay/pkg/config/seal"
	"github.com/eventrelay/relay/pkg/conflog"
)

// ErrNotEmpty means that an import would mix with an existing configuration.
var ErrNotEmpty = errors.New("there is a configuration already")

// ImportProgress is the progress of an import.
type ImportProgress struct {
	Entities int      // in the document
	Done     int      // of these: written, or already identical
	Changed  int      // of these: written
	Removed  int      // deleted, because they are not in the document
	Warnings []string // what the import had to change; at most 100
}

// maxWarnings is the maximum number of warnings of an import.
const maxWarnings = 100

// importBatch is how many records are written at once. They are appended in order, so that lists keep their order.
const importBatch = 500

// importing is one running import.
type importing struct {
	documents
	head     document.Header
	account  *entity.Account
	entities []*importedEntity // in the order of their creation
	index    map[entityKey]*importedEntity
	progress ImportProgress
	options  ImportOptions
	report   func(ImportProgress)
}

// ImportOptions are the options of an import.
type ImportOptions struct {
	Replace  bool // replace entities that differ from the document, and delete those that are not in it
	Unsigned bool // accept a document without a MAC, as older versions wrote it
	Paused   bool // pause the endpoints of the document, so that nothing is delivered before Resume
	// CheckURL validates the URL of a destination as the API does.
	CheckURL func(string) error
}

// entityKey identifies an entity of the document.
type entityKey struct {
	kind entity.Kind
	id   string
}

// importedEntity is an entity of the document, compressed to about a third of its size.
type importedEntity struct {
	entityKey
	packed []byte
	paused bool // an endpoint that the document has paused
}

// Import replaces the configuration by that of an export: the same entities with the same ids, in the same order. It
// reads and validates the whole document before it writes anything. If it is interrupted, a second call continues.
//
// Without Replace the log must be empty, except for what a node writes at its first start, or hold only entities of the
// document as they are there; otherwise Import returns ErrNotEmpty. With Replace it replaces entities that differ and
// deletes those that are not in the document. It returns when no node acts on the old configuration. Erasures of
// payloads, the revocation of keys and the end of sessions stay as they are in the log, whatever the document says.
//
// The values are validated like requests to the API. A document without a MAC under one of the master keys is refused
// with document.ErrUnsigned.
func (c documents) Import(
	ctx context.Context, from io.Reader, options ImportOptions, report func(ImportProgress),
) (ImportProgress, error) {
	im, err := c.readImport(ctx, from, options, report)
	if err != nil {
		return im.progress, err
	}
	for _, key := range im.head.MasterKeys {
		if err := im.checkMasterKey(key); err != nil {
			return im.progress, err
		}
	}
	unlisted := im.unlisted()
	if len(unlisted) > 0 && !options.Replace {
		return im.progress, fmt.Errorf(
			"%w: %d entities that the document lacks or changes, such as %s %s", ErrNotEmpty, len(unlisted),
			c.KindName(unlisted[0].Kind), unlisted[0].ID)
	}
	if err := im.write(ctx, unlisted); err != nil {
		return im.progress, err
	}
	return im.progress, c.Barrier(ctx, c.CurrentPosition())
}

// readImport reads and validates a document, and its MAC.
func (c documents) readImport(
	ctx context.Context, from io.Reader, options ImportOptions, report func(ImportProgress)) (im *importing, err error) {
	im = &importing{documents: c, index: make(map[entityKey]*importedEntity), options: options, report: report}
	if err := c.Sync(ctx); err != nil {
		return im, err
	}
	im.head, err = document.Read(from, im.readEntity)
	if err == nil && (im.account == nil || im.account.ID != im.head.Account) {
		err = fmt.Errorf("%w: the account that its header names is missing", document.ErrInvalid)
	}
	if err == nil {
		err = im.head.VerifyMAC(c.Keyring)
	}
	if options.Unsigned && errors.Is(err, document.ErrUnsigned) {
		err = nil
	}
	return im, err
}

// Resume ends what ImportOptions.Paused began: it resumes the endpoints that are paused here and were not paused in the
// document, and changes nothing else. It returns their number. A second call continues an interrupted one.
func (c documents) Resume(ctx context.Context, from io.Reader, options ImportOptions) (resumed int, err error) {
	im, err := c.readImport(ctx, from, options, func(ImportProgress) {})
	if err != nil {
		return 0, err
	}
	v := im.View()
	err = im.writeBatches(ctx, func(yield func(conflog.BatchChange) bool) {
		for _, x := range im.entities {
			old := v.FindLiving(x.kind, x.id)
			if x.kind != entity.KindEndpoint || x.paused || old == nil || !im.endpoint(old).Paused {
				continue
			}
			running := im.Edited(old, func(v entity.Value) {
				v.(*Endpoint).Paused, v.(*Endpoint).UpdatedAt = false, im.Clock().UTC()
			})
			if !yield(conflog.BatchChange{Kind: x.kind, ID: x.id, Old: old, Value: running}) {
				return
			}
		}
	}, func(n int) { resumed += n })
	if err != nil {
		return resumed, err
	}
	return resumed, c.Barrier(ctx, c.CurrentPosition())
}

// readEntity validates an entity of the document and adds it to the index.
func (im *importing) readEntity(name string, raw json.RawMessage) error {
	k, ok := im.KindByName(name)
	if !ok || !kindTable.Has(k, exported) {
		return fmt.Errorf("%w: unknown kind %q; was it written by a newer program?", document.ErrInvalid, name)
	}
	v, err := kindTable.Decode(k, raw)
	if err != nil {
		return fmt.Errorf("%w: %w", document.ErrInvalid, err)
	}
	x := &importedEntity{entityKey: entityKey{k, entity.IDOf(v)}}
	if err := validate(v, im.options.CheckURL); err != nil {
		return fmt.Errorf("%w: %s %.100s: %w", document.ErrInvalid, name, x.id, err)
	}
	im.progress.Entities++
	switch v := v.(type) {
	case *entity.Account:
		if im.account != nil {
			return fmt.Errorf("%w: it has two accounts", document.ErrInvalid)
		}
		im.account = v
		return nil
	case *Endpoint:
		im.fitPartitions(v)
		v.Paused = v.Paused || im.options.Paused
		x.paused = v.Paused
	case *Key: // one that was revoked since the export stays revoked
		if k, _ := entity.Get[Key](im, v.ID); k != nil && v.RevokedAt.IsZero() {
			v.RevokedAt = k.RevokedAt
		}
	case *User: // sessions that were ended since the export stay ended
		if u, _ := entity.Get[User](im, v.ID); u != nil {
			v.keepEnded(u)
		}
	}
	if raw, err = entity.EncodeValue(v); err != nil { // as validated: without unknown members
		return err
	}
	switch {
	case len(raw) > conflog.MaxEntityBytes:
		return fmt.Errorf("%w: %s %.100s: %w", document.ErrInvalid, name, x.id, ErrEntityTooLarge)
	case x.id == "":
		return fmt.Errorf("%w: a %s has no id", document.ErrInvalid, name)
	case im.index[x.entityKey] != nil:
		return fmt.Errorf("%w: it has %s %s twice", document.ErrInvalid, name, x.id)
	}
	x.packed = im.Pack(raw)
	im.index[x.entityKey] = x
	im.entities = append(im.entities, x)
	return nil
}

// fitPartitions assigns an endpoint to an existing partition if its own does not exist here, and ends its move: the
// deliveries that the move waits for are not here.
func (im *importing) fitPartitions(e *Endpoint) {
	here := func(p int32) bool { return p >= 0 && p < im.cfg.Partitions }
	former := slices.DeleteFunc(slices.Clone(e.FormerPartitions), func(p int32) bool { return !here(p) })
	if here(e.Partition) && len(former) == len(e.FormerPartitions) && e.Move == nil {
		return
	}
	if was := e.Partition; !here(was) {
		e.Partition = partitionOf(e.ID, im.cfg.Partitions)
		im.warn("endpoint %s is now in partition %d: partition %d does not exist here", e.ID, e.Partition, was)
	}
	e.FormerPartitions, e.Move = slices.DeleteFunc(former, func(p int32) bool { return p == e.Partition }), nil
}

func (im *importing) warn(format string, args ...any) {
	switch {
	case len(im.progress.Warnings) < maxWarnings-1:
		im.progress.Warnings = append(im.progress.Warnings, fmt.Sprintf(format, args...))
	case len(im.progress.Warnings) == maxWarnings-1:
		im.progress.Warnings = append(im.progress.Warnings, "… and more warnings")
	}
}

// checkMasterKey returns an error when a living node lacks a master key of the document.
func (im *importing) checkMasterKey(key string) error {
	name, fingerprint, _ := strings.Cut(key, ":")
	if fingerprint == "" { // the exporting node did not have the key
		key = cmp.Or(im.Keyring.ID(name), key)
	}
	if !slices.Contains(im.Keyring.IDs(), key) {
		return document.MissingMasterKey(im.Keyring, key)
	}
	return im.checkPeerKeys(key)
}

// find returns an entity in the document; nil: the document lacks it.
func (im *importing) find(e *conflog.Entity) *importedEntity {
	return im.index[entityKey{e.Kind, e.ID}]
}

// unlisted returns the entities that the document lacks or has with another value, except those that a node creates by
// itself, and erasures: what was erased since the export stays erased, because the log and backups may still have the
// payload.
func (im *importing) unlisted() (unlisted []*conflog.Entity) {
	v := im.View()
	for k := conflog.FirstCallerKind; k < entity.NumKinds; k++ {
		if !kindTable.Has(k, exported) || k == entity.KindAccount {
			continue
		}
		for e := range v.NewestFirst(k, 0) {
			x, was := im.find(e), im.Decoded(e)
			erasure, _ := was.(*Erasure)
			if x != nil && im.isStored(x, e) || was.MadeAtStart() ||
				x == nil && erasure != nil && erasure.Account == im.account.ID {
				continue
			}
			unlisted = append(unlisted, e)
		}
	}
	return unlisted
}

// isStored reports whether an entity of the document is what is stored, also as an earlier version has written it.
func (im *importing) isStored(x *importedEntity, e *conflog.Entity) bool {
	if bytes.Equal(x.packed, e.Packed()) {
		return true
	}
	stored, err := entity.EncodeValue(im.Decoded(e))
	return err == nil && bytes.Equal(stored, im.Unpack(x.packed))
}

// write writes the account, deletes the unlisted entities, and then writes the entities of the document in order.
func (im *importing) write(ctx context.Context, unlisted []*conflog.Entity) error {
	if own := im.Account(); own.ID != im.account.ID ||
		len(im.account.FPSalt) > 0 && !bytes.Equal(own.FPSalt, im.account.FPSalt) {
		raw, err := entity.EncodeValue(im.account)
		if err != nil {
			return err
		}
		if err := im.Adopt(ctx, entity.KindAccount, im.account.ID, raw); err != nil {
			return err
		}
	}
	im.progress.Done++
	return im.writeBatches(ctx, im.changes(unlisted), func(int) { im.report(im.progress) })
}

// writeBatches writes changes in their order, and calls written after each batch with its length.
func (c documents) writeBatches(ctx context.Context, changes iter.Seq[conflog.BatchChange], written func(n int)) error {
	var batch []conflog.BatchChange
	flush := func() error {
		if len(batch) > 0 {
			if err := c.WriteBatch(ctx, batch); err != nil {
				return err
			}
		}
		written(len(batch))
		batch = batch[:0]
		return nil
	}
	for change := range changes {
		if batch = append(batch, change); len(batch) < importBatch {
			continue
		}
		if err := flush(); err != nil {
			return err
		}
	}
	return flush()
}

// changes yields the deletions of the unlisted entities, what differs of those in the document, and the changes that
// assign the entities that nodes created at their start, and the document lacks, to the account of the document.
func (im *importing) changes(unlisted []*conflog.Entity) iter.Seq[conflog.BatchChange] {
	v := im.View()
	return func(yield func(conflog.BatchChange) bool) {
		for _, e := range unlisted {
			if im.find(e) != nil {
				continue // it is replaced below
			}
			if im.progress.Removed++; !yield(conflog.BatchChange{Kind: e.Kind, ID: e.ID, Old: e}) {
				return
			}
		}
		for _, x := range im.entities {
			old := v.FindLiving(x.kind, x.id)
			if im.progress.Done++; old != nil && im.isStored(x, old) {
				continue
			}
			im.progress.Changed++
			if !yield(conflog.BatchChange{Kind: x.kind, ID: x.id, Old: old, Value: im.Unpack(x.packed)}) {
				return
			}
		}
		for _, k := range []entity.Kind{entity.KindKey, entity.KindUser} {
			for e := range v.NewestFirst(k, 0) {
				if im.find(e) != nil || !im.Decoded(e).MadeAtStart() {
					continue
				}
				raw := im.Edited(e, func(v entity.Value) { *v.Common().Account = im.account.ID })
				if !bytes.Equal(raw, im.Value(e)) && !yield(conflog.BatchChange{Kind: k, ID: e.ID, Old: e, Value: raw}) {
					return
				}
			}
		}
	}
}

// Export writes the configuration as it is when Export is called. Later changes do not affect it.
func (c documents) Export(ctx context.Context, to io.Writer) error {
	if err := c.Sync(ctx); err != nil {
		return err
	}
	v := c.View()
	var all []*conflog.Entity
	for k := range entity.NumKinds {
		if kindTable.Has(k, exported) {
			all = slices.AppendSeq(all, v.NewestFirst(k, 0))
		}
	}
	slices.SortFunc(all, func(a, b *conflog.Entity) int { return cmp.Compare(a.Seq, b.Seq) })
	keys, err := c.sealingKeys(v)
	if err != nil {
		return err
	}
	head := document.Header{
		Format: document.Format, Version: document.Version, ExportedAt: c.Clock().UTC(), Program: c.cfg.Version,
		Account: c.Account().ID, Sequence: v.Sequence(), Partitions: c.cfg.Partitions, Entities: len(all),
		MasterKeys: keys,
	}
	return document.Write(to, head, c.Keyring, func(yield func(string, json.RawMessage) bool) {
		for _, e := range all {
			line := c.Value(e)
			if e.Kind == entity.KindUser {
				line = c.Edited(e, func(v entity.Value) { v.(*User).Link = nil })
			}
			if !yield(c.KindName(e.Kind), line) {
				return
			}
		}
	})
}

// sealingKeys returns the ids of the master keys that seal exported secrets; for a key that this node does not have,
// its name and a colon.
func (c documents) sealingKeys(v *conflog.View) ([]string, error) {
	ids := []string{}
	err := c.eachSecret(v, func(e *conflog.Entity, s seal.Secret) {
		if !kindTable.Has(e.Kind, exported) {
			return
		}
		id := cmp.Or(c.Keyring.ID(s.KeyName()), s.KeyName()+":")
		if !slices.Contains(ids, id) {
			ids = append(ids, id)
		}
	})
	slices.Sort(ids)
	return ids, err
}
