package node

import (
	"context"
	"errors"
	"net/http"

	"github.com/eventrelay/relay/command"
	"github.com/eventrelay/relay/pkg/control"
	"github.com/eventrelay/relay/pkg/web"
)

// linkPath is where the dashboard redeems links.
const linkPath = "/app/link/"

func commandUser(u *control.User, link string) command.User {
	j := command.User{ID: u.ID, Email: u.Email, CreatedAt: u.CreatedAt, PasswordSet: u.Password != "", Link: link}
	if u.Link != nil {
		j.LinkExpires = &u.Link.Expires
	}
	return j
}

func (n *node) listUsers(*http.Request) (any, error) {
	users := []command.User{}
	for _, u := range n.control.Users() {
		users = append(users, commandUser(u, ""))
	}
	return users, nil
}

// readEmail reads a command about one user.
func readEmail(r *http.Request) (string, error) {
	var c command.Email
	if err := readCommand(r, &c); err != nil {
		return "", err
	}
	email, err := control.NormalizeEmail(c.Email)
	if err != nil {
		return "", web.Invalid("email", "%v", err)
	}
	return email, nil
}

// linkUser makes a command of what gives a user a new link.
func (n *node) linkUser(do func(context.Context, string) (string, *control.User, error)) http.HandlerFunc {
	return n.answer(func(r *http.Request) (any, error) {
		email, err := readEmail(r)
		if err != nil {
			return nil, err
		}
		token, u, err := do(r.Context(), email)
		switch {
		case errors.Is(err, control.ErrNotFound):
			return nil, web.Missing("no user has this address; relay users list shows them")
		case errors.Is(err, control.ErrConflict):
			return nil, web.State("email", "is a user already; relay users reset makes a new link")
		case err != nil:
			return nil, err
		}
		return commandUser(u, n.url+linkPath+token), nil
	})
}

func (n *node) removeUser(r *http.Request) (any, error) {
	email, err := readEmail(r)
	if err == nil {
		err = n.control.RemoveUser(r.Context(), email)
	}
	if errors.Is(err, control.ErrNotFound) {
		return nil, web.Missing("no user has this address; relay users list shows them")
	}
	return map[string]any{"email": email, "removed": true}, err
}
