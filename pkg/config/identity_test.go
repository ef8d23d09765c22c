package config

import (
	"errors"
	"testing"
	"time"

	"github.com/eventrelay/relay/pkg/stream"
	"github.com/eventrelay/relay/test/is"
)

// Whom an issuer signs in is another user than a local one with the same address, on every node: the issuer decides the
// scope, a sign-in is recorded and a confirmation is not, and nothing else lets the person in.
func TestIdentities(t *testing.T) {
	bubble(t, func(t *testing.T, conf stream.Config) {
		ctx := t.Context()
		a, b := pair(t, conf, conf)
		cheapHashes(a, b)
		local := withPassword(t, a, "ops@example.com", goodPassword)
		who := Identity{"https://login.example.com", "1", "ops@example.com", ReadWrite}
		u := must(a.SignInIdentity(ctx, who, false))(t)
		if u.ID == local.ID || u.Issuer != who.Issuer || u.Subject != "1" || u.Scope != ReadWrite || u.LastSignInAt.IsZero() {
			t.Fatalf("%+v", u)
		}
		noError(t, b.Sync(ctx))
		if _, err := b.SessionUser(u.ID, "s", u.Epoch); err != nil {
			t.Fatal(err)
		}
		first := u.LastSignInAt
		time.Sleep(time.Hour)
		who.Email, who.Scope = "ada@example.com", Read
		u = must(b.SignInIdentity(ctx, who, true))(t)
		// When it is answered, no node lets the person change anything.
		if on, err := a.SessionUser(u.ID, "s", u.Epoch); err != nil || on.Scope != Read || on.Email != who.Email ||
			!on.LastSignInAt.Equal(first) || len(a.Users()) != 2 {
			t.Errorf("%+v, %v", on, err)
		}
		if u = must(a.SignInIdentity(ctx, who, false))(t); !u.LastSignInAt.After(first) {
			t.Error("a sign-in is not recorded")
		}

		for _, other := range []Identity{{who.Issuer, "2", who.Email, Read},
			{"https://other.example.com", "1", who.Email, Read}} {
			if x := must(a.SignInIdentity(ctx, other, false))(t); x.ID == u.ID {
				t.Errorf("%+v is taken for %+v", other, who)
			}
		}

		if _, err := a.SetUserScope(ctx, u.ID, ReadWrite, 0); !errors.Is(err, ErrIssued) {
			t.Errorf("another scope: %v", err)
		}
		if _, _, err := a.ResetUser(ctx, u.ID, 0); !errors.Is(err, ErrIssued) {
			t.Errorf("a link: %v", err)
		}

		noError(t, b.EndIdentity(ctx, who))
		if _, err := a.SessionUser(u.ID, "s", u.Epoch); !errors.Is(err, ErrSessionEnded) {
			t.Errorf("the issuer admits the person no more: %v", err)
		}
		noError(t, b.EndIdentity(ctx, Identity{Issuer: who.Issuer, Subject: "never here"}))
		if _, err := a.SessionUser(local.ID, "s", local.Epoch); err != nil {
			t.Errorf("the local user: %v", err)
		}
	})
}

// People of an issuer are no reason to let the last local person go who may change anything: the issuer may be away.
func TestLocalWriterStays(t *testing.T) {
	bubble(t, func(t *testing.T, conf stream.Config) {
		ctx := t.Context()
		a := node(t, conf, Config{Node: "a"})
		who := Identity{"https://login.example.com", "1", "a@example.com", ReadWrite}
		issued := must(a.SignInIdentity(ctx, who, false))(t)
		reader := addUser(t, a, "reader@example.com", Read)
		is.Equal(t, reader.Scope, Read, "a reader was made a writer beside a person of the issuer")
		if u, err := a.SetUserScope(ctx, reader.ID, Read, 0); err != nil || u.Scope != Read {
			t.Errorf("%+v, %v", u, err)
		}
		writer := addUser(t, a, "writer@example.com", ReadWrite)
		if _, err := a.SetUserScope(ctx, writer.ID, Read, 0); !errors.Is(err, ErrLastWriter) {
			t.Errorf("the last local writer reads: %v", err)
		}
		is.ErrorIs(t, a.RemoveUser(ctx, writer.ID), ErrLastWriter, "the last local writer is removed")
		noError(t, a.RemoveUser(ctx, issued.ID))
	})
}

// An export has people of an issuer, whom nothing but the issuer signs in after the import.
func TestImportOfIdentities(t *testing.T) {
	bubble(t, func(t *testing.T, conf stream.Config) {
		a := node(t, conf, Config{Node: "a"})
		who := Identity{"https://login.example.com", "1", "a@example.com", ReadWrite}
		u := *must(a.SignInIdentity(t.Context(), who, false))(t)
		u.Password = a.passwords.Hash(goodPassword)
		if err := u.Validate(); err != nil || u.Password != "" {
			t.Errorf("%+v, %v", u, err)
		}
		if u.Subject = "2"; u.Validate() == nil {
			t.Error("the id of another identity is accepted")
		}
	})
}
