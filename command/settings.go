package command

import (
	"cmp"
	"errors"
	"flag"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/eventrelay/relay/command/cli"
	"github.com/eventrelay/relay/pkg/nodeconfig"
	"github.com/eventrelay/relay/pkg/otlp"
)

// settings is the configuration of a node, read from flags and the environment.
type settings struct {
	nodeconfig.Config
	secretFlags   []string   // flags that gave secrets
	readableFiles []string   // files with secrets that other users can read or change
	ignored       []string   // settings that are set and that the command does not use
	argument      string     // of backup and restore: the directory of the backup, or its address in a bucket
	previous      string     // of backup: the previous one, or ""
	logs          *otlp.Logs // of serve and dev: exports the log; nil: nothing does
}

// argumentOf has the argument of commands that need one, for their help.
var argumentOf = map[string]string{"backup": backupArgument, "restore": backupArgument}

const backupArgument = " DIRECTORY|s3://BUCKET/PREFIX"

// loadSettings reads settings: a flag wins over the environment, which wins over the default.
func loadSettings(c cli.Call, more ...cli.Toggle) (settings, error) {
	s := settings{Config: nodeconfig.Config{
		APIRateRead: nodeconfig.Unset, APIRateWrite: nodeconfig.Unset, APIRateSend: nodeconfig.Unset,
		ShutdownDelay: nodeconfig.Unset,
	}}
	fs := flag.NewFlagSet("relay "+c.Name, flag.ContinueOnError)
	var errs []error
	eachSetting(&s.Config, func(f setting) {
		value := f.defaultValue
		v, open, err := f.fromEnvironment(c.Getenv)
		s.readableFiles = append(s.readableFiles, open...)
		if err != nil {
			errs = append(errs, err)
		}
		if v != "" {
			value = v
		}
		if value != "" {
			if err := f.set(value); err != nil {
				errs = append(errs, fmt.Errorf("%s: %w", f.env, err))
				_ = f.set(f.defaultValue) // so that Validate does not report the setting again
			}
		}
		s.addFlags(fs, f, func(name string, err error) {
			errs = append(errs, fmt.Errorf("--%s: %w", name, err))
		})
	})
	own := flag.NewFlagSet("", flag.ContinueOnError) // no settings
	if c.Name == "migrate" {
		own.StringVar(&s.ClickHouseCluster, "cluster", s.ClickHouseCluster, "the same as --clickhouse-cluster")
	}
	if c.Name == "backup" {
		own.StringVar(&s.previous, "previous", "", "previous backup: what it has too is linked, not copied")
	}
	for _, t := range more {
		own.BoolVar(t.Value, t.Flag, *t.Value, t.Help)
	}
	own.VisitAll(func(f *flag.Flag) { fs.Var(f.Value, f.Name, f.Usage) })
	arguments, err := c.Parse(fs, c.Args, cli.Help{Usage: "relay " + c.Name + " [flags]" + argumentOf[c.Name],
		About: cli.Sentence(c.Help), Flags: own, More: settingsHelp(c)})
	if err != nil {
		return s, err
	}
	if argumentOf[c.Name] != "" {
		if len(arguments) == 0 {
			return s, cli.UsageError{Err: fmt.Errorf("which backup? relay %s%s", c.Name, argumentOf[c.Name])}
		}
		s.argument, arguments = arguments[0], arguments[1:]
	}
	if len(arguments) > 0 {
		errs = append(errs, fmt.Errorf("unexpected argument %q", arguments[0]))
	}
	return s, errors.Join(errs...)
}

// addFlags defines the flag of a setting and, for a secret, the one that names a file. A value that cannot be used goes
// to fault: the flag package would stop at the first one.
func (s *settings) addFlags(fs *flag.FlagSet, f setting, fault func(name string, err error)) {
	set := func(text string) error {
		if err := f.set(text); err != nil {
			fault(f.flag, err)
		}
		return nil
	}
	switch {
	case f.secret:
		fs.Func(f.flag, f.help+" ("+f.env+")", func(text string) error {
			if f.holdsSecret(text) {
				s.secretFlags = append(s.secretFlags, f.flag)
			}
			return f.set(text)
		})
		fs.Func(f.flag+"-file", "file with the value of --"+f.flag+" ("+f.env+"_FILE)", func(path string) error {
			text, open, err := cli.ReadSecret(path)
			if err != nil {
				fault(f.flag+"-file", err)
				return nil
			}
			s.readableFiles = append(s.readableFiles, open...)
			return f.set(text)
		})
	case f.value.Kind() == reflect.Bool:
		fs.BoolFunc(f.flag, f.help, set)
	default:
		fs.Func(f.flag, f.help+" ("+f.env+")", set)
	}
}

// setting is one field of nodeconfig.Config. If it has no default value, unset says what holds without it. section is
// set for the first setting of a section only.
type setting struct {
	flag, env, help, defaultValue, unset, section string
	usual                                         []string // commands whose short help has it
	secret                                        bool
	value                                         reflect.Value
}

// defaultText returns what holds when the setting is not given.
func (f setting) defaultText() string { return cmp.Or(f.defaultValue, f.unset) }

func (f setting) set(text string) error {
	switch f.value.Kind() {
	case reflect.String:
		f.value.SetString(text)
	case reflect.Bool:
		b, err := strconv.ParseBool(text)
		if err != nil {
			return fmt.Errorf("%q is neither true nor false", text)
		}
		f.value.SetBool(b)
	case reflect.Int:
		n, err := strconv.Atoi(text)
		if err != nil {
			return fmt.Errorf("%q is not a whole number", text)
		}
		f.value.SetInt(int64(n))
	case reflect.Slice:
		f.value.Set(reflect.ValueOf(nodeconfig.SplitList(text)))
	}
	return nil
}

// fromEnvironment returns a setting's value from the environment, as cli.SecretFromEnvironment does for a secret.
func (f setting) fromEnvironment(getenv func(string) string) (text string, open []string, err error) {
	if !f.secret {
		return getenv(f.env), nil, nil
	}
	return cli.SecretFromEnvironment(f.env, getenv)
}

// holdsSecret reports whether a flag's value exposes a secret in the list of processes. A URL does only if it has a
// user or a password.
func (f setting) holdsSecret(text string) bool {
	return !strings.HasSuffix(f.flag, "-url") || strings.Contains(text, "@") || strings.Contains(text, "password=")
}

func eachSetting(s *nodeconfig.Config, f func(setting)) {
	v := reflect.ValueOf(s).Elem()
	for i := range v.NumField() {
		tag := v.Type().Field(i).Tag
		name := tag.Get("flag")
		if name == "" {
			continue
		}
		f(setting{
			flag: name, env: "RELAY_" + strings.ToUpper(strings.ReplaceAll(name, "-", "_")), help: tag.Get("help"),
			defaultValue: tag.Get("default"), unset: tag.Get("unset"), section: tag.Get("section"),
			usual: strings.Fields(tag.Get("usual")), secret: tag.Get("secret") != "", value: v.Field(i),
		})
	}
}

// settingsHelp returns the help of the settings that are usual for a command, or with --help --all of all, by section.
func settingsHelp(c cli.Call) string {
	var b strings.Builder
	all, n := slices.Contains(c.Args, "--all"), 0
	eachSetting(&nodeconfig.Config{}, func(f setting) {
		switch n++; {
		case !all && !slices.Contains(f.usual, c.Name):
			return
		case all && f.section != "":
			fmt.Fprintf(&b, "\n%s:\n", f.section)
		case b.Len() == 0:
			fmt.Fprint(&b, "Settings:\n")
		}
		name := f.flag + " VALUE"
		if f.secret {
			name = f.flag + ", --" + f.flag + "-file"
		}
		if f.value.Kind() == reflect.Bool {
			name = f.flag
		}
		cli.WriteFlag(&b, "--"+name, f.help, f.defaultText())
	})
	if !all {
		fmt.Fprintf(&b, "\nrelay %s --help --all lists all %d settings.", c.Name, n)
	}
	return b.String() + "\nEvery setting has an environment variable: --kafka-brokers is RELAY_KAFKA_BROKERS.\n"
}

// ignoreEngines clears the settings of engines, which dev does not use, and records in ignored which were set.
func (s *settings) ignoreEngines() {
	eachSetting(&s.Config, func(f setting) {
		switch f.flag {
		case "kafka-brokers", "kafka-sasl", "kafka-tls", "kafka-cert-file", "kafka-key-file", "redis-url", "redis-ca-file",
			"redis-cert-file", "redis-key-file", "clickhouse-url",
			"clickhouse-cluster", "read-url", "search-url":
			if !f.value.IsZero() {
				s.ignored = append(s.ignored, f.env)
				f.value.SetZero()
			}
		}
	})
}

// alone sets what a node decides by itself that has its log in its own process: its name, and one replica.
func (s *settings) alone() {
	s.Replication, s.Embedded = 1, true
	name, format := "relay", logJSON
	if s.Dev {
		name, format = "dev", logText
	}
	s.NodeName, s.LogFormat = cmp.Or(s.NodeName, name), cmp.Or(s.LogFormat, format)
}
