package command

import (
	"context"
	"flag"
	"fmt"
	"net/http"
	"time"

	"github.com/eventrelay/relay/node/admin"
)

// Users are the commands about people.
func Users() Group {
	return Group{name: "users", help: `Usage:
  relay users add EMAIL
  relay users list
  relay users reset EMAIL
  relay users remove EMAIL

add and reset print a link that lets the user into the dashboard once, within 10 minutes, to choose a password. reset
takes the password away and ends all sessions of the user.
`, verbs: map[string]verb{
		"add": linkUser("/users"), "list": listUsers, "reset": linkUser("/users/reset"), "remove": removeUser}}
}

// oneEmail is the misuse of a command that takes an address.
func oneEmail(words []string) string {
	if len(words) != 1 {
		return "it takes the e-mail address of one user"
	}
	return ""
}

// linkUser is a command that prints a new link.
func linkUser(path string) verb {
	return func(*flag.FlagSet) action {
		return action{misuse: oneEmail, do: func(ctx context.Context, c *Client, words []string) error {
			var u admin.User
			return c.call(ctx, http.MethodPost, path, admin.Email{Email: words[0]}, &u, func() {
				fmt.Fprintf(c.out, "%s\n%s\n%s\n", u.ID, u.Email, u.Link)
			})
		}}
	}
}

func listUsers(*flag.FlagSet) action {
	return action{misuse: noWords, do: func(ctx context.Context, c *Client, _ []string) error {
		var users []admin.User
		return c.call(ctx, http.MethodGet, "/users", nil, &users, func() {
			for _, u := range users {
				state := "has a password"
				switch {
				case u.PasswordSet:
				case u.LinkExpires != nil && u.LinkExpires.After(time.Now()):
					state = "has a link until " + u.LinkExpires.Format(time.RFC3339)
				default:
					state = "cannot sign in: reset makes a link"
				}
				fmt.Fprintf(c.out, "%s\t%s\t%s\t%s\n", u.ID, u.Email, u.CreatedAt.Format(time.RFC3339), state)
			}
		})
	}}
}

func removeUser(*flag.FlagSet) action {
	return action{misuse: oneEmail, do: func(ctx context.Context, c *Client, words []string) error {
		var answer struct{}
		return c.call(ctx, http.MethodPost, "/users/remove", admin.Email{Email: words[0]}, &answer, func() {
			fmt.Fprintln(c.out, "removed", words[0])
		})
	}}
}
