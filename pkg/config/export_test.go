package config

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/eventrelay/relay/pkg/audit"
	"github.com/eventrelay/relay/pkg/config/alerting"
	"github.com/eventrelay/relay/pkg/config/document"
	"github.com/eventrelay/relay/pkg/config/entity"
	"github.com/eventrelay/relay/pkg/config/jobs"
	"github.com/eventrelay/relay/pkg/config/leak"
	"github.com/eventrelay/relay/pkg/config/seal"
	"github.com/eventrelay/relay/pkg/conflog"
	"github.com/eventrelay/relay/pkg/finding"
	"github.com/eventrelay/relay/pkg/id"
	"github.com/eventrelay/relay/pkg/stream"
	"github.com/eventrelay/relay/test/kit"
)

// oneOfEach creates an entity of every kind that has none yet.
func oneOfEach(t *testing.T, n *testNode) {
	t.Helper()
	for k := conflog.FirstCallerKind; k < entity.NumKinds; k++ {
		if n.View().Len(k) > 0 {
			continue
		}
		made := entity.Meta{ID: n.KindName(k) + "_1", Account: n.Account().ID, CreatedAt: n.Clock().UTC(),
			UpdatedAt: n.Clock().UTC()}
		v := kindTable[k].Empty()
		v.Common().Keep(made.Common())
		switch v := v.(type) {
		case *User:
			v.Email, v.ID, v.Scope = "ops@example.com", UserID("ops@example.com"), Read
		case *Tenant:
			v.Tenant, v.ID = "customer-1", TenantID(v.Account, "customer-1")
		case *alerting.Issue:
			v.Add(1, v.CreatedAt, v.CreatedAt, v.CreatedAt, nil)
		case *EventType:
			v.Name, v.ID = "order.paid", EventTypeID(v.Account, "order.paid")
			v.SetSchema([]byte(`{"maxItems":3}`), nil, n.Clock().UTC())
		case *jobs.Recovery:
			v.State, v.RatePerSecond = jobs.RecoveryReady, 1
		case *leak.Drain:
			v.Name, v.Platform, v.Version = "app", leak.PlatformAuto, 1
			hash := entity.HashOf("token of a drain")
			v.Hash, v.Sealed.Token = hash[:], n.Keyring.SealString(v.ID, seal.FieldToken, "token of a drain")
		case *leak.Scan:
			v.Status, v.Trigger = leak.ScanCompleted, leak.ScanManual
		case *leak.Domain:
			v.Hostname = "www.example.com"
			noError(t, v.Derive(nil, nil))
		case *leak.DSN:
			v.Name, v.Platform, v.Version = "web", leak.DSNServer, 1
			hash := entity.HashOf("key of a DSN")
			v.Hash, v.Sealed.Key = hash[:], n.Keyring.SealString(v.ID, seal.FieldDSNKey, "key of a DSN")
		case *leak.Tripwire:
			hash := entity.HashOf("key of a tripwire")
			v.Kind, v.Label, v.Key = leak.TripwireKey, "decoy", &leak.TripwireSecret{Hash: hash[:]}
		case *Fixture:
			*v = *testFixture(t, "x", time.Hour)
			v.Account, v.CreatedAt, v.UpdatedAt, v.Version = n.Account().ID, n.Clock().UTC(), n.Clock().UTC(), 1
			v.ExpiresAt = n.Clock().UTC().Add(time.Hour)
		case *Erasure:
			v.ID = id.Lowest(n.Clock()).Text(id.Event)
		case *leak.Finding:
			v.ID, v.Kind, v.Rule = id.Random(finding.Prefix), finding.Secret, "r"
			v.Severity, v.Status, v.Version = finding.High, finding.Open, 1
		}
		must(n.core.Insert(t.Context(), v))(t)
	}
}

// exportedEntities returns what an export must preserve: every entity in order, by kind, id and value.
func exportedEntities(n *testNode) (all []string) {
	for k := conflog.FirstCallerKind; k < entity.NumKinds; k++ {
		if kindTable.Has(k, exported) {
			for e := range n.View().NewestFirst(k, 0) {
				all = append(all, fmt.Sprintf("%s %s %s", n.KindName(k), e.ID, n.Value(e)))
			}
		}
	}
	return all
}

func exportOf(t *testing.T, n *testNode) []byte {
	t.Helper()
	var doc bytes.Buffer
	noError(t, n.Export(t.Context(), &doc))
	return doc.Bytes()
}

func anyURL(string) error { return nil }

func importInto(t *testing.T, n *testNode, doc []byte, replace bool) (ImportProgress, error) {
	t.Helper()
	return n.Import(WithOrigin(t.Context(), Origin{Actor: audit.Operator}), bytes.NewReader(doc),
		ImportOptions{Replace: replace, CheckURL: anyURL}, func(ImportProgress) {})
}

// An import of what is stored changes nothing, also if an earlier version has stored it: it left out members that are
// false or empty, and had them in another order.
func TestImportOfWhatAnEarlierVersionStored(t *testing.T) {
	bubble(t, func(t *testing.T, before stream.Config) {
		a := node(t, before, Config{Node: "a", BootstrapKey: "bootstrap-key-of-before"})
		created := a.create(t)
		e := a.View().FindLiving(entity.KindEndpoint, created.ID)
		var members map[string]json.RawMessage
		noError(t, json.Unmarshal(a.Value(e), &members))
		for _, name := range []string{"paused", "keep_method", "allow_headers"} {
			if _, has := members[name]; !has {
				t.Fatalf("%s is not stored", name)
			}
			delete(members, name)
		}
		stored := must(json.Marshal(members))(t)
		noError(t, a.Log.WriteBatch(t.Context(), []conflog.BatchChange{{
			Kind: entity.KindEndpoint, ID: e.ID, Old: e, Value: stored,
		}}))
		im, err := importInto(t, a, exportOf(t, a), false)
		if err != nil || im.Changed != 0 {
			t.Errorf("%+v, %v", im, err)
		}
	})
}

// An export that is imported into an empty log restores the configuration: every kind, in the same order.
func TestImportRestoresTheExport(t *testing.T) {
	bubble(t, func(t *testing.T, before stream.Config) {
		a := node(t, before, Config{Node: "a", BootstrapKey: "bootstrap-key-of-before"})
		endpoints := []*Endpoint{a.create(t), a.create(t), a.create(t)}
		text, k, err := a.CreateKey(t.Context(), NewKey{
			Name: "ci", Scope: ReadWrite, Agent: true, ExpiresAt: time.Now().Add(time.Hour)})
		if err != nil {
			t.Fatal(err)
		}
		gone, g, err := a.CreateKey(t.Context(), NewKey{Name: "gone", Scope: Read})
		if err != nil {
			t.Fatal(err)
		}
		noError(t, a.RevokeKey(t.Context(), g.ID))
		must(a.UpdateEndpoint(t.Context(), endpoints[1].ID, func(e *Endpoint) error {
			e.Name = "</script>\u2028é"
			return nil
		}))(t)
		oneOfEach(t, a)
		doc := exportOf(t, a)
		if strings.Contains(string(doc), text) || strings.Contains(string(doc), "bootstrap-key-of-before") ||
			strings.Contains(string(doc), "answer_1") {
			t.Errorf("%s", doc)
		}
		want := exportedEntities(a)

		conf := bubbleBroker(t)
		b := node(t, conf, Config{Node: "b", BootstrapKey: "bootstrap-key-of-after"})
		b.SetOwner(true)
		im, err := importInto(t, b, doc, false)
		if err != nil || im.Done != len(want) || im.Entities != len(want) || im.Removed != 0 || len(im.Warnings) > 0 {
			t.Fatalf("%+v, %v", im, err)
		}
		kept := slices.DeleteFunc(exportedEntities(b), func(e string) bool {
			return strings.HasPrefix(e, "key ") && !slices.Contains(want, e) &&
				strings.Contains(e, `"account":"`+a.Account().ID+`"`) && strings.Contains(e, `"bootstrap":true`)
		})
		if !slices.Equal(kept, want) {
			t.Errorf("%s\nwant %s", strings.Join(kept, "\n"), strings.Join(want, "\n"))
		}
		if got, err := b.Authenticate(text); err != nil || got.ID != k.ID || !got.Agent {
			t.Errorf("its key: %+v, %v", got, err)
		}
		unset := slices.DeleteFunc(b.Keys(b.Account().ID), b.IsSet)
		if len(unset) != 1 || !unset[0].Bootstrap || !strings.HasSuffix("bootstrap-key-of-before", unset[0].Last4) {
			t.Errorf("%d keys are not set, want the one of the environment of before", len(unset))
		}
		if got, err := b.Authenticate("bootstrap-key-of-after"); err != nil || got.Account != a.Account().ID {
			t.Errorf("the node's own key: %+v, %v", got, err)
		}
		for _, text := range []string{gone, "bootstrap-key-of-before"} {
			if _, err := b.Authenticate(text); !errors.Is(err, ErrInvalidKey) {
				t.Errorf("a key that must be rejected: %v", err)
			}
		}
		token, err := b.Keyring.OpenString(endpoints[0].ID, seal.FieldToken, endpoints[0].Token)
		if e := b.EndpointByToken(token); err != nil || e == nil || e.ID != endpoints[0].ID {
			t.Errorf("its ingest token: %v, %v", e, err)
		}
		if page, _ := b.Endpoints(a.Account().ID, 0, 10); len(page) != 3 || page[0].ID != endpoints[2].ID ||
			page[2].ID != endpoints[0].ID {
			t.Error("endpoints are listed in another order")
		}
		kit.WaitFor(t, "the key that was used has a fingerprint", func() bool {
			k, err := b.Authenticate("bootstrap-key-of-after")
			return err == nil && k.Fingerprint != ""
		})
		// A second import changes nothing, so an interrupted import can be continued.
		seq := exportedEntities(b)
		if im, err := importInto(t, b, doc, false); err != nil || im.Done != len(want) ||
			!slices.Equal(seq, exportedEntities(b)) {
			t.Errorf("once more: %+v, %v", im, err)
		}
		kit.WaitFor(t, "the outbox is empty", func() bool { return b.View().Len(conflog.KindOutbox) == 0 })
		if words := auditText(t, conf); !slices.Contains(words, "operator  account.adopted []") ||
			!slices.Contains(words, "operator  endpoint.created []") {
			t.Errorf("%q", words)
		}
	})
}

// An import undoes neither an erasure nor the revocation of a key that were made since the export.
func TestImportKeepsErasedAndRevoked(t *testing.T) {
	bubble(t, func(t *testing.T, conf stream.Config) {
		a := node(t, conf, Config{Node: "a", BootstrapKey: "bootstrap-key-of-a-node"})
		text, k, err := a.CreateKey(t.Context(), NewKey{Name: "ci", Scope: Read})
		if err != nil {
			t.Fatal(err)
		}
		doc := exportOf(t, a)
		bootstrap, err := a.Authenticate("bootstrap-key-of-a-node")
		if err != nil {
			t.Fatal(err)
		}
		event := id.Lowest(time.Now())
		_, erase := a.ErasePayload(t.Context(), event, "")
		err = errors.Join(erase, a.RevokeKey(t.Context(), k.ID), a.RevokeKey(t.Context(), bootstrap.ID))
		if err != nil {
			t.Fatal(err)
		}
		im, err := importInto(t, a, doc, true)
		if err != nil || im.Removed != 0 || im.Warnings != nil {
			t.Errorf("%+v, %v", im, err)
		}
		if !a.Erased(event) {
			t.Error("the payload is not erased any more")
		}
		for _, key := range []string{text, "bootstrap-key-of-a-node"} {
			if _, err := a.Authenticate(key); !errors.Is(err, ErrInvalidKey) {
				t.Errorf("a revoked key: %v", err)
			}
		}
		if im, err := importInto(t, a, doc, false); err != nil || im.Changed != 0 {
			t.Errorf("the same again: %+v, %v", im, err)
		}
	})
}

// An import refuses to replace a configuration, unless Replace is set; then it deletes the entities that are not in the
// document.
func TestImportReplaces(t *testing.T) {
	ctx := t.Context()
	a := node(t, broker(t), Config{Node: "a"})
	before := exportOf(t, a)
	kept := a.create(t)
	doc := exportOf(t, a)
	other := a.create(t)
	text, _, err := a.CreateKey(ctx, NewKey{Name: "later", Scope: Read})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := a.UpdateEndpoint(ctx, kept.ID, func(e *Endpoint) error { e.Name = "later"; return nil }); err != nil {
		t.Fatal(err)
	}
	if _, err := importInto(t, a, doc, false); !errors.Is(err, ErrNotEmpty) ||
		!strings.Contains(err.Error(), "3 entities") {
		t.Fatal(err)
	}
	if e, _ := a.Endpoint(kept.ID); e.Name != "later" {
		t.Fatal("a refused import has changed something")
	}
	im, err := importInto(t, a, doc, true)
	if err != nil || im.Removed != 2 {
		t.Fatalf("%+v, %v", im, err)
	}
	if e, _ := a.Endpoint(kept.ID); e == nil || e.Name != kept.Name {
		t.Errorf("%+v", e)
	}
	if _, presence := a.Endpoint(other.ID); presence != entity.Deleted {
		t.Errorf("an entity that is not in the document is %v", presence)
	}
	if _, err := a.Authenticate(text); !errors.Is(err, ErrInvalidKey) {
		t.Errorf("a key that is not in the document: %v", err)
	}
	// After an interrupted import, part of the document exists; a second import writes the rest.
	b := node(t, broker(t), Config{Node: "b"})
	must(importInto(t, b, before, false))(t)
	if im, err := importInto(t, b, doc, false); err != nil || im.Removed != 0 || im.Changed == 0 {
		t.Fatalf("%+v, %v", im, err)
	}
	if im, err := importInto(t, b, doc, false); err != nil || im.Changed != 0 {
		t.Fatalf("the same again: %+v, %v", im, err)
	}
	if _, presence := b.Endpoint(kept.ID); presence != entity.Present {
		t.Error("the rest is missing")
	}
}

func TestImportRefuses(t *testing.T) {
	a := node(t, broker(t), Config{Node: "a"})
	a.create(t)
	a.create(t)
	doc := exportOf(t, a)
	head, err := document.Read(bytes.NewReader(doc), func(string, json.RawMessage) error { return nil })
	if err != nil || !slices.Equal(head.MasterKeys, a.Keyring.IDs()) || head.ExportedAt.IsZero() || head.Partitions != 4 {
		t.Errorf("%+v, %v", head, err)
	}
	b := node(t, broker(t), Config{Node: "b"}, withKeys(newKeyring(t, seal.GenerateKey("test"))))
	was := exportedEntities(b)
	f := func(n *testNode, doc string, want error, words string) {
		t.Helper()
		if _, err := importInto(t, n, []byte(doc), false); !errors.Is(err, want) || !strings.Contains(err.Error(), words) {
			t.Errorf("%v, want %v: %s", err, want, words)
		}
	}
	_, fingerprint, _ := strings.Cut(a.Keyring.IDs()[0], ":")
	f(b, string(doc), seal.ErrMissingKey, fingerprint) // two keys may have the same name
	f(b, string(doc), seal.ErrMissingKey, "start with a new data directory that contains the old master.keys")
	c := node(t, broker(t), Config{Node: "c"})
	lines := bytes.SplitAfter(doc, []byte("\n"))
	f(c, "", document.ErrInvalid, "empty")
	f(c, "{}", document.ErrInvalid, "first line")
	f(c, strings.Replace(string(doc), `"version":2`, `"version":3`, 1), document.ErrInvalid, "version 3")
	f(c, strings.Replace(string(doc), `"name"`, `"name" `, 1), document.ErrInvalid, "checksum")
	f(c, string(doc)+"x", document.ErrInvalid, "text after its end")
	for i := 1; i < len(lines)-2; i++ { // the last two are the footer and an empty string
		f(c, string(bytes.Join(lines[:i], nil)), document.ErrInvalid, "middle")
		f(c, string(bytes.Join(append(slices.Clone(lines[:i]), lines[len(lines)-2]), nil)), document.ErrInvalid, "")
	}
	if !slices.Equal(was, exportedEntities(b)) || len(exportedEntities(c)) != 1 {
		t.Error("a refused import has written something")
	}
}

// A document with a valid MAC is refused too unless its entities are complete and valid on this node.
func TestImportRefusesEntities(t *testing.T) {
	n := node(t, broker(t), Config{Node: "a"})
	own := n.Keyring.IDs()[0]
	f := func(want error, words string, change func(head *document.Header), pairs ...string) {
		t.Helper()
		head := document.Header{Format: document.Format, Version: document.Version, Account: "acc_1", Partitions: 4,
			Entities: len(pairs) / 2, MasterKeys: []string{own}}
		if change != nil {
			change(&head)
		}
		var doc bytes.Buffer
		err := document.Write(&doc, head, n.Keyring, func(yield func(string, json.RawMessage) bool) {
			for i := 0; i < len(pairs); i += 2 {
				yield(pairs[i], json.RawMessage(pairs[i+1]))
			}
		})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := importInto(t, n, doc.Bytes(), true); !errors.Is(err, want) ||
			err != nil && !strings.Contains(err.Error(), words) {
			t.Errorf("%v, want %v: %s", err, want, words)
		}
	}
	const account = `{"id":"acc_1"}`
	key := func(id, name string) string {
		return `{"id":"` + id + `","name":"` + name + `","scope":"read","hash":"` + hash44 + `"}`
	}
	f(document.ErrInvalid, "unknown kind", nil, "account", account, "spaceship", "{}")
	for k := conflog.FirstCallerKind; k < entity.NumKinds; k++ {
		if !kindTable.Has(k, exported) {
			f(document.ErrInvalid, "unknown kind", nil, "account", account, n.KindName(k), "{}")
		}
	}
	f(document.ErrInvalid, "line 3", nil, "account", account, "endpoint", `"x"`)
	f(document.ErrInvalid, "two accounts", nil, "account", account, "account", account)
	f(document.ErrInvalid, "the account that its header names", nil)
	f(document.ErrInvalid, "the account that its header names", nil, "account", `{"id":"acc_2"}`)
	f(document.ErrInvalid, "has no id", nil, "account", account, "key", key("", "a"))
	f(document.ErrInvalid, "twice", nil, "account", account, "key", key("key_1", "a"), "key", key("key_1", "b"))
	large := strings.Repeat("x", conflog.MaxEntityBytes)
	f(ErrEntityTooLarge, "key_1", nil, "account", account, "key", key("key_1", large))
	f(document.ErrInvalid, "it has 1 entities", func(h *document.Header) { h.Entities++ }, "account", account)
	for _, other := range []string{"else:01234567", "else:", own + "0"} {
		f(seal.ErrMissingKey, "", func(h *document.Header) { h.MasterKeys = append(h.MasterKeys, other) }, "account", account)
	}
	if len(exportedEntities(n)) != 1 || n.Account().ID == "acc_1" {
		t.Errorf("a refused import has written %v", exportedEntities(n))
	}
	f(nil, "", func(h *document.Header) { h.MasterKeys = []string{own[:strings.IndexByte(own, ':')+1]} }, "account",
		account,
		"key", key("key_1", "a"))
	if n.Account().ID != "acc_1" || len(n.Keys("")) != 1 {
		t.Errorf("account %s, keys %v", n.Account().ID, n.Keys(""))
	}
}

// An imported endpoint keeps only partitions that exist here, and has no unfinished move.
func TestImportFitsPartitions(t *testing.T) {
	im := &importing{documents: documents{&core{cfg: Config{Partitions: 4}}}}
	e := &Endpoint{ID: "ep_1", Partition: 2, FormerPartitions: []int32{-1, 0, 3, 4}, Move: &PartitionMove{}}
	im.fitPartitions(e)
	if e.Partition != 2 || !slices.Equal(e.FormerPartitions, []int32{0, 3}) || e.Move != nil ||
		im.progress.Warnings != nil {
		t.Errorf("%+v, warnings %q", e, im.progress.Warnings)
	}
	e = &Endpoint{ID: "ep_1", Partition: 2, FormerPartitions: []int32{0}, Move: &PartitionMove{}}
	if im.fitPartitions(e); e.Move != nil || len(e.FormerPartitions) != 1 {
		t.Errorf("%+v", e)
	}
	for _, partition := range []int32{4, -1} {
		e = &Endpoint{ID: "ep_1", Partition: partition, FormerPartitions: []int32{0, 1, 2, 3}}
		im.fitPartitions(e)
		if e.Partition != partitionOf("ep_1", 4) || len(e.FormerPartitions) != 3 ||
			slices.Contains(e.FormerPartitions, e.Partition) {
			t.Errorf("%+v", e)
		}
	}
	for range 2 * maxWarnings {
		im.warn("x")
	}
	if w := im.progress.Warnings; len(w) != maxWarnings || w[maxWarnings-2] != "x" ||
		w[maxWarnings-1] != "… and more warnings" {
		t.Errorf("%d warnings, the last ones %q", len(w), w[maxWarnings-2:])
	}
}

// Endpoints in partitions that the new log does not have get one that exists, with a warning.
func TestImportOntoFewerPartitions(t *testing.T) {
	a := node(t, broker(t), Config{Node: "a", Partitions: 64})
	for range 8 {
		a.create(t)
	}
	doc := exportOf(t, a)
	b := node(t, broker(t), Config{Node: "b", Partitions: 2})
	im := must(importInto(t, b, doc, false))(t)
	moved := 0
	page, _ := a.Endpoints(a.Account().ID, 0, 10)
	for _, was := range page {
		e, _ := b.Endpoint(was.ID)
		switch {
		case e == nil || e.Partition >= 2:
			t.Fatalf("%+v", e)
		case was.Partition >= 2:
			moved++
		case e.Partition != was.Partition:
			t.Errorf("%s was moved from %d to %d", e.ID, was.Partition, e.Partition)
		}
	}
	if len(im.Warnings) != moved || moved == 0 {
		t.Errorf("%d endpoints were moved, warnings %q", moved, im.Warnings)
	}
}

// A large import takes several batches, more than the outbox can hold at once, and keeps the order.
func TestImportOfMany(t *testing.T) {
	a := node(t, broker(t), Config{Node: "a"})
	ids := manyEndpoints(t, a, 2*importBatch+1)
	var doc bytes.Buffer
	noError(t, a.Export(t.Context(), &doc))
	b := node(t, broker(t), Config{Node: "b"}, func(o *options) { o.log.Limits.Outbox = 3 * importBatch })
	b.SetOwner(true)
	var reports []int
	im, err := b.Import(t.Context(), &doc, ImportOptions{CheckURL: anyURL}, func(im ImportProgress) {
		reports = append(reports, im.Done)
	})
	if err != nil || im.Done != len(ids)+1 ||
		!slices.Equal(reports, []int{importBatch + 1, 2*importBatch + 1, len(ids) + 1}) {
		t.Fatalf("%+v, %v, progress %v", im, err, reports)
	}
	i := len(ids)
	for e := range b.View().NewestFirst(entity.KindEndpoint, 0) {
		if i--; e.ID != ids[i] {
			t.Fatalf("%s is at place %d, want %s", e.ID, i, ids[i])
		}
	}
}

// withChecksum returns a document in which a text is replaced and the checksum is correct again.
func withChecksum(t *testing.T, doc []byte, from, to string) []byte {
	t.Helper()
	head, footer, _ := bytes.Cut(bytes.Replace(doc, []byte(from), []byte(to), 1), []byte(`],"sha256":"`))
	sum := sha256.Sum256(head)
	return slices.Concat(head, []byte(`],"sha256":"`+hex.EncodeToString(sum[:])), footer[64:])
}

// A document that was changed, with a correct checksum, is refused because of its MAC. A document without a MAC is
// refused unless Unsigned is set. Values that the API would refuse are always refused.
func TestImportValidatesTheDocument(t *testing.T) {
	a := node(t, broker(t), Config{Node: "a"})
	a.create(t)
	token, _, err := a.AddUser(t.Context(), "ops@example.com", ReadWrite)
	if err != nil {
		t.Fatal(err)
	}
	doc := exportOf(t, a)
	if hash := entity.HashOf(token); bytes.Contains(doc, []byte(base64.StdEncoding.EncodeToString(hash[:]))) ||
		bytes.Contains(doc, []byte(`"link"`)) {
		t.Errorf("a one-time link is exported: %s", doc)
	}
	b := node(t, broker(t), Config{Node: "b"})
	load := func(doc []byte, options ImportOptions) error {
		_, err := b.Import(t.Context(), bytes.NewReader(doc), options, func(ImportProgress) {})
		return err
	}
	f := func(what string, doc []byte, options ImportOptions, want error, words string) {
		t.Helper()
		if err := load(doc, options); !errors.Is(err, want) || !strings.Contains(err.Error(), words) {
			t.Errorf("%s: %v", what, err)
		}
	}
	signed := ImportOptions{CheckURL: anyURL}
	f("changed", withChecksum(t, doc, "https://example.com/hook", "https://elsewhere.example/"), signed,
		document.ErrInvalid,
		"its MAC does not match")
	f("of another key", withChecksum(t, doc, `"mac_key":"test:`, `"mac_key":"else:`), signed, seal.ErrMissingKey,
		"the document needs the master key else, fingerprint ")
	old := bytes.Replace(doc, []byte(`"version":2`), []byte(`"version":1`), 1)
	old = withChecksum(t, old, "", "")
	f("of an older version", old, signed, document.ErrUnsigned, "no MAC")

	unsigned := ImportOptions{CheckURL: anyURL, Unsigned: true}
	changed := withChecksum(t, doc, "https://example.com/hook", "https://elsewhere.example/")
	f("changed, and not unsigned", changed, unsigned, document.ErrInvalid, "its MAC does not match")
	private := ImportOptions{Unsigned: true, CheckURL: func(string) error {
		return errors.New("URL names an address that is not public")
	}}
	f("a URL inside", old, private, document.ErrInvalid, "not public")
	for from, to := range map[string]string{
		`"timeout_seconds":15`: `"timeout_seconds":86400`, `"status":200`: `"status":302`,
		`"content_type":"application/json"`: `"content_type":"text/html"`,
		`"max_attempts":10`:                 `"max_attempts":1000000`, `"provider":"generic"`: `"provider":"x"`,
		`"max_in_flight":64`: `"max_in_flight":0`,
		`"ops@example.com"`:  `"other@example.com"`,
	} {
		f(to, withChecksum(t, old, from, to), unsigned, document.ErrInvalid, "")
	}
	if len(exportedEntities(b)) != 1 {
		t.Errorf("a refused import has written %v", exportedEntities(b))
	}
	// Members that the service never leaves empty are set.
	empty := withChecksum(t, withChecksum(t, old, `"metadata":{}`, `"metadata":null`), `"headers":{}`, `"headers":null`)
	noError(t, load(empty, unsigned))
	page, _ := b.Endpoints(b.Account().ID, 0, 1)
	if len(page) != 1 || page[0].Metadata == nil || page[0].Destinations[0].Headers == nil {
		t.Errorf("%+v", page)
	}
}

// auditText returns the entries of the topic audit as text.
func auditText(t *testing.T, conf stream.Config) (words []string) {
	t.Helper()
	reader := must(stream.NewReader(conf, "test"))(t)
	defer reader.Close()
	ends, err := reader.Ends(t.Context(), stream.AuditLog)
	if err != nil {
		t.Fatal(err)
	}
	p := stream.Partition{Topic: stream.AuditLog}
	err = reader.Read(t.Context(), p, 0, func(r *stream.Record) error {
		e, err := audit.Decode(r)
		if err != nil {
			return err
		}
		words = append(words, strings.TrimSpace(fmt.Sprintf("%s %s %s %v", e.Actor.Type, e.Actor.Name, e.Action, e.Changes)))
		if r.Offset == ends[p]-1 {
			return stream.ErrStop
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return words
}

// Endpoints imported as paused stay so until Resume, which resumes those that were running, and those only. A repeated
// import and a repeated Resume change nothing.
func TestImportPausesUntilResume(t *testing.T) {
	bubble(t, func(t *testing.T, before stream.Config) {
		old := node(t, before, Config{Node: "a"})
		running, paused, later := old.create(t), old.create(t), old.create(t)
		pause := func(n *testNode, id string, is bool) {
			t.Helper()
			if _, err := n.UpdateEndpoint(t.Context(), id, func(e *Endpoint) error { e.Paused = is; return nil }); err != nil {
				t.Fatal(err)
			}
		}
		pause(old, paused.ID, true)
		doc := exportOf(t, old)

		young := node(t, bubbleBroker(t), Config{Node: "b"})
		young.SetOwner(true)
		ctx := WithOrigin(t.Context(), Origin{Actor: audit.Operator})
		load := func(changes bool) {
			t.Helper()
			im, err := young.Import(ctx, bytes.NewReader(doc), ImportOptions{Paused: true, CheckURL: anyURL},
				func(ImportProgress) {})
			if err != nil || im.Changed > 0 != changes {
				t.Fatalf("%+v, %v", im, err)
			}
		}
		is := func(when string, want map[string]bool) {
			t.Helper()
			for id, paused := range want {
				if e, _ := young.Endpoint(id); e == nil || e.Paused != paused {
					t.Errorf("%s: endpoint %s is %+v", when, id, e)
				}
			}
		}
		resume := func(doc []byte, want int, fault error) {
			t.Helper()
			n, err := young.Resume(ctx, bytes.NewReader(doc), ImportOptions{CheckURL: anyURL})
			if !errors.Is(err, fault) || n != want {
				t.Fatalf("resumed %d, %v; want %d, %v", n, err, want, fault)
			}
		}
		load(true)
		load(false)
		is("after the import", map[string]bool{running.ID: true, paused.ID: true, later.ID: true})
		pause(young, later.ID, false) // somebody needs it at once
		resume(bytes.Replace(doc, []byte(running.Name), []byte("another"), 1), 0, document.ErrInvalid)
		resume(doc, 1, nil)
		resume(doc, 0, nil)
		is("after Resume", map[string]bool{running.ID: false, paused.ID: true, later.ID: false})
	})
}
