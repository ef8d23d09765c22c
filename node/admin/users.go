package admin

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/eventrelay/relay/pkg/config"
	"github.com/eventrelay/relay/pkg/web"
)

// User may sign in to the dashboard. Link, a one-time link, is set only in the answer that creates it.
type User struct {
	ID          string     `json:"id"`
	Email       string     `json:"email"`
	CreatedAt   time.Time  `json:"created_at"`
	PasswordSet bool       `json:"password_set"`
	Link        string     `json:"link,omitempty"`
	LinkExpires *time.Time `json:"link_expires_at"`
}

// Email names a user.
type Email struct {
	Email string `json:"email"`
}

// linkPath is the dashboard's path for one-time links.
const linkPath = "/app/link/"

// Users reads and changes the dashboard's users. AddUser and ResetUser return the token of a one-time link.
type Users interface {
	Users() []*config.User
	AddUser(ctx context.Context, email string) (token string, u *config.User, err error)
	ResetUser(ctx context.Context, email string) (token string, u *config.User, err error)
	RemoveUser(ctx context.Context, email string) error
}

// users are the handlers of relay users.
type users struct {
	users   Users
	baseURL string // of the links
}

func commandUser(u *config.User, link string) User {
	j := User{ID: u.ID, Email: u.Email, CreatedAt: u.CreatedAt, PasswordSet: u.Password != "", Link: link}
	if u.Link != nil {
		j.LinkExpires = &u.Link.Expires
	}
	return j
}

func (x *users) list(*http.Request) (any, error) {
	shown := []User{}
	for _, u := range x.users.Users() {
		shown = append(shown, commandUser(u, ""))
	}
	return shown, nil
}

// readEmail decodes a command about one user.
func readEmail(r *http.Request) (string, error) {
	var c Email
	if err := readCommand(r, &c); err != nil {
		return "", err
	}
	email, err := config.NormalizeEmail(c.Email)
	if err != nil {
		return "", web.Invalid("email", "%v", err)
	}
	return email, nil
}

// link makes a handler of AddUser or ResetUser.
func (x *users) link(do func(context.Context, string) (string, *config.User, error)) func(*http.Request) (any, error) {
	return func(r *http.Request) (any, error) {
		email, err := readEmail(r)
		if err != nil {
			return nil, err
		}
		token, u, err := do(r.Context(), email)
		switch {
		case errors.Is(err, config.ErrNotFound):
			return nil, web.Missing("no user has this address; relay users list shows them")
		case errors.Is(err, config.ErrConflict):
			return nil, web.WrongState("email", "already belongs to a user; relay users reset creates a new link")
		case err != nil:
			return nil, err
		}
		return commandUser(u, x.baseURL+linkPath+token), nil
	}
}

func (x *users) remove(r *http.Request) (any, error) {
	email, err := readEmail(r)
	if err == nil {
		err = x.users.RemoveUser(r.Context(), email)
	}
	if errors.Is(err, config.ErrNotFound) {
		return nil, web.Missing("no user has this address; relay users list shows them")
	}
	return map[string]any{"email": email, "removed": true}, err
}
