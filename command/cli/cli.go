// Package cli is what subcommands have in common: a call, its flags, its errors and exit codes, and secrets in files.
package cli

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"strings"
	"unicode"

	"github.com/charmbracelet/x/term"

	"github.com/eventrelay/relay/pkg/nodeconfig"
	"github.com/eventrelay/relay/pkg/web"
)

// Command is a subcommand, which the first argument of the command line chooses.
type Command struct {
	Name, Help string
	Run        func(ctx context.Context, c Call) int
	// After is the command that it follows in the help.
	After string
}

// Call is one call of a subcommand.
type Call struct {
	Version        string           // of the program
	Waits          nodeconfig.Waits // of the nodes that the program runs
	Name, Help     string
	Args           []string
	Getenv         func(string) string
	Stdout, Stderr io.Writer
	Color          bool // of states on Stdout
	// Describe gets the words and flags that may follow Args, instead of running the command; nil: run it.
	Describe func(words []Word, flags *flag.FlagSet)
	// WithSettings reads the settings of a node, and these flags, runs do with them and returns the exit code. Package
	// command sets it.
	WithSettings func(do func(Settings, *slog.Logger) error, more ...Toggle) int
}

// Settings are those of a node, and what backup and restore have besides.
type Settings struct {
	nodeconfig.Config
	Argument string // the directory of the backup, or its address in a bucket
	Previous string // of backup: the previous one, or ""
}

// Toggle is a boolean flag of one command; it is no setting and has no environment variable.
type Toggle struct {
	Flag, Help string
	Value      *bool
	Alone      bool // the command then does nothing else, and needs only the settings of "<command> --<flag>"
}

// JSON returns the flag --json.
func JSON(value *bool) Toggle { return Toggle{"json", "print JSON", value, false} }

// ErrNoProcess means that no running process answers on the command socket.
var ErrNoProcess = errors.New("no running process answers")

// Exit codes of every command.
const (
	ExitDone      = 0
	ExitRefused   = 1
	ExitMisused   = 2
	ExitNoProcess = 3 // no running node answers on the socket
)

// NoArguments reports a misuse of a command that takes flags only.
func NoArguments(arguments []string) string {
	if len(arguments) > 0 {
		return fmt.Sprintf("unexpected argument %q", arguments[0])
	}
	return ""
}

// UsageError is a mistake in the command line or the settings.
type UsageError struct{ Err error }

func (e UsageError) Error() string { return e.Err.Error() }

func (e UsageError) Unwrap() error { return e.Err }

// ExitCode prints the error of a command, if there is one, and returns the exit code.
func ExitCode(err error, stderr io.Writer) int {
	var misuse UsageError
	switch {
	case err == nil, errors.Is(err, flag.ErrHelp):
		return ExitDone
	case errors.As(err, &misuse):
		PrintError(stderr, err)
		return ExitMisused
	case errors.Is(err, ErrNoProcess):
		PrintError(stderr, err)
		return ExitNoProcess
	default:
		PrintError(stderr, err)
		return ExitRefused
	}
}

// Printable replaces characters of foreign text that could break the line or move the terminal's cursor.
func Printable(s string) string {
	return strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return '·'
		}
		return r
	}, s)
}

// PrintError prints an error, which may name what others wrote. Its lines stay lines.
func PrintError(stderr io.Writer, err error) {
	for i, text := range strings.Split(err.Error(), "\n") {
		if i == 0 {
			text = "relay: " + text
		}
		fmt.Fprintln(stderr, Printable(strings.ReplaceAll(text, "\t", "  ")))
	}
}

// misspeltFlag returns the error of parsing flags, with the flag that may have been meant.
func misspeltFlag(fs *flag.FlagSet, err error) error {
	name, unknown := strings.CutPrefix(err.Error(), "flag provided but not defined: -")
	if !unknown {
		return err
	}
	var known []string
	fs.VisitAll(func(f *flag.Flag) { known = append(known, "--"+f.Name) })
	return fmt.Errorf("unknown flag --%s%s; %s --help lists them", name, DidYouMean("--"+name, known), fs.Name())
}

// DidYouMean suggests the name that is most like a misspelt one; empty if none is.
func DidYouMean(name string, known []string) string {
	if near := web.Nearest(name, known, min(MaxTypos, len(name)/2)); near != "" {
		return fmt.Sprintf(", did you mean %s", near)
	}
	return ""
}

// MaxTypos is how many characters of a misspelt name may differ.
const MaxTypos = 2

// MaxSecretFile bounds a file that holds a secret, in bytes; dozens of master keys fit.
const MaxSecretFile = 64 << 10

// SecretsMount is where Docker and Compose mount secrets. A container has no other users, and there the files of
// Compose must be readable for a user that the host does not have.
const SecretsMount = "/run/secrets/"

// ReadSecret returns the content of a file without surrounding white space, and the file's name if other users can read
// or change it.
func ReadSecret(path string) (_ string, open []string, err error) {
	f, err := os.Open(path)
	if err != nil {
		return "", nil, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	info, err := f.Stat()
	if err != nil {
		return "", nil, err
	}
	if openToOthers(path, info.Mode()) {
		open = []string{path}
	}
	b, err := io.ReadAll(io.LimitReader(f, MaxSecretFile+1))
	text := strings.TrimSpace(string(b))
	switch {
	case err != nil:
		return "", nil, err
	case len(b) > MaxSecretFile:
		return "", nil, fmt.Errorf("%s holds more than %d bytes", path, MaxSecretFile)
	case text == "":
		return "", nil, fmt.Errorf("%s is empty", path)
	}
	return text, open, nil
}

// openToOthers reports whether other users can read or change a file with a secret. Group access is allowed: a
// container may need it.
func openToOthers(path string, mode fs.FileMode) bool {
	const others = 0o006
	return mode.Perm()&others != 0 && !strings.HasPrefix(path, SecretsMount)
}

// SecretFromEnvironment returns a secret from the variable env, or from the file that its variable with _FILE names; ""
// without either. open names that file if other users can read or change it.
func SecretFromEnvironment(env string, getenv func(string) string) (text string, open []string, err error) {
	text = getenv(env)
	path := getenv(env + "_FILE")
	if path == "" {
		return text, nil, nil
	}
	if text != "" {
		return "", nil, fmt.Errorf("%s and %s_FILE are both set; unset one of them", env, env)
	}
	text, open, err = ReadSecret(path)
	if err != nil {
		return "", nil, fmt.Errorf("%s_FILE: %w", env, err)
	}
	return text, open, nil
}

// APIKeyEnv is the API key of commands that call a relay's API from anywhere; APIKeyFileEnv names a file with it.
const (
	APIKeyEnv     = "RELAY_API_KEY"
	APIKeyFileEnv = "RELAY_API_KEY_FILE"
)

// APIKey returns the API key of this call, from a file or the environment.
func (c Call) APIKey(file string) (string, error) {
	getenv := c.Getenv
	if file != "" {
		getenv = func(name string) string { return map[string]string{APIKeyFileEnv: file}[name] }
	}
	key, open, err := SecretFromEnvironment(APIKeyEnv, getenv)
	for _, path := range open {
		fmt.Fprintf(c.Stderr, "warning: other users can read or change %s; run chmod 600\n", path)
	}
	if err == nil && key == "" {
		err = fmt.Errorf("%s: is required: an API key; %[1]s_FILE or --api-key-file names a file with it", APIKeyEnv)
	}
	return key, err
}

// IsTerminal reports whether a stream is a terminal.
func IsTerminal(stream any) bool {
	file, ok := stream.(*os.File)
	return ok && term.IsTerminal(file.Fd())
}
