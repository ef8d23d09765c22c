package finding

import (
	"bytes"
	"errors"
	"net/netip"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/eventrelay/relay/test/is"
	"github.com/eventrelay/relay/test/must"
)

var arrival = time.Date(2026, 3, 1, 23, 59, 59, 5e6, time.UTC)

// fullHit returns a hit with every member set, in the form in which it is decoded.
func fullHit() *Hit {
	location := Location{Source: Drain, Label: "shop", DrainID: "drn_1", File: "a.js", Line: 7, URL: "https://x.example/p"}
	return &Hit{
		Account: "acc_1", Finding: (&Keys{Salt: []byte("salt")}).ID("r", "fpr_1", [16]byte{}),
		ID: HitID("drn_1", "r1", 9), Day: "2026-03-01", At: arrival, ObservedAt: arrival.Add(-time.Hour), N: 3,
		Kind: Secret, Rule: "r", RuleName: "Key", Source: Drain, Channel: "generic", Sender: "drn_1", Severity: Critical,
		Unverified: true, Test: true, Billed: true, Masked: "sk_live_***abcd", Fingerprint: "fpr_1", Location: location,
		LocationHash: location.Hash(), Environment: "production", Release: "1.2", KeyID: "key_1", Method: "POST",
		Agent: "vector/0.1", RemoteIP: netip.MustParseAddr("192.0.2.1"),
	}
}

func TestHitRoundTrip(t *testing.T) {
	want := fullHit()
	got, err := Decode(want.Encode())
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Fatalf("decoded %+v, %v\nwant %+v", got, err, want)
	}
	for i, v := 0, reflect.ValueOf(*want); i < v.NumField(); i++ {
		if v.Field(i).IsZero() {
			t.Errorf("%s is not part of the test", v.Type().Field(i).Name)
		}
	}
	if _, err := DecodeCounts(want.Encode()); !errors.Is(err, ErrNotCounts) {
		t.Errorf("a hit as counts: %v", err)
	}
}

// Encode completes what follows from other members, so that every sender's records are alike.
func TestEncodeCompletes(t *testing.T) {
	h := fullHit()
	h.Day, h.N, h.LocationHash, h.ObservedAt = "", 0, [16]byte{}, arrival.Add(time.Hour)
	got := must.Get(Decode(h.Encode()))(t)
	if got.Day != "2026-03-01" || got.N != 1 || got.LocationHash != h.Location.Hash() || !got.ObservedAt.Equal(arrival) {
		t.Errorf("completed: %+v", got)
	}
}

func TestDecodeRefuses(t *testing.T) {
	for name, change := range map[string]func(*Hit){
		"no account": func(h *Hit) { h.Account = "" },
		"no rule":    func(h *Hit) { h.Rule = "" },
		"no sender":  func(h *Hit) { h.Sender = "" },
		"finding":    func(h *Hit) { h.Finding = "fnd_x" },
		"kind":       func(h *Hit) { h.Kind = "x" },
		"source":     func(h *Hit) { h.Source = "x" },
		"day":        func(h *Hit) { h.Day = "2026-02-31" },
		"time":       func(h *Hit) { h.At = time.Time{}; h.Day = "2026-02-01" },
	} {
		h := fullHit()
		change(h)
		if _, err := Decode(h.Encode()); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
	for _, text := range []string{``, `{}`, `{"v":2,"t":"hit"}`, `{"v":1,"t":"x"}`, `{"v":1,"t":"hit"}`, `[]`,
		strings.Replace(string(fullHit().Encode()), `"sev":"critical"`, `"sev":"worst"`, 1)} {
		if _, err := Decode([]byte(text)); err == nil {
			t.Errorf("%s: accepted", text)
		}
	}
}

func TestCountsRoundTrip(t *testing.T) {
	want := &Counts{Account: "acc_1", Sender: "drn_1", Minute: arrival.Truncate(time.Minute), Node: "n", Boot: [16]byte{1},
		Version: 4, Requests: 5, Lines: 6, Bytes: 7, Hits: 8, Rejected: 9, LastAt: arrival, Platform: "generic",
		LastError: "too_large"}
	got, err := DecodeCounts(want.Encode())
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Fatalf("decoded %+v, %v", got, err)
	}
	if _, err := Decode(want.Encode()); !errors.Is(err, ErrNotHit) {
		t.Errorf("counts as a hit: %v", err)
	}
	want.Account = ""
	if _, err := DecodeCounts(want.Encode()); err == nil {
		t.Error("counts without an account: accepted")
	}
}

func TestUntrustedTextIsCleaned(t *testing.T) {
	evil := "a\u202eb\u200bc\x1b[31m\x00d\u0085e\U000e0041f\xffg\u2028h\nj\ufeff<b>"
	for in, want := range map[string]string{
		evil: "abc[31mdefgh\nj<b>", "plain": "plain", "Größe 日本": "Größe 日本", "a\ufffdb": "a\ufffdb", "": "",
	} {
		if got := Clean(in, 100); got != want {
			t.Errorf("Clean(%q) = %q, want %q", in, got, want)
		}
	}
	for _, in := range []string{"äöü", "ä\x00öü"} {
		if got := Clean(in, 3); got != "ä" {
			t.Errorf("Clean(%q, 3) = %q", in, got)
		}
	}
	h := fullHit()
	for _, text := range []*string{&h.Rule, &h.Channel, &h.Masked, &h.Environment, &h.Release, &h.Method, &h.Agent,
		&h.Location.Label, &h.Location.File, &h.Location.Function, &h.Location.URL, &h.Location.Pointer} {
		*text = "x" + evil + strings.Repeat("y", 1000)
	}
	b := h.Encode()
	if len(b) > 4000 {
		t.Errorf("the record has %d bytes", len(b))
	}
	got := must.Get(Decode(b))(t)
	for _, text := range []string{got.Rule, got.Channel, got.Masked, got.Environment, got.Release, got.Method, got.Agent,
		got.Location.Label, got.Location.File, got.Location.Function, got.Location.URL, got.Location.Pointer} {
		if !strings.HasPrefix(text, "xabc[31mdefgh j<b>y") {
			t.Errorf("decoded %q", text)
		}
	}
}

func TestIDsFollowFromTheSecret(t *testing.T) {
	keys := Keys{Salt: []byte("salt"), Key: [32]byte{1}}
	secret := []byte("s3cr3t")
	fpr := keys.Fingerprint(keys.SaltedHash(secret))
	if len(fpr) != 36 || !strings.HasPrefix(fpr, FingerprintPrefix) {
		t.Errorf("fingerprint %q", fpr)
	}
	here, there := Location{Source: Drain, Label: "a"}.Hash(), Location{Source: Drain, Label: "b"}.Hash()
	id := keys.ID("r", fpr, here)
	if !Valid(id) || id != keys.ID("other", fpr, there) {
		t.Errorf("the id %q depends on more than the fingerprint", id)
	}
	if a, b := keys.ID("r", "", here), keys.ID("r", "", there); a == b || a == keys.ID("q", "", here) || !Valid(a) {
		t.Error("without a fingerprint, rule and location must make the id")
	}
	for _, other := range []Keys{{Salt: []byte("tlas"), Key: keys.Key}, {Salt: keys.Salt, Key: [32]byte{2}}} {
		if other.Fingerprint(other.SaltedHash(secret)) == fpr {
			t.Error("another account has the same fingerprint")
		}
	}
	if HitID("a", "b", 1) == HitID("a", "b", 2) || HitID("a", "b", 1) == HitID("ab", "", 1) {
		t.Error("HitID")
	}
	if bytes.Contains(fullHit().Encode(), secret) {
		t.Error("the record has the secret")
	}
	seen := make(map[int32]bool)
	for i := range int32(64) {
		p := PartitionOf(keys.ID("r", "", [16]byte{byte(i)}), 8)
		if p < 0 || p > 7 {
			t.Fatalf("partition %d", p)
		}
		seen[p] = true
	}
	is.Equal(t, len(seen), 8, "64 findings use … of 8 partitions")
}

func TestLocationsGroup(t *testing.T) {
	for name, c := range map[string]struct {
		a, b Location
		same bool
	}{
		"line": {
			Location{Source: SDK, File: "a", Function: "f", Line: 1},
			Location{Source: SDK, File: "a", Function: "f", Line: 2}, true},
		"function": {Location{Source: SDK, File: "a", Function: "f"}, Location{Source: SDK, File: "a", Function: "g"}, false},
		"drain":    {Location{Source: Drain, DrainID: "drn_1"}, Location{Source: Drain, DrainID: "drn_2"}, false},
		"app":      {Location{Source: Drain, Label: "a"}, Location{Source: Drain, Label: "b"}, false},
		"query": {Location{Source: Scan, URL: "https://A.example/x?a=1"},
			Location{Source: Scan, URL: "http://a.example/x#b"}, true},
		"path": {Location{Source: Scan, URL: "https://a.example/x"},
			Location{Source: Scan, URL: "https://a.example/y"}, false},
		"index": {Location{Source: Event, Pointer: "/items/0/key"},
			Location{Source: Event, Pointer: "/items/12/key"}, true},
		"pointer": {Location{Source: Event, Pointer: "/a"}, Location{Source: Event, Pointer: "/b"}, false},
		"source":  {Location{Source: Event}, Location{Source: Drain}, false},
		"tripwires": {Location{Source: FromTripwire, TripwireID: "a"},
			Location{Source: FromTripwire, TripwireID: "b"}, false},
	} {
		is.Equal(t, c.a.Hash() == c.b.Hash(), c.same, "%s: same location", name)
	}
	h := fullHit()
	h.Location.URL = "https://user:pw@x.example/p?token=1#f"
	if got, err := Decode(h.Encode()); err != nil || got.Location.URL != "https://x.example/p" {
		t.Errorf("URL of the location: %v, %v", got.Location.URL, err)
	}
}

func TestSeverityDependsOnTheContext(t *testing.T) {
	for name, c := range map[string]struct {
		Context
		want Severity
	}{
		"in logs":          {Context{Severity: Critical, Server: true}, High},
		"low rule":         {Context{Severity: Low, Server: true}, Low},
		"in public":        {Context{Severity: Medium, Server: true, Public: true}, Critical},
		"public by nature": {Context{Severity: Medium, Public: true}, Medium},
		"test key":         {Context{Severity: Critical, Server: true, Public: true, Test: true}, Low},
		"generic":          {Context{Rule: RuleGeneric, Severity: Critical, Server: true, Public: true}, Medium},
		"custom":           {Context{Rule: "custom:x", Severity: Low}, Medium},
		"custom, set low":  {Context{Rule: "custom:x", Own: Low, Severity: Low}, Low},
		"custom, set high": {Context{Rule: "custom:x", Own: Critical, Public: true, Server: true}, High},
		"tripwire used":    {Context{Kind: Tripwire, Source: FromTripwire}, Critical},
		"tripwire tested":  {Context{Kind: Tripwire, Source: FromTripwire, Test: true}, Low},
		"tripwire in logs": {Context{Kind: Tripwire, Source: Drain, Severity: Critical}, High},
		"our own key":      {Context{Severity: High, Source: Drain, KeyWorks: true}, Critical},
		"flood":            {Context{Rule: RuleFlood, Severity: Low}, High},
	} {
		is.Equal(t, SeverityOf(c.Context), c.want, name)
	}
	for s := Low; s <= Critical; s++ {
		is.Equal(t, must.Get(ParseSeverity(s.String()))(t), s, s)
	}
	if _, err := ParseSeverity(""); err == nil {
		t.Error("an empty severity exists")
	}
}

func TestNextStatuses(t *testing.T) {
	want := map[Status]string{
		Open: "acknowledged resolved ignored", Acknowledged: "open resolved ignored", Resolved: "open", Ignored: "open",
	}
	for _, from := range Statuses {
		var may []string
		for _, to := range Statuses {
			if from.MayBecome(to) {
				may = append(may, string(to))
			}
		}
		is.Equal(t, strings.Join(may, " "), want[from], from)
		is.Equal(t, from.Outstanding(), from == Open || from == Acknowledged, "%s: outstanding", from)
	}
	for name, c := range map[string]struct {
		after      time.Duration
		unverified bool
		want       bool
	}{
		"at once": {0, false, false}, "an hour": {time.Hour, false, false}, "later": {time.Hour + 1, false, true},
		"unverified": {2 * time.Hour, true, false}, "before": {-2 * time.Hour, false, false},
	} {
		h := Hit{ObservedAt: arrival.Add(c.after), Unverified: c.unverified}
		is.Equal(t, h.Regresses(arrival), c.want, name)
	}
}
