package config

import (
	"context"
	"crypto/subtle"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/eventrelay/relay/pkg/config/entity"
	"github.com/eventrelay/relay/pkg/conflog"
	"github.com/eventrelay/relay/pkg/id"
)

// Length of a password in bytes. The maximum bounds the work of hashing.
const (
	MinPassword = 12
	MaxPassword = 1000
)

// Errors of sign-ins and sessions.
var (
	ErrSignIn           = errors.New("the email address or the password is wrong")
	ErrLink             = fmt.Errorf("the link is unknown, expired or was used before: %w", ErrNotFound)
	ErrSessionEnded     = errors.New("the session has ended")
	ErrNoPasswordChoice = errors.New("a password can be chosen only after a sign-in link was used")
)

// signInPrecision is how exact User.LastSignInAt is. Within it a further sign-in of the same user writes no record.
const signInPrecision = time.Minute

// SignIn returns the user with that email address and password, and records the sign-in. It returns ErrSignIn when
// either is wrong, ErrLease when this node cannot authenticate anybody now, and argon.ErrBusy when too many sign-ins
// are running. It takes as long for an unknown address as for a known one. The caller limits attempts, before it calls.
func (c callers) SignIn(ctx context.Context, email, password string) (*User, error) {
	if _, ok := c.Lease(); !ok { // before loading the view; see Authenticate
		return nil, ErrLease
	}
	if len(password) > MaxPassword {
		return nil, ErrSignIn
	}
	var hash string
	var u *User
	if normalized, err := NormalizeEmail(email); err == nil {
		if u, _ = entity.Get[User](c, UserID(normalized)); u != nil {
			hash = u.Password
		}
	}
	matches := false
	if err := c.passwords.SignIns.Do(ctx, func() { matches = c.passwords.Matches(hash, password) }); err != nil {
		return nil, err
	}
	if !matches {
		return nil, ErrSignIn
	}
	return c.recordSignIn(ctx, u)
}

// recordSignIn records that a user has signed in with the password that u has. A sign-in does not fail because it
// cannot be recorded, but it does when the user or the password has changed meanwhile.
func (c callers) recordSignIn(ctx context.Context, u *User) (*User, error) {
	signedIn, _, err := entity.UpdateUnawaited(actingAs(ctx, u.ID), c.Core, u.ID, func(now *User) error {
		if now.Password != u.Password {
			return ErrSignIn
		}
		if at := c.Now().UTC(); at.Sub(now.LastSignInAt) >= signInPrecision {
			now.LastSignInAt = at
		}
		return nil
	})
	switch {
	case err == nil:
		return signedIn, nil
	case errors.Is(err, ErrSignIn), errors.Is(err, ErrNotFound):
		return nil, ErrSignIn
	}
	c.log.LogAttrs(ctx, slog.LevelWarn, "cannot record a sign-in", slog.String("user", u.ID), slog.Any("error", err))
	if _, ok := c.Lease(); !ok {
		return nil, ErrLease
	}
	if now, _ := entity.Get[User](c, u.ID); now != nil && now.Password == u.Password {
		return now, nil
	}
	return nil, ErrSignIn
}

// actingAs returns a context whose changes the user makes, unless it names an actor already.
func actingAs(ctx context.Context, user string) context.Context {
	from := conflog.OriginOf(ctx)
	if from.Actor == "" {
		from.Actor = user
	}
	return WithOrigin(ctx, from)
}

// RedeemLink signs a user in by the token of a link. A link works once, whichever nodes it is sent to. Afterwards the
// user may choose a password; see User.ChoosePassword. It returns ErrLink for any other token, and ErrLease as SignIn
// does.
func (c callers) RedeemLink(ctx context.Context, token string) (*User, error) {
	if _, ok := c.Lease(); !ok {
		return nil, ErrLease
	}
	hash := entity.HashOf(token)
	u := c.userByLink(hash)
	if u == nil {
		return nil, ErrLink
	}
	signedIn, err := entity.Update(actingAs(ctx, u.ID), c, u.ID, func(u *User) error {
		now := c.Now().UTC()
		if !u.Link.opensWith(hash, now) {
			return ErrLink
		}
		u.Link, u.ChoosePassword, u.LastSignInAt = nil, true, now
		return nil
	})
	if errors.Is(err, ErrNotFound) {
		return nil, ErrLink
	}
	return signedIn, err
}

func (c callers) userByLink(hash [conflog.HashLen]byte) *User {
	now := c.Now()
	for e := range c.View().NewestFirst(entity.KindUser, 0) {
		if u := c.Decoded(e).(*User); u.Link.opensWith(hash, now) {
			return u
		}
	}
	return nil
}

func (l *Link) opensWith(hash [conflog.HashLen]byte, now time.Time) bool {
	return l != nil && now.Before(l.Expires) && subtle.ConstantTimeCompare(l.Hash, hash[:]) == 1
}

// SetPassword sets the password of a user who has redeemed a link, and ends the user's sessions on every node, that of
// the caller too: the returned user has the epoch for a new one. It returns an *entity.InvalidError for a password that
// is too short or too long, ErrNoPasswordChoice when the user has redeemed no link since the last password, and
// argon.ErrBusy as SignIn does.
func (c callers) SetPassword(ctx context.Context, userID, password string) (*User, error) {
	if err := validatePassword(password); err != nil {
		return nil, err
	}
	mayChoose := func(u *User) error {
		if u == nil {
			return ErrNotFound
		}
		if !u.ChoosePassword {
			return ErrNoPasswordChoice
		}
		return nil
	}
	u, _ := entity.Get[User](c, userID)
	if err := mayChoose(u); err != nil {
		return nil, err
	}
	var hash string
	if err := c.passwords.Chosen.Do(ctx, func() { hash = c.passwords.Hash(password) }); err != nil {
		return nil, err
	}
	return c.replacePassword(ctx, userID, hash, mayChoose) // mayChoose fails if another call was first
}

// replacePassword sets the hash of a password and ends the user's sessions, unless check returns an error.
func (c callers) replacePassword(ctx context.Context, userID, hash string, check func(*User) error) (*User, error) {
	return entity.UpdateEverywhere(ctx, c, userID, func(u *User) error {
		if err := check(u); err != nil {
			return err
		}
		u.Password, u.Link, u.ChoosePassword = hash, nil, false
		u.endSessions()
		return nil
	})
}

func validatePassword(password string) error {
	if len(password) < MinPassword || len(password) > MaxPassword {
		return &entity.InvalidError{Param: "password", Message: fmt.Sprintf("must have %d to %d bytes", MinPassword,
			MaxPassword)}
	}
	return nil
}

// ChangePassword replaces the password of a user who knows the current one. Like SetPassword it ends the user's
// sessions on every node; the returned user has the epoch for a new one. It returns an *entity.InvalidError for a new
// password that is too short or too long, ErrSignIn when the current one is wrong, ErrConflict when it has changed
// meanwhile, and ErrLease and argon.ErrBusy as SignIn does. The caller limits attempts, before it calls.
func (c callers) ChangePassword(ctx context.Context, userID, current, password string) (*User, error) {
	if _, ok := c.Lease(); !ok { // before loading the view; see Authenticate
		return nil, ErrLease
	}
	if err := validatePassword(password); err != nil {
		return nil, err
	}
	u, _ := entity.Get[User](c, userID)
	if u == nil {
		return nil, ErrNotFound
	}
	if len(current) > MaxPassword {
		return nil, ErrSignIn
	}
	var hash string // of the new password; empty: the current one is wrong
	err := c.passwords.Chosen.Do(ctx, func() {
		if c.passwords.Matches(u.Password, current) {
			hash = c.passwords.Hash(password)
		}
	})
	if err != nil {
		return nil, err
	}
	if hash == "" {
		return nil, ErrSignIn
	}
	return c.replacePassword(ctx, userID, hash, func(now *User) error {
		if now.Password != u.Password {
			return ErrConflict
		}
		return nil
	})
}

// SessionUser returns the user of the session with that id, which began with that epoch. It returns ErrSessionEnded
// when the session was ended since, alone or with all of the user's, or there is no such user any more, and ErrLease
// when this node cannot know.
func (c callers) SessionUser(userID, session string, epoch int) (*User, error) {
	if _, ok := c.Lease(); !ok { // before loading the view; see Authenticate
		return nil, ErrLease
	}
	u, _ := entity.Get[User](c, userID)
	if u == nil || u.Epoch != epoch || u.hasEnded(session) {
		return nil, ErrSessionEnded
	}
	return u, nil
}

// EndSession ends one session of a user, which would end by its age at until. When it returns nil, no node accepts it.
func (c callers) EndSession(ctx context.Context, userID, session string, until time.Time) error {
	_, err := entity.UpdateEverywhere(ctx, c, userID, func(u *User) error {
		u.endSession(EndedSession{ID: session, Until: until.UTC()}, c.Clock())
		return nil
	})
	return err
}

// EndSessions ends all sessions of a user. When it returns nil, no node accepts them.
func (c callers) EndSessions(ctx context.Context, userID string) error {
	_, err := entity.UpdateEverywhere(ctx, c, userID, func(u *User) error {
		u.endSessions()
		return nil
	})
	return err
}

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

type sessionCheckKey struct{}

// WithSessionCheck returns a context for requests of a signed-in person. Work that takes long calls check between its
// steps, and the request of an action before it changes anything: it returns the person in the form of a key, with the
// scope that the person has now; ErrLease while this node cannot confirm sessions; or another error when the session
// has ended.
func WithSessionCheck(ctx context.Context, check func() (*Key, error)) context.Context {
	return context.WithValue(ctx, sessionCheckKey{}, check)
}

// SessionCheck returns the check of WithSessionCheck, nil if ctx has none.
func SessionCheck(ctx context.Context) func() (*Key, error) {
	check, _ := ctx.Value(sessionCheckKey{}).(func() (*Key, error))
	return check
}
