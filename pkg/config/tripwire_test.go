package config

import (
	"bytes"
	"errors"
	"fmt"
	"net/netip"
	"testing"
	"time"

	"github.com/eventrelay/relay/pkg/apikey"
	"github.com/eventrelay/relay/pkg/config/entity"
	"github.com/eventrelay/relay/pkg/config/leak"
	"github.com/eventrelay/relay/pkg/id"
	"github.com/eventrelay/relay/test/is"
)

func newTripwire(name, kind string) *leak.Tripwire {
	t := &leak.Tripwire{Meta: entity.Meta{ID: "trw_" + name}, Domain: "dom_1", Kind: kind, Label: name, CreatedBy: "key_1"}
	if kind == leak.TripwireFile {
		t.File = leak.FakeFiles[0]
	}
	return t
}

// The secrets of a tripwire have the form of real ones and find it, and nothing that is stored has them. After a
// rotation, and after its end, the former ones find nothing.
func TestTripwires(t *testing.T) {
	ctx := t.Context()
	n := node(t, broker(t), Config{Node: "a"})
	for _, kind := range leak.TripwireKinds {
		made, text, err := n.CreateTripwire(ctx, newTripwire(kind, kind))
		if err != nil {
			t.Fatal(err)
		}
		if (text.Key != "") != (kind != leak.TripwireURL) || (text.Token != "") != (kind != leak.TripwireKey) {
			t.Fatalf("%s: %+v", kind, text)
		}
		finds := func(text leak.TripwireText) bool {
			byKey, byToken := n.TripwireByKey(text.Key), n.TripwireByToken(text.Token)
			return (text.Key == "" || byKey == made.ID) && (text.Token == "" || byToken != nil && byToken.ID == made.ID)
		}
		findsNothing := func(text leak.TripwireText) bool {
			return n.TripwireByKey(text.Key) == "" && n.TripwireByToken(text.Token) == nil
		}
		if text.Key != "" && !apikey.HasFormat(text.Key) {
			t.Errorf("%s: not the form of a key", kind)
		}
		if _, err := id.Parse("", text.Token); text.Token != "" && err != nil {
			t.Errorf("%s: not the form of a token: %v", kind, err)
		}
		if !finds(text) || !findsNothing(leak.TripwireText{Key: text.Token, Token: text.Key}) ||
			made.Status() != leak.TripwireArmed {
			t.Errorf("%s: wrong one is found", kind)
		}
		for _, secret := range []string{text.Key, text.Token} {
			fingerprint, _ := n.KeyFingerprint(ctx, secret)
			if x := n.TripwireByFingerprint(fingerprint); secret != "" && (x == nil || x.ID != made.ID) {
				t.Errorf("%s: the fingerprint finds %v", kind, x)
			}
			if secret != "" && bytes.Contains(mustJSON(t, made), []byte(secret)) {
				t.Errorf("%s: the secret is stored", kind)
			}
		}
		if _, err := n.Authenticate(text.Key); !errors.Is(err, ErrInvalidKey) {
			t.Errorf("%s: it authenticates: %v", kind, err)
		}
		_, again, err := n.RotateTripwire(ctx, made.ID, "call")
		if err != nil || !finds(again) || !findsNothing(text) {
			t.Errorf("%s: rotated: %v", kind, err)
		}
		if _, third, err := n.RotateTripwire(ctx, made.ID, "call"); err != nil || third != (leak.TripwireText{}) ||
			!finds(again) {
			t.Errorf("%s: rotated again by the same call: %v", kind, err)
		}
		if err := entity.Delete[leak.Tripwire](ctx, n, made.ID); err != nil || !findsNothing(again) {
			t.Errorf("%s: deleted: %v", kind, err)
		}
	}
}

// A domain has three tripwires, whichever nodes create them.
func TestTripwiresAreBounded(t *testing.T) {
	ctx := t.Context()
	b := broker(t)
	nodes := []*testNode{node(t, b, Config{Node: "a"}), node(t, b, Config{Node: "b"})}
	errs := make(chan error, 8)
	for i := range cap(errs) {
		go func() {
			_, _, err := nodes[i%2].CreateTripwire(ctx, newTripwire(fmt.Sprint(i), leak.TripwireKey))
			errs <- err
		}()
	}
	made := 0
	for range cap(errs) {
		err := <-errs
		if err == nil {
			made++
		} else if !errors.Is(err, leak.ErrTooManyTripwires) {
			t.Error(err)
		}
	}
	all, _ := entity.List[leak.Tripwire](nodes[0], nodes[0].Account().ID, 0, 100, nil)
	if made != leak.MaxTripwires || len(all) != leak.MaxTripwires {
		t.Errorf("%d were created, and there are %d", made, len(all))
	}
	other := newTripwire("other", leak.TripwireURL)
	other.Domain = "dom_2"
	if _, _, err := nodes[1].CreateTripwire(ctx, other); err != nil {
		t.Errorf("another domain: %v", err)
	}
}

// A use is recorded once a minute at most, and one of former secrets does not trip the present ones. A test ends when
// it was used, unless another one is expected since.
func TestTripwireState(t *testing.T) {
	ctx := t.Context()
	n := node(t, broker(t), Config{Node: "a"})
	made, _, err := n.CreateTripwire(ctx, newTripwire("1", leak.TripwireKey))
	if err != nil {
		t.Fatal(err)
	}
	read := func() *leak.Tripwire {
		x, _ := n.Tripwire(made.ID)
		return x
	}
	record := func(at time.Time) {
		t.Helper()
		noError(t, n.RecordTrip(ctx, made.ID, at))
	}
	record(made.IssuedAt.Add(-time.Second))
	is.Equal(t, read().Status(), leak.TripwireArmed, "former secrets trip it")
	record(made.IssuedAt.Add(time.Second))
	tripped := read()
	record(made.IssuedAt.Add(2 * time.Second))
	if tripped.Status() != leak.TripwireTripped || read().Rev != tripped.Rev {
		t.Error("not recorded, or twice in a minute")
	}
	record(made.IssuedAt.Add(2 * time.Minute))
	if !read().TrippedAt.Equal(made.IssuedAt.Add(2 * time.Minute)) {
		t.Error("a later use is not recorded")
	}
	first := must(n.ExpectTripwireTest(ctx, made.ID, netip.MustParseAddr("192.0.2.1")))(t)
	second := must(n.ExpectTripwireTest(ctx, made.ID, netip.MustParseAddr("192.0.2.2")))(t)
	for i, used := range []*leak.TripwireTest{first.Test, second.Test} {
		if err := n.EndTripwireTest(ctx, made.ID, *used); err != nil || (read().Test == nil) != (i == 1) {
			t.Errorf("test %d: %v, %v", i, read().Test, err)
		}
	}
}
