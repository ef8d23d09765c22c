package config

import (
	"errors"
	"testing"
	"time"

	"github.com/eventrelay/relay/pkg/config/seal"
	"github.com/eventrelay/relay/pkg/stream"
)

// rotateToken sets the token of an endpoint and keeps the one before it until the given time.
func (n *testNode) rotateToken(t *testing.T, endpoint, token string, until time.Time) {
	t.Helper()
	must(n.UpdateEndpoint(t.Context(), endpoint, func(e *Endpoint) error {
		e.RotateToken(n.Keyring.SealString(e.ID, seal.FieldToken, token), "", until)
		return nil
	}))(t)
}

// The current token finds an endpoint, and the former one until its end; also on a node that reads the snapshot.
func TestTokenRotation(t *testing.T) {
	conf := broker(t)
	n := node(t, conf, Config{Node: "a"})
	e := n.create(t)
	f := func(n *testNode, want bool, token string) {
		t.Helper()
		if got := n.EndpointByToken(token); (got != nil && got.ID == e.ID) != want {
			t.Errorf("token %s finds the endpoint: %v, want %v", token, !want, want)
		}
	}
	later, earlier := time.Now().Add(time.Hour), time.Now().Add(-time.Minute)
	first := "tok_" + e.ID
	n.rotateToken(t, e.ID, "tok_2", later)
	f(n, true, "tok_2")
	f(n, true, first)
	n.rotateToken(t, e.ID, "tok_3", later) // ends the former token at once
	f(n, true, "tok_3")
	f(n, true, "tok_2")
	f(n, false, first)
	must(n.UpdateEndpoint(t.Context(), e.ID, func(e *Endpoint) error {
		e.Name = "renamed"
		return nil
	}))(t)
	f(n, true, "tok_2")
	noError(t, n.WriteSnapshot(t.Context()))
	trim(t, conf, stream.Control)
	if found := node(t, conf, Config{Node: "b"}).EndpointByToken("tok_2"); found == nil || found.ID != e.ID {
		t.Error("a snapshot loses the former token")
	}
	n.rotateToken(t, e.ID, "tok_4", earlier)
	f(n, false, "tok_3")
	f(n, true, "tok_4")
	n.rotateToken(t, e.ID, "tok_5", time.Time{})
	f(n, false, "tok_4")
	f(n, true, "tok_5")
	n.rotateToken(t, e.ID, "tok_6", later)
	f(n, true, "tok_5")
	n.rotateToken(t, e.ID, "tok_7", time.Time{}) // ends the current token at once, and the former one with it
	f(n, false, "tok_5")
	f(n, false, "tok_6")
	n.rotateToken(t, e.ID, "tok_8", later)
	if former := n.EndpointByToken("tok_8").FormerToken; !former.Until.Equal(later) {
		t.Errorf("%+v", former)
	} else if text, err := n.Keyring.OpenString(e.ID, seal.FieldToken, former.Token); err != nil || text != "tok_7" {
		t.Errorf("the former token is %q, %v", text, err)
	}
	noError(t, n.DeleteEndpoint(t.Context(), e.ID, 0))
	f(n, false, "tok_7")
	f(n, false, "tok_8")
}

func TestTokenOfAnotherEndpoint(t *testing.T) {
	n := node(t, broker(t), Config{Node: "a"})
	e := n.create(t)
	if _, err := n.UpdateEndpoint(t.Context(), e.ID, func(e *Endpoint) error {
		e.RotateToken(n.Keyring.SealString("ep_other", seal.FieldToken, "tok"), "", time.Time{})
		return nil
	}); !errors.Is(err, seal.ErrOpen) {
		t.Fatalf("token sealed for another endpoint: %v", err)
	}
}

// The former token of one endpoint cannot become the token of another.
func TestFormerTokenIsNotReused(t *testing.T) {
	n := node(t, broker(t), Config{Node: "a"})
	first, second := n.create(t), endpoint(n.Keyring)
	n.rotateToken(t, first.ID, "tok_2", time.Now().Add(time.Hour))
	second.Token = n.Keyring.SealString(second.ID, seal.FieldToken, "tok_"+first.ID)
	if _, err := n.CreateEndpoint(t.Context(), second); !errors.Is(err, ErrConflict) {
		t.Errorf("a token that was replaced: %v", err)
	}
}
