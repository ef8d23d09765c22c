package listen

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"

	"github.com/eventrelay/relay/command/cli"
	"github.com/eventrelay/relay/features"
	"github.com/eventrelay/relay/pkg/egress"
	"github.com/eventrelay/relay/pkg/sign"
)

// Feature registers the subcommand.
var Feature = features.Feature{Name: "listen", Commands: []cli.Command{{
	Name: "listen", After: "apply", Run: listenCommand,
	Help: "copy the events of an endpoint to a URL on your machine",
}}}

var listenHelp = cli.Help{
	Usage: "relay listen ENDPOINT --to URL [--types TYPES] [flags]",
	About: `Sends a copy of each new event of an endpoint to a URL on this machine or in a private network, with its
original method, headers and body. Destinations receive every event as usual. ENDPOINT is an id or a name. It
calls the API at --base-url (RELAY_BASE_URL) with an API key (RELAY_API_KEY, or a file: RELAY_API_KEY_FILE,
--api-key-file); read scope is enough.

In a terminal it shows the newest events: r sends the chosen one again, f chooses types, q ends. Otherwise it prints a
line for each event.

The position is kept in a file. After a kill, a sleep or an outage it goes on after the last event that was copied.
On Ctrl-C it waits up to 5 s for an answer. After a kill, the event in progress is
copied again.`,
	More: `Environment:
  RELAY_FORWARD_SIGNING_SECRET   whsec_...: signs copies of events that have no webhook-signature

Exit codes: 0 ended by q or Ctrl-C, 1 gave up, 2 wrong usage.`,
}

type listenFlags struct {
	to, types, state, baseURL, keyFile string
	fromNow, remote                    bool
}

func listenCommand(ctx context.Context, c cli.Call) int {
	var f listenFlags
	flags := flag.NewFlagSet("relay listen", flag.ContinueOnError)
	flags.StringVar(&f.to, "to", "", "`URL` that copies go to, such as http://localhost:3000/webhooks")
	flags.StringVar(&f.types, "types", "",
		"copy only events of these `types`, with commas between them: order.*,invoice.paid")
	flags.StringVar(&f.state, "state", "",
		"`file` with the position; none keeps none. Without it: a file of the endpoint and the URL in your cache directory")
	flags.BoolVar(&f.fromNow, "from-now", false, "leave out what came since the last time")
	flags.BoolVar(&f.remote, "allow-remote", false, "allow a public https URL")
	flags.StringVar(&f.baseURL, "base-url", cmp.Or(c.Getenv("RELAY_BASE_URL"), "http://127.0.0.1:8080"),
		"address of the relay (RELAY_BASE_URL)")
	flags.StringVar(&f.keyFile, "api-key-file", "", "`file` with the API key (RELAY_API_KEY_FILE)")
	arguments, err := c.Parse(flags, c.Args, listenHelp)
	if err == nil && len(arguments) != 1 {
		err = cli.UsageError{Err: errors.New("give the id or the name of one endpoint: relay listen ENDPOINT --to URL")}
	}
	if err != nil {
		return cli.ExitCode(err, c.Stderr)
	}
	return cli.ExitCode(runListen(ctx, c, f, arguments[0]), c.Stderr)
}

func runListen(ctx context.Context, c cli.Call, f listenFlags, endpoint string) error {
	if f.to == "" {
		return cli.UsageError{Err: errors.New("--to is required: where copies go, such as http://localhost:3000/webhooks")}
	}
	key, err := c.APIKey(f.keyFile)
	if err != nil {
		return cli.UsageError{Err: err}
	}
	if egress.Unencrypted(f.baseURL) {
		fmt.Fprintf(c.Stderr, "warning: %s is not encrypted: the API key and events can be read on the way\n", f.baseURL)
	}
	title := "Copies of " + endpoint
	if endpoint, err = FindEndpoint(ctx, f.baseURL, key, endpoint); err != nil {
		return err
	}
	o := Options{BaseURL: f.baseURL, Key: key, Endpoint: endpoint, Target: f.to, Remote: f.remote,
		State: f.state, FromNow: f.fromNow}
	if text := c.Getenv("RELAY_FORWARD_SIGNING_SECRET"); text != "" {
		secret, err := sign.ParseSecret(text)
		if err != nil {
			return cli.UsageError{Err: fmt.Errorf("RELAY_FORWARD_SIGNING_SECRET: %w", err)}
		}
		o.Secret = &secret
	}
	switch f.state {
	case "none":
		o.State = ""
	case "":
		dir, err := os.UserCacheDir()
		if err != nil {
			return cli.UsageError{Err: fmt.Errorf("no directory for the position: %w; name a file with --state", err)}
		}
		sum := sha256.Sum256([]byte(f.baseURL + " " + endpoint + " " + f.to))
		o.State = filepath.Join(dir, "eventrelay", "listen-"+hex.EncodeToString(sum[:8])+".json")
	}
	l, err := New(o)
	if err != nil {
		return cli.UsageError{Err: err}
	}
	l.SetTypes(TypesOf(f.types))
	title += " -> " + l.Shown()
	if in, out := os.Stdin, c.Stdout; cli.IsTerminal(in) && cli.IsTerminal(out) {
		return l.RunOnScreen(ctx, in, out, title, f.types)
	}
	fmt.Fprintln(c.Stderr, cli.Printable(title))
	view := &Plain{Out: c.Stdout, Err: c.Stderr}
	err = l.Run(ctx, view)
	fmt.Fprintln(c.Stderr, view.Summary())
	return err
}
