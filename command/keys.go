package command

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"github.com/eventrelay/relay/command/cli"
	"github.com/eventrelay/relay/node/admin"
)

// scope formats a key's scope for a list.
func scope(k *admin.Key) string {
	text := k.Scope
	if k.Agent {
		text += " (agent)"
	}
	if k.Tenant != "" {
		text += " of " + k.Tenant
	}
	return text
}

// lastUse formats a key's last use for a list.
func lastUse(k *admin.Key) string {
	switch {
	case k.LastUseUnknown:
		return "last use unknown: the store does not answer" + browser(k)
	case k.LastUse == nil:
		return "never used" + browser(k)
	default:
		return "used " + k.LastUse.At.Format(time.RFC3339) + " from " + k.LastUse.RemoteIP + browser(k)
	}
}

// browser warns of a key that is in client code.
func browser(k *admin.Key) string {
	if k.UsedFromBrowser {
		return "; sent by a web page: revoke it, and keep keys on servers"
	}
	return ""
}

// keysCommands returns the commands for API keys and master keys.
func keysCommands() cli.Group {
	return cli.Group{Name: "keys", Verbs: []cli.Verb{
		{Name: "create", Args: "--name NAME --scope read|read_write [--expires 720h] [--agent] [--tenant TENANT]",
			Help: "create an API key and show it once", Flags: createKey},
		{Name: "list", Help: "list the API keys", Flags: listKeys},
		{Name: "revoke", Args: "ID", Help: "revoke an API key", Flags: revokeKey},
		{Name: "rewrap", Help: "seal every secret with the first master key", Flags: rewrapKeys},
	}, About: `create shows the key; it is never shown again. --expires takes hours, minutes and seconds, such
as 720h or 1h30m. list shows when each key was last used, up to a minute late.

rewrap seals every secret of the configuration with the first master key. To change the master key:
  1. add the new one to RELAY_MASTER_KEYS of every node, behind the old one, and restart the nodes one by one;
  2. put it first, and restart the nodes one by one;
  3. relay keys rewrap, on any node, while they run;
  4. remove the old one, and restart the nodes one by one.
`}
}

func rewrapKeys(*flag.FlagSet) cli.Action {
	return cli.Action{Misuse: cli.NoArguments, Do: func(ctx context.Context, c *cli.Client, _ []string) error {
		var r admin.Rewrap
		err := c.CallWithProgress(ctx, "/keys/rewrap", nil, func(line []byte) error {
			if err := json.Unmarshal(line, &r); err != nil {
				return err
			}
			if r.Rewrapped < r.Entities {
				fmt.Fprintf(c.Out, "%d of %d entities\n", r.Rewrapped, r.Entities)
			}
			return nil
		})
		if err != nil || c.AsJSON {
			return err
		}
		fmt.Fprintf(c.Out, "%d secrets of %d entities were sealed with the first master key; none is left under another\n",
			r.Secrets, r.Rewrapped)
		return nil
	}}
}

func createKey(flags *flag.FlagSet) cli.Action {
	var k admin.CreateKey
	flags.StringVar(&k.Name, "name", "", "what the key is for")
	flags.StringVar(&k.Scope, "scope", "", "what the key may do: read or read_write")
	flags.BoolVar(&k.Agent, "agent", false, "for an agent: a person has to approve its changes")
	flags.StringVar(&k.Tenant, "tenant", "", "restrict the key to the endpoints of this tenant")
	expires := flags.Duration("expires", 0, "how long the key works; 0 = until it is revoked")
	return cli.Action{
		Misuse: func(arguments []string) string {
			k.ExpiresSeconds = int64(*expires / time.Second)
			switch fault := cli.NoArguments(arguments); {
			case fault != "":
				return fault
			case k.Name == "":
				return "--name is required: what the key is for"
			case k.Scope == "":
				return "--scope is required: read or read_write"
			case *expires != 0 && k.ExpiresSeconds < 1: // less would round to no expiry
				return "--expires must be at least 1s"
			}
			return ""
		},
		Do: func(ctx context.Context, c *cli.Client, _ []string) error {
			var created admin.Key
			return c.Call(ctx, http.MethodPost, "/keys", k, &created, func() {
				fmt.Fprintf(c.Out, "%s\n%s\n%s\n", created.ID, created.Scope, created.Key)
			})
		},
	}
}

func listKeys(*flag.FlagSet) cli.Action {
	return cli.Action{Misuse: cli.NoArguments, Do: func(ctx context.Context, c *cli.Client, _ []string) error {
		var keys []admin.Key
		return c.Call(ctx, http.MethodGet, "/keys", nil, &keys, func() {
			t := cli.NewTable("ID", "SCOPE", "STATE", "KEY", "CREATED", "LAST USE", "NAME")
			for _, k := range keys {
				state := "active"
				switch {
				case k.RevokedAt != nil:
					state = "revoked"
				case k.ExpiresAt != nil && k.ExpiresAt.Before(time.Now()):
					state = "expired"
				case k.NotSet:
					state = "not_set"
				}
				t.Row(k.ID, scope(&k), state, "…"+k.Last4, k.CreatedAt.Format(time.RFC3339), lastUse(&k), k.Name)
			}
			t.Print(c.Out, c.Color)
		})
	}}
}

func revokeKey(*flag.FlagSet) cli.Action {
	return cli.Action{
		Misuse: func(arguments []string) string {
			if len(arguments) != 1 {
				return "revoke takes the id of one key; list shows them"
			}
			return ""
		},
		Do: func(ctx context.Context, c *cli.Client, arguments []string) error {
			var answer struct{}
			return c.Call(ctx, http.MethodDelete, "/keys/"+url.PathEscape(arguments[0]), nil, &answer, func() {
				fmt.Fprintln(c.Out, "revoked", arguments[0])
			})
		},
	}
}
