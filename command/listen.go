package command

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
	"strings"

	"github.com/charmbracelet/x/term"

	"github.com/eventrelay/relay/command/listen"
	"github.com/eventrelay/relay/node/doctor"
	"github.com/eventrelay/relay/pkg/sign"
)

const listenHelp = `Usage:
  relay listen ENDPOINT --to URL [--types TYPES] [--from-now] [--state FILE] [--allow-remote]
               [--base-url URL] [--api-key-file FILE]

Sends a copy of each new event of an endpoint to a URL on this machine or in a private network, with its original
method, headers and body. Destinations receive every event as usual. It calls the API at --base-url (RELAY_BASE_URL,
http://127.0.0.1:8080) with an API key (RELAY_API_KEY, or a file: RELAY_API_KEY_FILE, --api-key-file); read scope is
enough.

In a terminal it shows the newest events: r sends the chosen one again, f chooses types, q ends. Otherwise it prints a
line for each event.

The position is kept in a file. After a kill, a sleep or an outage it goes on after the last event that was copied.
On Ctrl-C it waits up to 5 s for an answer. After a kill, the event in progress is
copied again.

  --types TYPES     Copy only events of these types, with commas between them: order.*,invoice.paid
  --from-now        Leave out what came since the last time
  --state FILE      File with the position; none keeps none. Default: a file of the endpoint and the URL in your cache
                    directory
  --allow-remote    Allow a public https URL

Environment:
  RELAY_FORWARD_SIGNING_SECRET   whsec_...: signs copies of events that have no webhook-signature

Exit codes: 0 ended by q or Ctrl-C, 1 gave up, 2 wrong usage.
`

type listenFlags struct {
	to, types, state, baseURL, keyFile string
	fromNow, remote                    bool
}

func listenCommand(ctx context.Context, c call) int {
	var f listenFlags
	flags := flag.NewFlagSet("relay listen", flag.ContinueOnError)
	flags.StringVar(&f.to, "to", "", "")
	flags.StringVar(&f.types, "types", "", "")
	flags.StringVar(&f.state, "state", "", "")
	flags.BoolVar(&f.fromNow, "from-now", false, "")
	flags.BoolVar(&f.remote, "allow-remote", false, "")
	flags.StringVar(&f.baseURL, "base-url", cmp.Or(c.getenv("RELAY_BASE_URL"), "http://127.0.0.1:8080"), "")
	flags.StringVar(&f.keyFile, "api-key-file", "", "")
	endpoint, args := "", c.args
	if len(args) > 0 && !strings.HasPrefix(args[0], "-") { // flags follow it
		endpoint, args = args[0], args[1:]
	}
	if err := parseFlags(flags, args, func() { fmt.Fprint(c.stdout, listenHelp) }); err != nil {
		return exitCode(err, c.stderr)
	}
	if rest := flags.Args(); endpoint == "" && len(rest) == 1 {
		endpoint = rest[0]
	} else if fault := noArguments(rest); fault != "" {
		return exitCode(usageError{errors.New(fault)}, c.stderr)
	}
	return exitCode(runListen(ctx, c, f, endpoint), c.stderr)
}

func runListen(ctx context.Context, c call, f listenFlags, endpoint string) error {
	if !strings.HasPrefix(endpoint, "ep_") {
		return usageError{errors.New("the id of an endpoint is required, such as ep_4fj2: relay listen ep_… --to URL")}
	}
	if f.to == "" {
		return usageError{errors.New("--to is required: where copies go, such as http://localhost:3000/webhooks")}
	}
	key, err := apiKey(c, f.keyFile)
	if err != nil {
		return usageError{err}
	}
	o := listen.Options{BaseURL: f.baseURL, Key: key, Endpoint: endpoint, Target: f.to, Remote: f.remote,
		State: f.state, FromNow: f.fromNow}
	if text := c.getenv("RELAY_FORWARD_SIGNING_SECRET"); text != "" {
		secret, err := sign.ParseSecret(text)
		if err != nil {
			return usageError{fmt.Errorf("RELAY_FORWARD_SIGNING_SECRET: %w", err)}
		}
		o.Secret = &secret
	}
	switch f.state {
	case "none":
		o.State = ""
	case "":
		dir, err := os.UserCacheDir()
		if err != nil {
			return usageError{fmt.Errorf("no directory for the position: %w; name a file with --state", err)}
		}
		sum := sha256.Sum256([]byte(f.baseURL + " " + endpoint + " " + f.to))
		o.State = filepath.Join(dir, "eventrelay", "listen-"+hex.EncodeToString(sum[:8])+".json")
	}
	l, err := listen.New(o)
	if err != nil {
		return usageError{err}
	}
	if doctor.Unencrypted(f.baseURL) {
		fmt.Fprintf(c.stderr, "warning: %s is not encrypted: the API key and events can be read on the way\n", f.baseURL)
	}
	l.SetTypes(listen.TypesOf(f.types))
	title := "Copies of " + endpoint + " -> " + l.Shown()
	if in, out := os.Stdin, c.stdout; isTerminal(in) && isTerminal(out) {
		return l.RunOnScreen(ctx, in, out, title, f.types)
	}
	fmt.Fprintln(c.stderr, printable(title))
	view := &listen.Plain{Out: c.stdout, Err: c.stderr}
	err = l.Run(ctx, view)
	fmt.Fprintln(c.stderr, view.Summary())
	return err
}

// isTerminal reports whether a stream is a terminal.
func isTerminal(stream any) bool {
	file, ok := stream.(*os.File)
	return ok && term.IsTerminal(file.Fd())
}
