package config

import (
	"cmp"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/mail"
	"slices"
	"strings"
	"time"

	"github.com/eventrelay/relay/pkg/config/entity"
	"github.com/eventrelay/relay/pkg/id"
)

// User is a person who may sign in to the dashboard. Its id derives from the email address, so there is one user per
// address, even when two nodes create it at the same time; or from the identity that an issuer has confirmed.
type User struct {
	entity.Meta
	Email string `json:"email"` // normalized; see NormalizeEmail
	// Scope is what the user may do. A user that was stored without one has ReadWrite.
	Scope Scope `json:"scope"`
	// Password is an argon2id hash in PHC string format; empty: the user can sign in with a link only.
	Password string `json:"password,omitempty"`
	Link     *Link  `json:"link,omitempty"`
	// ChoosePassword says that the user has redeemed a link and may choose a password.
	ChoosePassword bool `json:"choose_password,omitempty"`
	// Epoch is that of the valid sessions. Raising it ends them on every node, whatever the clocks. It begins with a
	// random number, so that sessions of a user who was removed and added again stay ended.
	Epoch int `json:"epoch,omitempty"`
	// EndedSessions are the sessions of this epoch that were ended one by one: at most maxEndedSessions.
	EndedSessions []EndedSession `json:"ended_sessions,omitempty"`
	// LastSignInAt is when the user signed in last, within a minute; zero: never.
	LastSignInAt time.Time `json:"last_sign_in_at,omitzero"`
	// FromEnvironment marks the first user, whom a node created by itself at its start.
	FromEnvironment bool `json:"from_environment,omitempty"`
	// Issuer and Subject are set for a person whom an OpenID Connect issuer signs in; see Identity.
	Issuer  string `json:"issuer,omitempty"`
	Subject string `json:"subject,omitempty"`
}

// EndedSession is a session that the user has signed out of.
type EndedSession struct {
	ID    string    `json:"id"`    // random
	Until time.Time `json:"until"` // when it would have ended by its age: then it is forgotten
}

// maxEndedSessions is how many sessions are ended one by one; one more ends all of the user's. Some 70 bytes each.
const maxEndedSessions = 100

// Upgrade: users of the first versions had no scope.
func (u *User) Upgrade() { u.Scope = cmp.Or(u.Scope, ReadWrite) }

// IsLocalWriter reports whether the user may change anything and signs in without an issuer.
func (u *User) IsLocalWriter() bool { return u.Scope == ReadWrite && u.Issuer == "" }

func (u *User) endSessions() { u.Epoch, u.EndedSessions = u.Epoch+1, nil }

// endSession ends one session at now, and forgets those that would have ended by their age.
func (u *User) endSession(ended EndedSession, now time.Time) {
	left := slices.DeleteFunc(slices.Clone(u.EndedSessions), func(s EndedSession) bool {
		return s.ID == ended.ID || s.Until.Before(now)
	})
	if len(left) >= maxEndedSessions {
		u.endSessions()
		return
	}
	u.EndedSessions = append(left, ended)
}

// keepEnded ends the sessions that have ended in another version of the user.
func (u *User) keepEnded(other *User) {
	switch {
	case other.Epoch > u.Epoch:
		u.Epoch, u.EndedSessions = other.Epoch, other.EndedSessions
	case other.Epoch == u.Epoch:
		for _, s := range other.EndedSessions {
			u.endSession(s, time.Time{})
		}
	}
}

// Restricts: the user may only read now.
func (u *User) Restricts(next entity.Value) bool {
	return next == nil || u.Scope == ReadWrite && next.(*User).Scope == Read
}

// OnlyRestricts: a password was removed, sessions were ended, or the scope is now read. With a password a new link may
// take its place.
func (u *User) OnlyRestricts(next entity.Value) bool {
	want, now := *u, next.(*User)
	want.UpdatedAt = now.UpdatedAt
	if now.Password == "" {
		want.Password, want.Link, want.ChoosePassword = "", now.Link, false
	}
	if now.Epoch > u.Epoch {
		want.Epoch, want.EndedSessions = now.Epoch, now.EndedSessions
	}
	if keepsEnded(u.EndedSessions, now.EndedSessions, now.UpdatedAt) {
		want.EndedSessions = now.EndedSessions
	}
	if now.Scope == Read {
		want.Scope = Read
	}
	return entity.SameJSON(&want, now)
}

// keepsEnded reports whether after has the ended sessions of before that had not ended by their age at now.
func keepsEnded(before, after []EndedSession, now time.Time) bool {
	return !slices.ContainsFunc(before, func(s EndedSession) bool {
		return !s.Until.Before(now) && !slices.Contains(after, s)
	})
}

func (u *User) MadeAtStart() bool { return u.FromEnvironment }

func (u *User) hasEnded(session string) bool {
	return slices.ContainsFunc(u.EndedSessions, func(s EndedSession) bool { return s.ID == session })
}

// Link lets the user sign in once. Only the hash of its token is stored.
type Link struct {
	Hash    []byte    `json:"hash"` // SHA-256 of the token
	Expires time.Time `json:"expires"`
}

// linkLife is how long a link is valid.
const linkLife = 10 * time.Minute

// ErrLastWriter means that after the change no local user would have the scope ReadWrite.
var ErrLastWriter = errors.New("no other local user has the scope read_write")

// ErrIssued means that an OpenID Connect issuer decides what the user may do and how the user signs in.
var ErrIssued = errors.New("the user comes from an OpenID Connect issuer, which decides this")

// NormalizeEmail returns the normalized form of an email address, or an error that says what is wrong. It converts to
// lower case, the local part too: two users whose addresses differ only in case would be confused.
func NormalizeEmail(text string) (string, error) {
	text = strings.TrimSpace(text)
	a, err := mail.ParseAddress(text)
	switch {
	case err != nil || a.Name != "" || a.Address != text:
		return "", errors.New("must be an address such as ops@example.com")
	case len(text) > 254: // RFC 5321, 4.5.3.1.3 with the brackets taken off
		return "", errors.New("must have at most 254 bytes")
	case !printable(text):
		return "", errors.New("must be ASCII")
	}
	return strings.ToLower(text), nil
}

// UserID returns the id of the user with that normalized email address.
func UserID(email string) string { return derivedID(id.User, "user "+email) }

// newUser returns a user with a random first epoch below 2^48, which every JSON parser reads exactly.
func newUser(email string, scope Scope) *User {
	return &User{Meta: entity.Meta{ID: UserID(email)}, Email: email, Scope: scope, Epoch: 1 + rand.IntN(1<<48)}
}

// newLink returns a new link and its token of 256 random bits.
func (c callers) newLink() (token string, l *Link) {
	token = base64.RawURLEncoding.EncodeToString(entity.RandomBytes(32))
	hash := entity.HashOf(token)
	return token, &Link{Hash: hash[:], Expires: c.Now().UTC().Add(linkLife)}
}

// Users returns the users of the account, newest first.
func (c callers) Users() []*User {
	all, _ := entity.List[User](c, c.Account().ID, 0, c.View().Len(entity.KindUser), nil)
	return all
}

// hasWriter reports whether another user may change anything, and does not need an issuer to sign in.
func (c callers) hasWriter(except string) bool {
	return slices.ContainsFunc(c.Users(), func(u *User) bool { return u.ID != except && u.IsLocalWriter() })
}

// AddUser creates a user and returns the token of a sign-in link. While nobody has the scope ReadWrite, the new user
// gets it, whatever scope says. It returns an *entity.InvalidError for an unusable address or scope, and ErrConflict
// when the address exists.
func (c callers) AddUser(ctx context.Context, email string, scope Scope) (token string, u *User, err error) {
	if err := c.WaitReady(ctx); err != nil {
		return "", nil, err
	}
	if email, err = NormalizeEmail(email); err != nil {
		return "", nil, &entity.InvalidError{Param: "email", Message: err.Error()}
	}
	if scope != Read && scope != ReadWrite {
		return "", nil, errScope()
	}
	if !slices.ContainsFunc(c.Users(), func(u *User) bool { return u.Scope == ReadWrite }) {
		scope = ReadWrite
	}
	token, link := c.newLink()
	u = newUser(email, scope)
	u.Link = link
	u, err = entity.Create(ctx, c, u)
	return token, u, err
}

// SetUserScope changes what a user may do. When the scope is now Read and it returns nil, no node lets the user change
// anything. It returns ErrLastWriter when no other local user has the scope ReadWrite, ErrIssued for a user of an
// issuer, and ErrConflict when rev is not zero and the user has another revision: it has changed since the caller read
// it.
func (c callers) SetUserScope(ctx context.Context, userID string, scope Scope, rev int64) (*User, error) {
	if scope != Read && scope != ReadWrite {
		return nil, errScope()
	}
	lowers := false
	u, err := entity.UpdateEverywhere(ctx, c, userID, func(u *User) error {
		lowers = scope == Read && u.Scope == ReadWrite
		switch {
		case rev != 0 && u.Rev != rev:
			return ErrConflict
		case u.Issuer != "":
			return ErrIssued
		case lowers && !c.hasWriter(userID):
			return ErrLastWriter
		}
		u.Scope = scope
		return nil
	})
	if err != nil || !lowers || c.hasWriter("") {
		return u, err
	}
	// Another call has changed or removed the other writers in the meantime.
	if _, err := c.SetUserScope(ctx, userID, ReadWrite, 0); err != nil {
		return nil, err
	}
	return nil, ErrLastWriter
}

// ResetUser removes the password, ends all sessions on every node, and returns the token of a new sign-in link. It
// returns ErrIssued for a user of an issuer, and ErrConflict when rev is not zero and the user has another revision: it
// has changed since the caller read it.
func (c callers) ResetUser(ctx context.Context, userID string, rev int64) (token string, u *User, err error) {
	token, link := c.newLink()
	u, err = entity.UpdateEverywhere(ctx, c, userID, func(u *User) error {
		switch {
		case rev != 0 && u.Rev != rev:
			return ErrConflict
		case u.Issuer != "":
			return ErrIssued
		}
		u.Password, u.Link, u.ChoosePassword = "", link, false
		u.endSessions()
		return nil
	})
	return token, u, err
}

// RemoveUser deletes a user. When it returns nil, no node accepts the user's sessions. It returns ErrLastWriter when
// nobody else has the scope ReadWrite.
func (c callers) RemoveUser(ctx context.Context, userID string) error {
	if err := c.WaitReady(ctx); err != nil {
		return err
	}
	u, _ := entity.Get[User](c, userID)
	if u == nil {
		return ErrNotFound
	}
	if u.IsLocalWriter() && !c.hasWriter(userID) {
		return ErrLastWriter
	}
	res, err := c.Delete(ctx, entity.KindUser, userID, 0)
	if err != nil {
		return err
	}
	if u.IsLocalWriter() && !c.hasWriter("") {
		return c.restoreUser(ctx, u)
	}
	return c.Barrier(ctx, res)
}

// restoreUser creates a user again who was the last one with the scope ReadWrite: another call has changed or removed
// the others in the meantime. It returns ErrLastWriter.
func (c callers) restoreUser(ctx context.Context, u *User) error {
	again := *u
	again.endSessions()
	if _, err := c.Insert(ctx, &again); err != nil && !errors.Is(err, ErrConflict) {
		return fmt.Errorf("restore the last user with the scope read_write: %w", err)
	}
	return ErrLastWriter
}

// FirstLink returns the token of a new sign-in link for the user with that normalized address, while no user has a
// password. It creates the user, with the scope ReadWrite, when there is no user. It returns an empty token when a user
// has a password, or there are other users only. The sessions of the user stay valid.
func (c callers) FirstLink(ctx context.Context, email string) (token string, err error) {
	if err := c.WaitReady(ctx); err != nil {
		return "", err
	}
	all := c.Users()
	token, link := c.newLink()
	if len(all) == 0 {
		u := newUser(email, ReadWrite)
		u.Link, u.FromEnvironment = link, true
		_, err = entity.Create(ctx, c, u)
		return token, err
	}
	i := slices.IndexFunc(all, func(u *User) bool { return u.ID == UserID(email) })
	if i < 0 || slices.ContainsFunc(all, func(u *User) bool { return u.Password != "" }) {
		return "", nil
	}
	_, err = entity.Update(ctx, c, all[i].ID, func(u *User) error {
		u.Link = link
		return nil
	})
	return token, err
}

// ensureAdmin creates the user of the environment when there is no user, or only the one of FirstLink, who has never
// signed in.
func (c callers) ensureAdmin(ctx context.Context) error {
	used := func(u *User) bool { return !u.FromEnvironment || u.Password != "" || !u.LastSignInAt.IsZero() }
	if c.cfg.AdminEmail == "" || slices.ContainsFunc(c.Users(), used) {
		return nil
	}
	email, err := NormalizeEmail(c.cfg.AdminEmail)
	if err != nil {
		return err
	}
	u := newUser(email, ReadWrite)
	u.Password, u.FromEnvironment = c.passwords.Hash(c.cfg.AdminPassword), true
	if u, err = entity.Complete(c.Core, u); err != nil {
		return err
	}
	if _, err = c.Insert(ctx, u); errors.Is(err, ErrConflict) {
		return nil // another node created the user
	}
	return err
}
