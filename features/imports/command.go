// Package imports reads the configuration of Svix, Convoy, Outpost or Hookdeck over its API, and writes it as a file
// for relay apply: tenants, endpoints, destinations with their secrets, headers, filters, rates and retries, and event
// types.
//
// What has no counterpart is listed, in a report and as comments in the file: for each kind of object, what was read is
// what was written and what is listed. A destination that would get more than before, or another body, is written as
// disabled. Secrets go to files of their own, which only their owner can read.
//
// Begin reading at run. reader.go asks the API, state.go keeps the answers, plan.go has what becomes of them, file.go
// writes it; each system has a file.
package imports

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/eventrelay/relay/command/cli"
	"github.com/eventrelay/relay/features"
	"github.com/eventrelay/relay/pkg/egress"
	"github.com/eventrelay/relay/pkg/wait"
)

// Feature registers the subcommand.
var Feature = features.Feature{Name: "import", Commands: []cli.Command{{
	Name: "import", After: "apply", Run: importCommand,
	Help: "write what Svix, Convoy, Outpost or Hookdeck has as a file for relay apply",
}}}

// system is one that can be imported.
type system struct {
	name, help string
	url        func(token string) string // of its API; "" = it must be given
	read       func(context.Context, *source, *plan) error
}

// systems returns all systems, with what the flags say about them.
func systems(f importFlags) []system {
	none := func(string) string { return "" }
	return []system{
		{"svix", "applications, endpoints and event types of Svix", svixURL, svix{}.read},
		{"convoy", "sources, endpoints, subscriptions and event types of a project of Convoy", none,
			convoy{project: f.project}.read},
		{"outpost", "tenants, destinations and topics of Outpost", none, outpost{f.mode == modeStandard}.read},
		{"hookdeck", "sources and connections of Hookdeck", func(string) string { return hookdeckAPI }, hookdeck{}.read},
	}
}

// Environment variables with the token of the other system.
const (
	tokenEnv     = "RELAY_IMPORT_TOKEN"
	modeStandard = "standard"
)

var importHelp = cli.Help{
	Usage: "relay import SYSTEM [--api-url URL | --export PATH] [--out FILE] [flags]",
	About: `Reads the configuration of svix, convoy, outpost or hookdeck over its API and writes it as a file for
relay apply. It changes nothing, there or here. The token is in RELAY_IMPORT_TOKEN, or in a file:
RELAY_IMPORT_TOKEN_FILE, --token-file.

What the relay does not have is listed, in the report and as comments in the file. A destination that would get
more events than before, or another body, is written with enabled: false.

Secrets that the API gives are written to a directory beside the file, one file each with mode 0600, and the file
refers to them: run relay apply in the same directory, then remove them. Event types are written to a file for
POST /v1/event_types/import.

All answers are kept in a state file (mode 0600) until the import is written. After an interruption run the same
command again: it goes on with the answers that it has. --export reads such a file, or a directory with the
answers: that of GET /tenants in tenants.json, its second page in tenants.2.json.`,
	More: `Environment:
  RELAY_IMPORT_TOKEN   token of the other system

Exit codes: 0 done, 1 the API refused or failed, 2 wrong usage.`,
}

type importFlags struct {
	url, tokenFile, export, project, mode, out, state string
	timeout                                           time.Duration
	asJSON, paused                                    bool
	pause                                             func(context.Context, time.Duration) error
}

func importCommand(ctx context.Context, c cli.Call) int { return importWith(ctx, c, wait.For) }

func importWith(ctx context.Context, c cli.Call, pause func(context.Context, time.Duration) error) int {
	f := importFlags{pause: pause}
	flags := flag.NewFlagSet("relay import", flag.ContinueOnError)
	flags.StringVar(&f.url, "api-url", "", "`URL` of the API; svix and hookdeck have a default")
	flags.StringVar(&f.tokenFile, "token-file", "", "`file` with the token (RELAY_IMPORT_TOKEN_FILE)")
	flags.StringVar(&f.export, "export", "", "`path` of a file or directory with answers, instead of the API")
	flags.StringVar(&f.project, "project", "", "`id` of the project; for convoy")
	flags.StringVar(&f.mode, "webhook-mode", "default", "`mode` of webhooks, default or standard; for outpost")
	flags.StringVar(&f.out, "out", "", "`file` to write; default: the name of the system and .yaml")
	flags.StringVar(&f.state, "state", "", "`file` with the answers so far; default: that of --out and .state")
	flags.DurationVar(&f.timeout, "timeout", time.Hour, "how long to read at most")
	flags.BoolVar(&f.paused, "paused", false, "write all destinations as paused, to run beside the other system")
	flags.BoolVar(&f.asJSON, "json", false, "print the report as JSON")
	var words []cli.Word
	for _, s := range systems(f) {
		words = append(words, cli.Word{Name: s.name, Help: s.help})
	}
	arguments, err := c.Parse(flags, c.Args, importHelp, words...)
	if err == nil {
		err = run(ctx, c, f, arguments)
	}
	return cli.ExitCode(err, c.Stderr)
}

// check returns the chosen system.
func (f *importFlags) check(arguments []string) (*system, error) {
	all := systems(*f)
	names := make([]string, len(all))
	for i, s := range all {
		names[i] = s.name
	}
	switch {
	case len(arguments) != 1:
		return nil, errors.New("give one system: " + strings.Join(names, ", "))
	case !slices.Contains(names, arguments[0]):
		return nil, fmt.Errorf("unknown system %q%s; known are %s", arguments[0], cli.DidYouMean(arguments[0], names),
			strings.Join(names, ", "))
	case f.mode != "default" && f.mode != modeStandard:
		return nil, errors.New("--webhook-mode must be default or standard")
	case arguments[0] == "convoy" && f.project == "":
		return nil, errors.New("--project is required: the id of the project of Convoy")
	case f.timeout <= 0:
		return nil, errors.New("--timeout must be more than 0")
	case f.export != "" && f.url+f.tokenFile+f.state != "":
		return nil, errors.New("--export takes the place of --api-url, --token-file and --state")
	}
	f.out = cmp.Or(f.out, arguments[0]+".yaml")
	f.state = cmp.Or(f.state, f.out+".state")
	return &all[slices.Index(names, arguments[0])], nil
}

func run(ctx context.Context, c cli.Call, f importFlags, arguments []string) error {
	chosen, err := f.check(arguments)
	if err != nil {
		return cli.UsageError{Err: err}
	}
	if err := absent(f.out, secretsOf(f.out)); err != nil {
		return cli.UsageError{Err: err}
	}
	s, err := f.open(c, chosen)
	if err != nil {
		return cli.UsageError{Err: err}
	}
	ctx, cancel := context.WithTimeout(ctx, f.timeout)
	defer cancel()
	p := newPlan(chosen.name, f.out)
	p.paused = f.paused
	err = chosen.read(ctx, s, p)
	var files []string
	if err == nil {
		p.dropEmpty()
		err = p.balance()
	}
	if err == nil {
		files, err = p.write(f.out)
	}
	if err != nil {
		if s.http != nil {
			err = fmt.Errorf("%w\n%d answers are kept in %s: run the same command again to go on", err,
				s.kept.resumed+s.read, f.state)
		}
		return errors.Join(err, s.kept.close(false))
	}
	if err := s.kept.close(true); err != nil {
		return err
	}
	return p.report(c.Stdout, f, s, files)
}

// open opens the API or an export of the system.
func (f *importFlags) open(c cli.Call, chosen *system) (*source, error) {
	if f.export != "" {
		kept, err := openExport(f.export, chosen.name)
		return &source{kept: kept}, err
	}
	getenv := c.Getenv
	if f.tokenFile != "" {
		getenv = func(name string) string { return map[string]string{tokenEnv + "_FILE": f.tokenFile}[name] }
	}
	token, readable, err := cli.SecretFromEnvironment(tokenEnv, getenv)
	for _, path := range readable {
		fmt.Fprintf(c.Stderr, "warning: other users can read or change %s; run chmod 600\n", cli.Printable(path))
	}
	if err == nil && token == "" {
		err = fmt.Errorf("%s: is required: the token of %s; %[1]s_FILE or --token-file names a file with it", tokenEnv,
			chosen.name)
	}
	if err != nil {
		return nil, err
	}
	if f.url = cmp.Or(f.url, chosen.url(token)); f.url == "" {
		return nil, fmt.Errorf("--api-url is required: the address of the API of %s", chosen.name)
	}
	if egress.Unencrypted(f.url) {
		fmt.Fprintf(c.Stderr, "warning: %s is not encrypted: the token and all secrets can be read on the way\n", f.url)
	}
	s, err := newSource(f.url, token, nil, c.Getenv)
	if err != nil {
		return nil, err
	}
	if s.kept, err = openState(f.state, chosen.name, s.base, time.Now()); err != nil {
		return nil, err
	}
	s.pause = f.pause
	s.tell = func(text string) { fmt.Fprintln(c.Stderr, cli.Printable(text)) }
	if s.kept.resumed > 0 {
		s.tell(fmt.Sprintf("going on: %s has %d answers of an earlier run", f.state, s.kept.resumed))
	}
	return s, nil
}

// balance returns an error if an object was neither written nor listed.
func (p *plan) balance() error {
	for kind, n := range p.counts {
		if n.Read != n.Written+n.Listed {
			return fmt.Errorf("BUG: of %d objects of the kind %s, %d are written and %d listed", n.Read, kind, n.Written,
				n.Listed)
		}
	}
	return nil
}

// report prints what was read, written and listed.
func (p *plan) report(w io.Writer, f importFlags, s *source, files []string) error {
	notes := slices.Clone(p.general)
	for _, e := range p.endpoints {
		for _, text := range e.notes {
			notes = append(notes, e.Name+": "+text)
		}
		for _, d := range e.Destinations {
			for _, text := range d.notes {
				notes = append(notes, e.Name+", "+d.Name+": "+text)
			}
		}
	}
	if f.asJSON {
		return json.NewEncoder(w).Encode(map[string]any{"system": p.system, "objects": p.counts, "listed": p.listed,
			"notes": notes, "files": files, "secrets": len(p.secrets), "answers": s.read})
	}
	for _, kind := range slices.Sorted(maps.Keys(p.counts)) {
		n := p.counts[kind]
		fmt.Fprintf(w, "%s: %d read = %d written + %d listed\n", kind, n.Read, n.Written, n.Listed)
	}
	printLines(w, "listed, not written", p.listed)
	printLines(w, "to know", notes)
	fmt.Fprintf(w, "written: %s\n", strings.Join(files, ", "))
	if len(p.secrets) > 0 {
		fmt.Fprintf(w, "written: %d secrets in %s, which only you can read; remove them after relay apply\n", len(p.secrets),
			secretsOf(f.out))
	}
	return nil
}

func printLines(w io.Writer, title string, lines []string) {
	if len(lines) > 0 {
		fmt.Fprintf(w, "%s:\n", title)
	}
	for _, text := range lines {
		fmt.Fprintf(w, "  %s\n", cli.Printable(text))
	}
}
