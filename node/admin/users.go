package admin

import (
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/eventrelay/relay/pkg/config"
	"github.com/eventrelay/relay/pkg/id"
	"github.com/eventrelay/relay/pkg/web"
)

// User may sign in to the dashboard. Link, a one-time link, is set only in the answer that creates it.
type User struct {
	ID           string     `json:"id"`
	Email        string     `json:"email"`
	Scope        string     `json:"scope"`
	CreatedAt    time.Time  `json:"created_at"`
	PasswordSet  bool       `json:"password_set"`
	LastSignInAt *time.Time `json:"last_sign_in_at"`  // null: never
	Issuer       string     `json:"issuer,omitempty"` // OpenID Connect issuer that signs the user in
	Link         string     `json:"link,omitempty"`
	LinkExpires  *time.Time `json:"link_expires_at"`
}

// ScopedUser asks for a new user, or for another scope of a user.
type ScopedUser struct {
	Email string `json:"email"`
	Scope string `json:"scope"`
}

// Email names a user.
type Email struct {
	Email string `json:"email"`
}

// LinkPath is the dashboard's path for one-time links, to which the token is appended.
const LinkPath = "/app/link/"

// users are the handlers of relay users.
type users struct{ *Deps }

func commandUser(u *config.User, link string) User {
	j := User{ID: u.ID, Email: u.Email, Scope: string(u.Scope), CreatedAt: u.CreatedAt, PasswordSet: u.Password != "",
		Issuer: u.Issuer, Link: link}
	if u.Link != nil {
		j.LinkExpires = &u.Link.Expires
	}
	if !u.LastSignInAt.IsZero() {
		j.LastSignInAt = &u.LastSignInAt
	}
	return j
}

func (x *users) list(*http.Request) (any, error) {
	shown := []User{}
	for _, u := range x.Config.Users() {
		shown = append(shown, commandUser(u, ""))
	}
	return shown, nil
}

// readUserID decodes a command about one user, and returns the user's id and address.
func readUserID(r *http.Request) (userID, email string, err error) {
	var c Email
	if err := readCommand(r, &c); err != nil {
		return "", "", err
	}
	return findUserID(c.Email)
}

// findUserID returns the id of the user with that address, and the normalized address. People of an issuer are named by
// their id: their addresses are not theirs alone.
func findUserID(text string) (userID, email string, err error) {
	if strings.HasPrefix(text, id.User) {
		return text, text, nil
	}
	if email, err = config.NormalizeEmail(text); err != nil {
		return "", "", web.Invalid("email", "%v", err)
	}
	return config.UserID(email), email, nil
}

func (x *users) add(r *http.Request) (any, error) {
	var c ScopedUser
	if err := readCommand(r, &c); err != nil {
		return nil, err
	}
	token, u, err := x.Config.AddUser(r.Context(), c.Email, config.Scope(c.Scope))
	if err != nil {
		return nil, userError(err)
	}
	return commandUser(u, x.BaseURL+LinkPath+token), nil
}

func (x *users) reset(r *http.Request) (any, error) {
	userID, _, err := readUserID(r)
	if err != nil {
		return nil, err
	}
	token, u, err := x.Config.ResetUser(r.Context(), userID, 0)
	if err != nil {
		return nil, userError(err)
	}
	return commandUser(u, x.BaseURL+LinkPath+token), nil
}

func (x *users) setScope(r *http.Request) (any, error) {
	var c ScopedUser
	if err := readCommand(r, &c); err != nil {
		return nil, err
	}
	userID, _, err := findUserID(c.Email)
	if err != nil {
		return nil, err
	}
	u, err := x.Config.SetUserScope(r.Context(), userID, config.Scope(c.Scope), 0)
	if err != nil {
		return nil, userError(err)
	}
	return commandUser(u, ""), nil
}

func (x *users) remove(r *http.Request) (any, error) {
	userID, email, err := readUserID(r)
	if err != nil {
		return nil, err
	}
	if err := x.Config.RemoveUser(r.Context(), userID); err != nil {
		return nil, userError(err)
	}
	return map[string]any{"email": email, "removed": true}, nil
}

// userError says what the operator can do about an error.
func userError(err error) error {
	switch {
	case errors.Is(err, config.ErrNotFound):
		return web.Missing("no user has this address; relay users list shows them")
	case errors.Is(err, config.ErrConflict):
		return web.WrongState("email", "already belongs to a user; relay users reset creates a new link")
	case errors.Is(err, config.ErrLastWriter):
		return web.WrongState("", "this is the last user with the scope read_write; add another one first: "+
			"relay users add EMAIL --scope read_write")
	case errors.Is(err, config.ErrIssued):
		return web.WrongState("", "%v; change the groups there", err)
	case errors.Is(err, config.ErrTooManyUsers):
		return web.WrongState("", "%v; remove one first", err)
	}
	return err
}
