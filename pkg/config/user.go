package config

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"net/mail"
	"strings"
	"time"

	"golang.org/x/crypto/argon2"

	"github.com/eventrelay/relay/pkg/id"
)

// users has the methods for users of the dashboard.
type users struct{ *core }

// User is a person who may sign in to the dashboard. Its id derives from the email address, so there is one user per
// address, even when two nodes create it at the same time.
type User struct {
	Meta
	Email string `json:"email"` // normalized; see NormalizeEmail
	// Password is an argon2id hash in PHC string format; empty: the user can sign in with a link only.
	Password string `json:"password,omitempty"`
	Link     *Link  `json:"link,omitempty"`
	// SessionsSince invalidates the sessions that began before it.
	SessionsSince time.Time `json:"sessions_since"`
	// Epoch invalidates all sessions with a lower epoch.
	Epoch int `json:"epoch,omitempty"`
	// FromEnvironment marks the first user, whom a node created from its environment.
	FromEnvironment bool `json:"from_environment,omitempty"`
}

// Link lets the user sign in once. Only the hash of its token is stored.
type Link struct {
	Hash    []byte    `json:"hash"` // SHA-256 of the token
	Expires time.Time `json:"expires"`
}

// linkLife is how long a link is valid.
const linkLife = 10 * time.Minute

// Length of a password in bytes. The maximum bounds the work of hashing.
const (
	MinPassword = 12
	MaxPassword = 1000
)

// Cost of a hash: 19 MiB and two passes, about 30 ms, the minimum for argon2id in the OWASP Password Storage Cheat
// Sheet.
const (
	argonMemory  = 19 << 10 // KiB
	argonPasses  = 2
	argonThreads = 1
	argonSalt    = 16
	argonHash    = 32
)

// hashPassword returns the argon2id hash of a password in PHC string format.
func hashPassword(password string) string {
	var salt [argonSalt]byte
	rand.Read(salt[:]) // never fails: crypto/rand ends the process instead
	sum := argon2.IDKey([]byte(password), salt[:], argonPasses, argonMemory, argonThreads, argonHash)
	text := base64.RawStdEncoding.EncodeToString
	return fmt.Sprintf("$argon2id$v=%d$m=%d,t=%d,p=%d$%s$%s", argon2.Version, argonMemory, argonPasses, argonThreads,
		text(salt[:]), text(sum))
}

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

// userID derives the id of a user from the normalized email address.
func userID(email string) string {
	sum := sha256.Sum256([]byte("user " + email))
	return id.ID(sum[:16]).Text(id.User)
}

// newLink returns a new link and its token of 256 random bits.
func (c users) newLink() (token string, l *Link) {
	var random [32]byte
	rand.Read(random[:]) // never fails: crypto/rand ends the process instead
	token = base64.RawURLEncoding.EncodeToString(random[:])
	hash := hashOf(token)
	return token, &Link{Hash: hash[:], Expires: c.now().UTC().Add(linkLife)}
}

// Users returns the users of the account, newest first.
func (c users) Users() []*User {
	all, _ := listEntities[*User](c.core, kindUser, c.Account().ID, 0, c.View().Len(kindUser), nil)
	return all
}

// AddUser creates a user and returns the token of a sign-in link. email must be normalized. It returns ErrConflict when
// the address exists.
func (c users) AddUser(ctx context.Context, email string) (token string, u *User, err error) {
	token, link := c.newLink()
	u, err = addEntity(ctx, c.core, kindUser,
		&User{Meta: Meta{ID: userID(email)}, Email: email, Link: link, SessionsSince: c.now().UTC()})
	return token, u, err
}

// ResetUser removes the password, ends all sessions on every node, and returns the token of a new sign-in link.
func (c users) ResetUser(ctx context.Context, email string) (token string, u *User, err error) {
	token, link := c.newLink()
	u, err = updateEntity(ctx, c.core, kindUser, userID(email), func(u *User) error {
		u.Password, u.Link, u.SessionsSince = "", link, c.now().UTC()
		return nil
	})
	if err != nil {
		return "", nil, err
	}
	return token, u, c.Barrier(ctx, c.CurrentPosition())
}

// RemoveUser deletes a user. When it returns nil, no node knows the user.
func (c users) RemoveUser(ctx context.Context, email string) error {
	res, err := c.Delete(ctx, kindUser, userID(email))
	if err != nil {
		return err
	}
	return c.Barrier(ctx, res)
}

// ensureAdmin creates the user of the environment when there is no user.
func (c users) ensureAdmin(ctx context.Context) error {
	if c.cfg.AdminEmail == "" || c.View().Len(kindUser) > 0 {
		return nil
	}
	email, err := NormalizeEmail(c.cfg.AdminEmail)
	if err != nil {
		return err
	}
	now := c.now().UTC()
	_, err = c.create(ctx, kindUser, &User{
		Meta: Meta{ID: userID(email), Account: c.Account().ID, CreatedAt: now, UpdatedAt: now}, Email: email,
		Password: hashPassword(c.cfg.AdminPassword), SessionsSince: now, FromEnvironment: true,
	})
	if errors.Is(err, ErrConflict) {
		return nil // another node created the user
	}
	return err
}
