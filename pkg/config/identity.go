package config

import (
	"context"
	"errors"

	"github.com/eventrelay/relay/pkg/config/entity"
	"github.com/eventrelay/relay/pkg/id"
)

// Identity is a person as an OpenID Connect issuer has confirmed them. Issuer and subject say who it is: an email
// address may be given to somebody else later.
type Identity struct {
	Issuer, Subject, Email string
	Scope                  Scope
}

// UserID returns the id of the user of an identity. It is never that of a user whom a person has added, so an issuer
// cannot take over a user with a password.
func (i Identity) UserID() string { return derivedID(id.User, "identity "+i.Issuer+" "+i.Subject) }

// identity returns who a user is to the issuer; empty for a user whom a person has added.
func (u *User) identity() Identity { return Identity{Issuer: u.Issuer, Subject: u.Subject} }

// ErrIssued means that an OpenID Connect issuer decides what the user may do and how the user signs in.
var ErrIssued = errors.New("the user comes from an OpenID Connect issuer, which decides this")

// SignInIdentity returns the user of an identity that its issuer has confirmed now, with that address and scope. It
// creates the user at the first sign-in. renews: the issuer has confirmed an open session, which is no sign-in. When
// the scope was ReadWrite, it returns after no node lets the user change anything.
func (c callers) SignInIdentity(ctx context.Context, i Identity, renews bool) (*User, error) {
	if _, ok := c.Lease(); !ok { // before loading the view; see Authenticate
		return nil, ErrLease
	}
	first := func() *User {
		u := newUser(i.Email, i.Scope)
		u.ID, u.Issuer, u.Subject = i.UserID(), i.Issuer, i.Subject
		return u
	}
	u, w, err := entity.UpdateOrCreate(actingAs(ctx, i.UserID()), c.Core, first, func(u *User) error {
		u.Email, u.Scope = i.Email, i.Scope
		if at := c.Now().UTC(); !renews && at.Sub(u.LastSignInAt) >= signInPrecision {
			u.LastSignInAt = at
		}
		return nil
	})
	return entity.Awaited(ctx, c.Core, u, w, err)
}

// EndIdentity ends the sessions of a person whom the issuer admits no more. When it returns nil, no node accepts them.
func (c callers) EndIdentity(ctx context.Context, i Identity) error {
	_, err := entity.UpdateEverywhere(actingAs(ctx, i.UserID()), c, i.UserID(), func(u *User) error {
		u.Scope = Read
		u.endSessions()
		return nil
	})
	if errors.Is(err, ErrNotFound) { // was never here
		return nil
	}
	return err
}
