package config

import (
	"errors"
	"fmt"
	"regexp"
	"testing"
	"time"

	"github.com/eventrelay/relay/pkg/config/entity"
	"github.com/eventrelay/relay/pkg/config/leak"
	"github.com/eventrelay/relay/pkg/config/seal"
	"github.com/eventrelay/relay/test/is"
)

// drain returns a drain with that token, as the API would make it.
func drain(k *seal.Keyring, name, token string) *leak.Drain {
	d := &leak.Drain{Meta: entity.Meta{ID: "drn_" + name}, Name: name, Platform: leak.PlatformAuto, CreatedBy: "key_1"}
	d.Sealed.Token = k.SealString(d.ID, seal.FieldToken, token)
	return d
}

// A drain is found by its id and its token together. Only the newest token counts.
func TestDrainByToken(t *testing.T) {
	ctx := t.Context()
	n := node(t, broker(t), Config{Node: "a"})
	for _, name := range []string{"one", "two"} {
		must(entity.Create(ctx, n, drain(n.Keyring, name, "token-"+name)))(t)
	}
	f := func(id, token string, want entity.Presence) {
		t.Helper()
		if d, got := n.DrainByToken(id, token); got != want || (d != nil) != (want == entity.Present) {
			t.Errorf("%s with %q: %v, want %v", id, token, got, want)
		}
	}
	f("drn_one", "token-one", entity.Present)
	f("drn_one", "token-two", entity.Unknown)
	f("drn_one", "", entity.Unknown)
	f("drn_none", "token-one", entity.Unknown)
	f("drn_none", "", entity.Unknown)
	must(entity.Update(ctx, n, "drn_one", func(d *leak.Drain) error {
		d.Sealed.Token = n.Keyring.SealString(d.ID, seal.FieldToken, "rotated")
		return nil
	}))(t)
	f("drn_one", "token-one", entity.Unknown)
	f("drn_one", "rotated", entity.Present)
	noError(t, entity.Delete[leak.Drain](ctx, n, "drn_one"))
	f("drn_one", "rotated", entity.Deleted)
}

// The secrets of a drain are opened under their own fields, survive a rewrap, and change no more than they say. Only
// Vercel signs.
func TestDrainSecrets(t *testing.T) {
	ctx := t.Context()
	n := node(t, broker(t), Config{Node: "a"})
	d := drain(n.Keyring, "one", "token-one")
	d.Sealed.SigningSecret = n.Keyring.SealString(d.ID, seal.FieldSigningSecret, "signs")
	d.Sealed.VerifyCode = n.Keyring.SealString(d.ID, seal.FieldVerifyCode, "proves")
	d = must(entity.Create(ctx, n, d))(t)
	if s, err := n.DrainSecrets(d); err != nil || s != (leak.DrainSecrets{Signing: "signs", VerifyCode: "proves"}) {
		t.Errorf("%+v, %v", s, err)
	}
	sealed := 0
	eachSealed(d, func(entity, field string, s *seal.Secret) {
		sealed++
		if _, err := n.Keyring.OpenString(entity, field, *s); err != nil {
			t.Error(err)
		}
	})
	is.Equal(t, sealed, 3, "sealed secrets")
	swapped := *d
	swapped.Sealed.SigningSecret = d.Sealed.VerifyCode
	if _, err := n.DrainSecrets(&swapped); !errors.Is(err, seal.ErrOpen) {
		t.Errorf("a secret under another field: %v", err)
	}
	other := *d
	other.Platform = leak.PlatformHeroku
	is.ErrorIs(t, other.Validate(), leak.ErrUnsigned, "a signing secret for heroku")
}

// dsn returns a DSN with that key, as the API would make it.
func dsn(k *seal.Keyring, name, key string) *leak.DSN {
	d := &leak.DSN{Meta: entity.Meta{ID: "dsn_" + name}, Name: name, Platform: leak.DSNServer, CreatedBy: "key_1"}
	d.Sealed.Key = k.SealString(d.ID, seal.FieldDSNKey, key)
	return d
}

// A DSN is found by its id and its public key together, which has the salt of the account. Only the newest key counts.
func TestDSNs(t *testing.T) {
	ctx := t.Context()
	n := node(t, broker(t), Config{Node: "a"})
	d := must(entity.Create(ctx, n, dsn(n.Keyring, "one", leak.NewDSNKey())))(t)
	text, err := n.PublicKey(ctx, d)
	if err != nil || len(text) != 46 || n.DSNByKey("dsn_one", text) == nil {
		t.Fatalf("%q, %v", text, err)
	}
	if keys, err := n.FindingKeys(ctx); err != nil || string(n.Account().FPSalt) != string(keys.Salt) {
		t.Errorf("salt %x, %v", keys.Salt, err)
	}
	wrongSalt := text[:24] + "0000000000000000000001"
	for _, x := range [][2]string{{"dsn_two", text}, {"dsn_one", ""}, {"dsn_one", text[:45]}, {"dsn_one", text + "0"},
		{"dsn_one", wrongSalt}, {"dsn_one", "pk" + leak.NewDSNKey() + text[24:]}, {"dsn_one", "xx" + text[2:]}} {
		if n.DSNByKey(x[0], x[1]) != nil {
			t.Errorf("%v is accepted", x)
		}
	}
	d, err = entity.Update(ctx, n, d.ID, func(d *leak.DSN) error {
		d.Sealed.Key = n.Keyring.SealString(d.ID, seal.FieldDSNKey, leak.NewDSNKey())
		return nil
	})
	if err != nil || n.DSNByKey("dsn_one", text) != nil {
		t.Errorf("the old key is accepted: %v", err)
	}
	if text, err = n.PublicKey(ctx, d); err != nil || n.DSNByKey("dsn_one", text) == nil {
		t.Errorf("the new key is not accepted: %v", err)
	}
	if err := entity.Delete[leak.DSN](ctx, n, d.ID); err != nil || n.DSNByKey("dsn_one", text) != nil {
		t.Errorf("a deleted DSN: %v", err)
	}
}

// newDomain returns a domain as the API makes it.
func newDomain(id, hostname string, created time.Time) *leak.Domain {
	return &leak.Domain{Meta: entity.Meta{ID: "dom_" + id, CreatedAt: created}, Hostname: hostname, CreatedBy: "key_1"}
}

// A domain is created with a token of its own. Each hostname exists once.
func TestDomains(t *testing.T) {
	n := node(t, broker(t), Config{Node: "a"})
	tokens := map[string]bool{}
	for i := range leak.MaxDomains {
		d, err := entity.Create(t.Context(), n, newDomain(fmt.Sprint(i), fmt.Sprintf("s%d.example.com", i), time.Time{}))
		if err != nil || !regexp.MustCompile(`^rvf_[0-9A-Za-z]{32}$`).MatchString(d.Token) || tokens[d.Token] {
			t.Fatalf("%+v, %v", d, err)
		}
		tokens[d.Token] = true
	}
	noError(t, entity.Delete[leak.Domain](t.Context(), n, "dom_4"))
	if _, err := entity.Create(t.Context(), n, newDomain("again", "s0.example.com", time.Time{})); !errors.Is(
		err, ErrConflict) {
		t.Errorf("a hostname twice: %v", err)
	}
	if _, err := entity.Create(t.Context(), n, newDomain("5", "s4.example.com", time.Time{})); err != nil {
		t.Errorf("the hostname of a deleted domain: %v", err)
	}
}

// A proof verifies a domain. It expires when its own proof is missed twice, a day apart, or when none came in a week; a
// new proof verifies it again, unless it never had one.
func TestDomainStatus(t *testing.T) {
	start := time.Now().UTC().Truncate(time.Second)
	n := node(t, broker(t), Config{Node: "a"})
	must(entity.Create(t.Context(), n, newDomain("1", "www.example.com", start)))(t)
	check := func(after time.Duration, method, wrong, want string) *leak.Domain {
		t.Helper()
		at := start.Add(after)
		d, err := n.RecordDomainCheck(t.Context(), "dom_1", leak.DomainCheck{At: at, Method: method, Error: wrong})
		if err != nil || d.Status(at) != want {
			t.Errorf("after %v: %s, want %s, %v", after, d.Status(at), want, err)
		}
		return d
	}
	const hour, day = time.Hour, 24 * time.Hour
	check(0, leak.DomainByDNS, leak.DomainNotFound, leak.DomainPending)
	if d := check(hour, leak.DomainByDNS, "", leak.DomainVerified); !d.VerifiedAt.Equal(start.Add(hour)) ||
		d.Method != leak.DomainByDNS {
		t.Errorf("%+v", d)
	}
	check(2*hour, leak.DomainByDNS, leak.DomainUnreachable, leak.DomainVerified)
	check(2*hour+day-time.Second, leak.DomainByDNS, leak.DomainNotFound, leak.DomainVerified)
	// the other method proves nothing, and misses nothing
	check(3*hour+day, leak.DomainByHTTP, leak.DomainNotFound, leak.DomainVerified)
	d := check(3*hour+day, leak.DomainByDNS, "", leak.DomainVerified)
	if !d.MissedAt.IsZero() || !d.VerifiedAt.Equal(start.Add(hour)) {
		t.Errorf("after a proof: %+v", d)
	}
	check(4*hour+day, leak.DomainByDNS, leak.DomainMismatch, leak.DomainVerified)
	check(5*hour+2*day, leak.DomainByDNS, leak.DomainMismatch, leak.DomainExpired)
	check(4*day, leak.DomainByDNS, leak.DomainNotFound, leak.DomainExpired)
	if d := check(5*day, leak.DomainByHTTP, "", leak.DomainVerified); !d.VerifiedAt.Equal(start.Add(5 * day)) {
		t.Errorf("verified again: %+v", d)
	}

	late, err := entity.Create(t.Context(), n, newDomain("2", "late.example.com", start))
	if err != nil || late.Status(start.Add(7*day-time.Second)) != leak.DomainPending || late.Ended(start) {
		t.Fatalf("%+v, %v", late, err)
	}
	late, err = n.RecordDomainCheck(t.Context(), "dom_2", leak.DomainCheck{At: start.Add(7 * day),
		Method: leak.DomainByDNS})
	if err != nil || !late.Ended(start.Add(7*day)) || !late.VerifiedAt.IsZero() {
		t.Errorf("a proof after a week: %+v, %v", late, err)
	}
}

// The result of a check that began earlier does not replace a later one.
func TestDomainChecksAreInOrder(t *testing.T) {
	start := time.Now().UTC().Truncate(time.Second)
	n := node(t, broker(t), Config{Node: "a"})
	must(entity.Create(t.Context(), n, newDomain("1", "www.example.com", start)))(t)
	var d *leak.Domain
	for _, check := range []leak.DomainCheck{{At: start.Add(time.Minute), Method: leak.DomainByDNS},
		{At: start, Method: leak.DomainByHTTP, Error: leak.DomainMismatch}} {
		var err error
		if d, err = n.RecordDomainCheck(t.Context(), "dom_1", check); err != nil {
			t.Fatal(err)
		}
	}
	if d.Checked.Error != "" || d.Status(start) != leak.DomainVerified {
		t.Errorf("%+v", d)
	}
}

func newScan(id string) *leak.Scan {
	return &leak.Scan{Meta: entity.Meta{ID: "scn_" + id}, Domain: "dom_1", Hostname: "www.example.com",
		Trigger: leak.ScanManual}
}

// One scan runs at a time. One node has it, until its time has passed or it restarts; then another begins it again, and
// the first can neither change nor end it. It ends once.
func TestScanHasOneNode(t *testing.T) {
	ctx := t.Context()
	n := node(t, broker(t), Config{Node: "a"})
	must(n.CreateScan(ctx, newScan("1")))(t)
	if _, err := n.CreateScan(ctx, newScan("2")); !errors.Is(err, leak.ErrScanRunning) {
		t.Errorf("a second scan: %v", err)
	}
	if _, err := n.CreateScan(ctx, newScan("1")); !errors.Is(err, ErrConflict) {
		t.Errorf("the same id twice: %v", err)
	}
	first, err := n.BeginScan(ctx, "scn_1", "a", time.Hour)
	if err != nil || first.Status != leak.ScanRunning || first.Try != 1 || first.StartedAt.IsZero() {
		t.Fatalf("%+v, %v", first, err)
	}
	if _, err := n.BeginScan(ctx, "scn_1", "b", time.Hour); !errors.Is(err, leak.ErrScanTaken) {
		t.Errorf("begun by two: %v", err)
	}
	must(n.UpdateScan(ctx, "scn_1", 1, -time.Second, func(s *leak.Scan) { s.Pages = 3 }))(t)
	second, err := n.BeginScan(ctx, "scn_1", "b", time.Hour)
	if err != nil || second.Try != 2 || !second.StartedAt.Equal(first.StartedAt) || n.OpenScan().ID != "scn_1" {
		t.Fatalf("%+v, %v", second, err)
	}
	if third, err := n.BeginScan(ctx, "scn_1", "b", time.Hour); err != nil || third.Try != 3 {
		t.Fatalf("after a restart of its node: %+v, %v", third, err)
	}
	end := func(s *leak.Scan) { s.Status, s.Pages = leak.ScanCompleted, 7 }
	if _, err := n.UpdateScan(ctx, "scn_1", 1, time.Hour, end); !errors.Is(err, leak.ErrScanTaken) {
		t.Errorf("ended by the first: %v", err)
	}
	if s, err := n.UpdateScan(ctx, "scn_1", 3, time.Hour, end); err != nil || s.FinishedAt.IsZero() ||
		n.OpenScan() != nil {
		t.Errorf("%+v, %v", s, err)
	}
	if _, err := n.UpdateScan(ctx, "scn_1", 3, time.Hour, end); !errors.Is(err, leak.ErrScanTaken) {
		t.Errorf("ended twice: %v", err)
	}
	if _, err := n.CreateScan(ctx, newScan("2")); err != nil {
		t.Errorf("a scan after the first: %v", err)
	}
}

// The newest hundred scans are kept.
func TestOldScansAreRemoved(t *testing.T) {
	ctx := t.Context()
	n := node(t, broker(t), Config{Node: "a"})
	for i := range leak.MaxScans + 3 {
		name := fmt.Sprint(i)
		must(n.CreateScan(ctx, newScan(name)))(t)
		must(n.UpdateScan(ctx, "scn_"+name, 0, 0, func(s *leak.Scan) { s.Status = leak.ScanFailed }))(t)
	}
	noError(t, n.sweepOnce(ctx))
	all, _ := n.Scans(n.Account().ID, []string{"dom_1"}, 0, 1000)
	if len(all) != leak.MaxScans || all[leak.MaxScans-1].ID != "scn_3" {
		t.Errorf("%d scans", len(all))
	}
}
