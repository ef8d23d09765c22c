package config

import (
	"cmp"
	"context"
	"encoding/json"
	"io"
	"slices"

	"github.com/eventrelay/relay/pkg/config/document"
	"github.com/eventrelay/relay/pkg/config/entity"
	"github.com/eventrelay/relay/pkg/config/seal"
	"github.com/eventrelay/relay/pkg/conflog"
)

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
