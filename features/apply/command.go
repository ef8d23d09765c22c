package apply

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"

	"github.com/eventrelay/relay/command/cli"
	"github.com/eventrelay/relay/features"
	"github.com/eventrelay/relay/pkg/egress"
)

// Feature registers the subcommand.
var Feature = features.Feature{Name: "apply", Commands: []cli.Command{{
	Name: "apply", After: "config", Run: applyCommand,
	Help: "create, update and delete endpoints to match a YAML file",
}}}

var applyHelp = cli.Help{
	Usage: "relay apply -f FILE [--dry-run] [--prune] [flags]",
	About: `Creates, updates and (with --prune) deletes endpoints to match a YAML file.
It calls the API at --base-url (RELAY_BASE_URL) with a read-write
API key (RELAY_API_KEY, or a file: RELAY_API_KEY_FILE, --api-key-file).

  endpoints:
    - name: billing                      # endpoints are recognised by their names
      provider: stripe
      verification: {type: stripe, secret: env:STRIPE_SECRET}
      destinations:                      # recognised by their names, else by their URLs
        - name: app
          url: https://app.example.com/hooks
          headers: {Authorization: file:/run/secrets/app}
      retry_policy: {max_attempts: 12}

Fields are those of POST /v1/endpoints, but url. What the file does not name stays as it is, or follows provider.
--dry-run shows the differences, has the service validate all of them (with a key that may write), and changes nothing.
--prune deletes the endpoints that the file does not name, and the destinations, headers and metadata that it does not
name where it names others.
Endpoints of tenants have tenant: NAME; --prune does not touch tenants that the file does not name. A list tenants
beside endpoints has tenants (tenant: NAME and the fields of PUT /v1/tenants/NAME): those that are missing are created,
others stay as they are.

Secrets are references: env:NAME or file:PATH. They are never shown. The service does not show secrets either, so
--dry-run sees a changed one only by its last four characters. Otherwise secrets are sent in each run, and the service
writes nothing if they are the same. A changed signing.secret replaces the former one at once; POST …/rotate_secret
keeps both for a while.

If a change fails, those before it are made and the others are not. Correct the cause and run the same command again.`,
	More: "Exit codes: 0 done, 1 a change was refused or failed, 2 wrong usage or a fault in the file.",
}

type applyFlags struct {
	file, baseURL, keyFile string
	dryRun, prune, asJSON  bool
}

func applyCommand(ctx context.Context, c cli.Call) int {
	var f applyFlags
	flags := flag.NewFlagSet("relay apply", flag.ContinueOnError)
	oneFile := func(name string) error {
		if f.file != "" {
			return errors.New("it is given twice; put all endpoints into one file")
		}
		f.file = name
		return nil
	}
	flags.Func("f", "the same as --file", oneFile)
	flags.Func("file", "file with the endpoints; - is standard input", oneFile)
	flags.BoolVar(&f.dryRun, "dry-run", false, "show the differences and change nothing")
	flags.BoolVar(&f.prune, "prune", false, "delete what the file does not name")
	flags.BoolVar(&f.asJSON, "json", false, "print JSON")
	flags.StringVar(&f.baseURL, "base-url", c.Getenv("RELAY_BASE_URL"), "address of the relay (RELAY_BASE_URL)")
	flags.StringVar(&f.keyFile, "api-key-file", "", "file with the API key (RELAY_API_KEY_FILE)")
	if err := c.ParseFlags(flags, applyHelp); err != nil {
		return cli.ExitCode(err, c.Stderr)
	}
	return cli.ExitCode(runApply(ctx, c, f), c.Stderr)
}

func runApply(ctx context.Context, c cli.Call, f applyFlags) error {
	if f.file == "" {
		return cli.UsageError{Err: errors.New("-f is required: the file with the endpoints; - is standard input")}
	}
	if f.baseURL == "" {
		return cli.UsageError{Err: errors.New("RELAY_BASE_URL: is required: the address of the relay, such as " +
			"https://hooks.example.com")}
	}
	key, err := c.APIKey(f.keyFile)
	if err != nil {
		return cli.UsageError{Err: err}
	}
	if egress.Unencrypted(f.baseURL) {
		fmt.Fprintf(c.Stderr, "warning: %s is not encrypted: the API key and all secrets can be read on the way\n", f.baseURL)
	}
	from := io.Reader(os.Stdin)
	if f.file != "-" {
		file, err := os.Open(f.file)
		if err != nil {
			return cli.UsageError{Err: err}
		}
		defer file.Close()
		from = file
	}
	show := func(x *Change) { printChange(c.Stdout, x) }
	if f.asJSON {
		show = func(*Change) {}
	}
	changes, err := Run(ctx, Options{
		BaseURL: f.baseURL, Key: key, File: from, FileName: f.file, DryRun: f.dryRun, Prune: f.prune, Show: show,
		Warn: func(text string) { fmt.Fprintf(c.Stderr, "warning: %s\n", cli.Printable(text)) },
		Sources: Sources{Getenv: c.Getenv, ReadSecret: func(path string) (string, error) {
			text, open, err := cli.ReadSecret(path)
			for _, path := range open {
				fmt.Fprintf(c.Stderr, "warning: other users can read or change %s; run chmod 600\n", cli.Printable(path))
			}
			return text, err
		}},
	})
	if errors.Is(err, ErrFile) {
		return cli.UsageError{Err: err}
	}
	if f.asJSON {
		return errors.Join(json.NewEncoder(c.Stdout).Encode(map[string]any{"dry_run": f.dryRun, "changes": changes}), err)
	}
	printSummary(c.Stdout, changes, f.dryRun, err != nil)
	return err
}

// printChange prints a change and its differences; nothing for an endpoint that stays as it is. Whoever wrote the file
// chose its names: none of them may hide a line from who reviews the changes in a terminal.
func printChange(w io.Writer, x *Change) {
	line := func(format string, args ...any) { fmt.Fprintln(w, cli.Printable(fmt.Sprintf(format, args...))) }
	if x.Action != Unchanged {
		id := ""
		if x.ID != "" {
			id = " (" + x.ID + ")"
		}
		of := ""
		if x.Tenant != "" && !x.isTenant() {
			of = " of tenant " + x.Tenant
		}
		line("%s %s%s%s", x.Action, x.thing(), of, id)
	}
	for _, f := range x.Fields {
		if x.Action == Create {
			line("    %s: %s", f.Path, f.New)
			continue
		}
		line("    %s: %s -> %s", f.Path, f.Old, f.New)
	}
	for _, warning := range x.Warnings {
		line("    warning: %s", warning)
	}
}

func printSummary(w io.Writer, changes []*Change, dryRun, failed bool) {
	counts := map[string]int{}
	made, all := 0, 0
	for _, x := range changes {
		counts[x.Action]++
		if x.Action != Unchanged {
			all++
			if x.Done {
				made++
			}
		}
	}
	switch {
	case changes == nil, failed && all == 0:
	case failed && dryRun:
		fmt.Fprintln(w, "not every change is valid, or could be validated; nothing was done (--dry-run)")
	case failed:
		fmt.Fprintf(w, "%d of %d changes are made; run the same command again for the others\n", made, all)
	case dryRun:
		fmt.Fprintf(w, "to create %d, to change %d, to delete %d, unchanged %d; nothing was done (--dry-run)\n",
			counts[Create], counts[Update], counts[Delete], counts[Unchanged])
	default:
		fmt.Fprintf(w, "created %d, changed %d, deleted %d, unchanged %d\n", counts[Create], counts[Update],
			counts[Delete], counts[Unchanged])
	}
}
