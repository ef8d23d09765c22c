package command

import (
	"context"
	"flag"
	"fmt"
	"net/http"
	"time"

	"github.com/eventrelay/relay/command/cli"
	"github.com/eventrelay/relay/node/admin"
)

// usersCommands returns the commands for dashboard users.
func usersCommands() cli.Group {
	return cli.Group{Name: "users", Verbs: []cli.Verb{
		{Name: "add", Args: "EMAIL [--scope read|read_write]", Help: "add a user and print a link", Flags: addUser},
		{Name: "list", Help: "list the users", Flags: listUsers},
		{Name: "scope", Args: "EMAIL read|read_write", Help: "change what a user may do", Flags: scopeUser},
		{Name: "reset", Args: "EMAIL", Help: "remove the password of a user and print a new link", Flags: resetUser},
		{Name: "remove", Args: "EMAIL", Help: "remove a user", Flags: removeUser},
	}, About: `add and reset print a link. It works once, within 10 minutes, and lets the user choose a password for the
dashboard. reset also removes the password and ends all sessions of the user.

--scope says what the user may do: read sees everything except secrets and changes nothing, read_write is the default.
scope changes it on every node, for open sessions too. The first user always has read_write, and the last one with
read_write neither loses it nor can be removed: add another one first.
`}
}

// exactlyOneEmail reports a misuse of a command that takes one email address.
func exactlyOneEmail(arguments []string) string {
	if len(arguments) != 1 {
		return "give the email address of one user"
	}
	return ""
}

func addUser(flags *flag.FlagSet) cli.Action {
	scope := flags.String("scope", "read_write", "what the user may do: read or read_write")
	return cli.Action{Misuse: exactlyOneEmail, Do: func(ctx context.Context, c *cli.Client, arguments []string) error {
		return printLink(ctx, c, "/users", admin.ScopedUser{Email: arguments[0], Scope: *scope})
	}}
}

func scopeUser(*flag.FlagSet) cli.Action {
	misuse := func(arguments []string) string {
		if len(arguments) != 2 {
			return "give the email address of one user and a scope, read or read_write"
		}
		return ""
	}
	return cli.Action{Misuse: misuse, Do: func(ctx context.Context, c *cli.Client, arguments []string) error {
		var u admin.User
		body := admin.ScopedUser{Email: arguments[0], Scope: arguments[1]}
		return c.Call(ctx, http.MethodPost, "/users/scope", body, &u, func() {
			fmt.Fprintf(c.Out, "%s\n%s\n%s\n", u.ID, u.Email, u.Scope)
		})
	}}
}

func resetUser(*flag.FlagSet) cli.Action {
	return cli.Action{Misuse: exactlyOneEmail, Do: func(ctx context.Context, c *cli.Client, arguments []string) error {
		return printLink(ctx, c, "/users/reset", admin.Email{Email: arguments[0]})
	}}
}

// printLink sends a command that is answered with a user and a new link.
func printLink(ctx context.Context, c *cli.Client, path string, body any) error {
	var u admin.User
	return c.Call(ctx, http.MethodPost, path, body, &u, func() {
		fmt.Fprintf(c.Out, "%s\n%s\n%s\n", u.ID, u.Email, u.Link)
	})
}

func listUsers(*flag.FlagSet) cli.Action {
	return cli.Action{Misuse: cli.NoArguments, Do: func(ctx context.Context, c *cli.Client, _ []string) error {
		var users []admin.User
		return c.Call(ctx, http.MethodGet, "/users", nil, &users, func() {
			t := cli.NewTable("ID", "EMAIL", "SCOPE", "CREATED", "SIGN-IN", "STATE")
			for _, u := range users {
				state := "has a password"
				switch {
				case u.PasswordSet:
				case u.Issuer != "":
					state = "signs in by " + u.Issuer
				case u.LinkExpires != nil && u.LinkExpires.After(time.Now()):
					state = "has a link until " + u.LinkExpires.Format(time.RFC3339)
				default:
					state = "cannot sign in; relay users reset prints a new link"
				}
				signedIn := "never signed in"
				if u.LastSignInAt != nil {
					signedIn = "signed in " + u.LastSignInAt.Format(time.RFC3339)
				}
				t.Row(u.ID, u.Email, u.Scope, u.CreatedAt.Format(time.RFC3339), signedIn, state)
			}
			t.Print(c.Out, c.Color)
		})
	}}
}

func removeUser(*flag.FlagSet) cli.Action {
	return cli.Action{Misuse: exactlyOneEmail, Do: func(ctx context.Context, c *cli.Client, arguments []string) error {
		var answer struct{}
		return c.Call(ctx, http.MethodPost, "/users/remove", admin.Email{Email: arguments[0]}, &answer, func() {
			fmt.Fprintln(c.Out, "removed", arguments[0])
		})
	}}
}
