package config

import (
	"bytes"
	"encoding/json"
	"errors"
	"testing"
	"time"
)

// rotated gives an endpoint the token, and the one before it until the given time.
func (n *testNode) rotated(t *testing.T, endpoint, token string, until time.Time) {
	t.Helper()
	if _, err := n.UpdateEndpoint(t.Context(), endpoint, func(e *Endpoint) error {
		e.RotateToken(n.keyring.SealString(e.ID, FieldToken, token), "", until)
		return nil
	}); err != nil {
		t.Fatal(err)
	}
}

// The present token finds an endpoint, and the one before it until its time; on a node that reads the snapshot too.
func TestTokenRotation(t *testing.T) {
	conf := broker(t)
	n := node(t, conf, Config{Node: "a"})
	e := n.create(t)
	f := func(n *testNode, want bool, token string) {
		t.Helper()
		if got := n.EndpointByToken(token); (got != nil && got.ID == e.ID) != want {
			t.Errorf("token %s finds the endpoint is %v, want %v", token, !want, want)
		}
	}
	later, earlier := time.Now().Add(time.Hour), time.Now().Add(-time.Minute)
	first := "tok_" + e.ID
	n.rotated(t, e.ID, "tok_2", later)
	f(n, true, "tok_2")
	f(n, true, first)
	checkIndexes(t, n.codec, n.view.Load().state)
	n.rotated(t, e.ID, "tok_3", later) // ends the one before the last at once
	f(n, true, "tok_3")
	f(n, true, "tok_2")
	f(n, false, first)
	if _, err := n.UpdateEndpoint(t.Context(), e.ID, func(e *Endpoint) error { e.Name = "renamed"; return nil }); err != nil {
		t.Fatal(err)
	}
	f(n, true, "tok_2")
	var read state
	for _, e := range readBack(t, n) {
		read.add(e)
	}
	checkIndexes(t, n.codec, &read)
	if found := read.sets[kindEndpoint].hashed(hashOf("tok_2")); found == nil || found.id != e.ID {
		t.Error("a snapshot loses the former token")
	}
	n.rotated(t, e.ID, "tok_4", earlier)
	f(n, false, "tok_3")
	f(n, true, "tok_4")
	n.rotated(t, e.ID, "tok_5", time.Time{})
	f(n, false, "tok_4")
	f(n, true, "tok_5")
	n.rotated(t, e.ID, "tok_6", later)
	if err := n.DeleteEndpoint(t.Context(), e.ID); err != nil {
		t.Fatal(err)
	}
	f(n, false, "tok_5")
	f(n, false, "tok_6")
	checkIndexes(t, n.codec, n.view.Load().state)
}

// readBack is every entity of a node as a snapshot has it.
func readBack(t *testing.T, n *testNode) []*entity {
	t.Helper()
	_, text, _ := bytes.Cut(encoded(t, n.Control, n.view.Load().state), []byte{'\n'})
	entities, err := n.codec.readLines(text)
	if err != nil {
		t.Fatal(err)
	}
	return entities
}

func TestTokenOfAnotherEndpoint(t *testing.T) {
	n := node(t, broker(t), Config{Node: "a"})
	e := n.create(t)
	if _, err := n.UpdateEndpoint(t.Context(), e.ID, func(e *Endpoint) error {
		e.RotateToken(n.keyring.SealString("ep_other", FieldToken, "tok"), "", time.Time{})
		return nil
	}); !errors.Is(err, ErrSealed) {
		t.Fatalf("token sealed for another endpoint: %v", err)
	}
}

// A token that another endpoint has had a moment ago is no token for a second one.
func TestFormerTokenIsTaken(t *testing.T) {
	c := newCodec()
	h1, h2 := hashOf("tok_1"), hashOf("tok_2")
	value := func(e *Endpoint) json.RawMessage {
		b, err := json.Marshal(e)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	s := &state{}
	put := func(e *Endpoint, want result) {
		t.Helper()
		next, got, err := apply(s, parsed(t, c, record{
			OpID: "op_" + e.ID, Kind: "endpoint", ID: e.ID, Pre: preAbsent, Op: opPut, Value: value(e), Level: newestLevel,
		}))
		if err != nil || got != want {
			t.Errorf("%s: %v %v, want %v", e.ID, got, err, want)
		}
		s = next
	}
	former := &FormerToken{Hash: h1[:], Until: time.Now().Add(time.Hour)}
	put(&Endpoint{ID: "ep_1", TokenHash: h2[:], FormerToken: former}, applied)
	put(&Endpoint{ID: "ep_2", TokenHash: h1[:]}, taken)
}
