package node

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/eventrelay/relay/node/admin"
	"github.com/eventrelay/relay/pkg/control"
	"github.com/eventrelay/relay/pkg/egress"
	"github.com/eventrelay/relay/pkg/limit"
	"github.com/eventrelay/relay/pkg/notify"
	"github.com/eventrelay/relay/pkg/stream"
)

// Settings are everything that an operator can say. Each has a flag (`--kafka-brokers`) and an
// environment variable (RELAY_KAFKA_BROKERS); the flag wins. The README's table is made from the tags.
type Settings struct {
	Listen            string   `flag:"listen" default:"127.0.0.1:8080" help:"address of the HTTP server"`
	AdminListen       string   `flag:"admin-listen" help:"address of metrics and pprof; dev: 127.0.0.1:9090 if it is free; serve: off"`
	AdminHosts        []string `flag:"admin-hosts" help:"host names under which metrics and pprof answer, besides addresses, localhost and the node's name"`
	BaseURL           string   `flag:"base-url" help:"public address, used in ingest URLs and links; default from the listen address"`
	DataDir           string   `flag:"data-dir" default:"./.relay" help:"command socket, and in dev the data of the embedded engines"`
	NodeName          string   `flag:"node-name" help:"a node's own name; required by serve, never shared by two"`
	TakeoverSeconds   int      `flag:"takeover-seconds" default:"30" help:"how long a node may be silent before others take its partitions over, 6 to 1800; a restart within it moves nothing"`
	Roles             []string `flag:"roles" default:"ingest,dispatch,write,api" help:"what this node does"`
	Partitions        int      `flag:"partitions" help:"partitions of the topics that migrate creates, or adds to (1 to 4096); default 32, dev 4"`
	Replication       int      `flag:"replication-factor" help:"copies of each topic that migrate creates; serve refuses topics that have fewer; default 3, dev 1"`
	TopicPrefix       string   `flag:"topic-prefix" default:"relay." help:"before every topic and group name"`
	KafkaBrokers      []string `flag:"kafka-brokers" help:"host:port of Kafka brokers; required by serve"`
	KafkaSASL         string   `flag:"kafka-sasl" secret:"yes" help:"mechanism:user:password (plain, scram-sha-256, scram-sha-512)"`
	KafkaTLS          string   `flag:"kafka-tls" help:"system, or the path of a CA file; empty = no TLS"`
	RedisURL          string   `flag:"redis-url" secret:"yes" help:"redis://, rediss:// or unix:// of the limiter store; empty = each node limits for itself, and nothing is deduplicated"`
	ClickHouseURL     string   `flag:"clickhouse-url" secret:"yes" help:"http://, https:// or clickhouse://…/database, or unix:///path?database=…; one for each shard by commas; required by serve"`
	ClickHouseCluster string   `flag:"clickhouse-cluster" help:"name of the ClickHouse cluster that the shards are: relay migrate makes replicated tables on all its servers"`
	SearchURL         string   `flag:"search-url" secret:"yes" help:"ClickHouse for searches, as many addresses as clickhouse-url: the same databases as another user, whose quotas keep searches from the writer; default clickhouse-url"`
	SearchThreads     int      `flag:"search-threads" default:"0" help:"processors of a ClickHouse server that one search may take, two searches running for an account; 0 = half of this machine's"`
	SearchIndex       bool     `flag:"search-index" default:"false" help:"keep a text index, so that a search for what is rare reads less; it makes storing events dearer. Added and removed by relay migrate, and by dev when it starts; serve uses what is there"`
	MasterKeys        string   `flag:"master-keys" secret:"yes" help:"name:base64(32 bytes)[,…]: the first seals secrets, all open; required by serve, dev makes one"`
	BootstrapKey      string   `flag:"bootstrap-key" secret:"yes" help:"read-write API key that exists from the first start; dev makes one"`
	BootstrapReadKey  string   `flag:"bootstrap-read-key" secret:"yes" help:"read-only API key that exists from the first start"`
	AdminEmail        string   `flag:"admin-email" help:"first user of the dashboard, entered when there is none"`
	AdminPassword     string   `flag:"admin-password" secret:"yes" help:"the first user's password, 12 to 1000 bytes"`
	TLSCertFile       string   `flag:"tls-cert-file" help:"serve HTTPS with this certificate; reloaded when the file changes"`
	TLSKeyFile        string   `flag:"tls-key-file" help:"key of the certificate"`
	AllowedHosts      []string `flag:"allowed-hosts" help:"host names under which /v1 answers besides the base URL's, localhost and addresses"`
	TrustedProxies    []string `flag:"trusted-proxies" help:"networks whose X-Forwarded-For counts"`
	DNSServer         string   `flag:"dns-server" help:"resolver for outbound names; default the system's"`
	EgressAllow       []string `flag:"egress-allow" help:"networks that deliveries may reach although they are not public"`
	EgressCAFile      string   `flag:"egress-ca-file" help:"extra root certificates for deliveries"`
	EgressAllowHTTP   bool     `flag:"egress-allow-http" help:"accept http:// destinations; for benchmarks on loopback only"`
	Fsync             bool     `flag:"fsync" default:"true" help:"embedded engines: acknowledge only what is on disk"`
	MaxBody           int      `flag:"max-body" default:"1048576" help:"largest event body in bytes, at most 10 MiB"`
	RetentionDays     int      `flag:"retention-days" default:"30" help:"how long events can be read, 1 to 3650"`
	LogKeepMinutes    int      `flag:"log-keep-minutes" default:"15" help:"how long the log keeps what every group has done, for other consumers of its topics, 15 to 43200; the embedded log keeps a gigabyte at most"`
	AllowanceEvents   int      `flag:"allowance-events" default:"0" help:"events a month that are agreed on, for GET /v1/usage; more are not refused; 0 = none"`
	APIRateRead       int      `flag:"api-rate-read" help:"GET requests a second that each API key may make, 0 = no limit; serve 500, dev no limit"`
	APIRateWrite      int      `flag:"api-rate-write" help:"the same for changes; serve 200, dev no limit"`
	APIRateSend       int      `flag:"api-rate-send" help:"the same for sending events, a batch being one request; serve 5000, dev no limit"`
	ChdbLib           string   `flag:"chdb-lib" help:"path of libchdb.so; default lib/ beside the executable"`
	LedgerSeconds     int      `flag:"ledger-seconds" default:"60" help:"how often a node that dispatches looks in the log for lost deliveries, 0 to 3600; 0 = never"`
	SMTPURL           string   `flag:"smtp-url" secret:"yes" help:"mail server for alerts: smtp:// or smtps://user:password@host:port?from=address; TLS is required except on loopback or with &tls=opportunistic; empty = no mail"`
	AlertDomains      []string `flag:"alert-domains" help:"domains that alert mails may go to; none = any"`
	LogLevel          string   `flag:"log-level" default:"info" help:"debug, info, warn or error"`

	// Decided by the command, not by a setting.
	version     string
	secretFlags []string                                                          // secrets that were given as flags
	embedded    bool                                                              // the engines are embedded
	dialKafka   func(ctx context.Context, network, addr string) (net.Conn, error) // past the network where that can be; nil = TCP
	dialRedis   func(ctx context.Context, network, addr string) (net.Conn, error) // the same
	syncTables  func() error                                                      // makes what ClickHouse has taken durable; nil = it does so by itself
}

// maxSocketPath is the longest path of a unix socket in bytes: sun_path has 104 on BSD and macOS, 108 on
// Linux, with the zero at the end.
const maxSocketPath = 103

// unset marks a number that nobody has given, where 0 means something.
const unset = -1

// maxAllowance bounds the events of a month: far beyond what can be counted in one.
const maxAllowance = 1_000_000_000_000

// roles that a node may have.
var knownRoles = []string{"ingest", "dispatch", "write", "api"}

// toggle is a flag of one command that is no setting: it has no environment variable.
type toggle struct {
	flag, help string
	value      *bool
}

func jsonToggle(value *bool) toggle { return toggle{"json", "print JSON", value} }

// loadSettings reads flags over environment over defaults.
func loadSettings(name string, args []string, getenv func(string) string, stderr io.Writer, more ...toggle) (Settings, error) {
	s := Settings{APIRateRead: unset, APIRateWrite: unset, APIRateSend: unset}
	fs := flag.NewFlagSet("relay "+name, flag.ContinueOnError)
	fs.SetOutput(stderr)
	var errs []error
	eachSetting(&s, func(f setting) {
		value := f.defaultValue
		v, err := f.fromEnvironment(getenv)
		if err != nil {
			errs = append(errs, err)
		}
		if v != "" {
			value = v
		}
		if value != "" {
			if err := f.set(value); err != nil {
				errs = append(errs, fmt.Errorf("%s: %w", f.env, err))
			}
		}
		switch {
		case f.secret:
			fs.Func(f.flag, f.help+" ("+f.env+")", func(text string) error {
				if f.shown(text) {
					s.secretFlags = append(s.secretFlags, f.flag)
				}
				return f.set(text)
			})
			fs.Func(f.flag+"-file", "a file that holds "+f.flag+" ("+f.env+"_FILE)", f.setFile)
		case f.value.Kind() == reflect.Bool:
			fs.BoolFunc(f.flag, f.help, f.set)
		default:
			fs.Func(f.flag, f.help+" ("+f.env+")", f.set)
		}
	})
	if name == "migrate" {
		fs.StringVar(&s.ClickHouseCluster, "cluster", s.ClickHouseCluster, "the same as --clickhouse-cluster")
	}
	for _, t := range more {
		fs.BoolVar(t.value, t.flag, *t.value, t.help)
	}
	fs.Usage = func() {
		fmt.Fprintf(stderr, "Usage: relay %s [flags]\n\n", name)
		for _, t := range more {
			fmt.Fprintf(stderr, "  --%s  %s\n", t.flag, t.help)
		}
		fmt.Fprint(stderr, "\nEvery setting has an environment variable: --kafka-brokers is RELAY_KAFKA_BROKERS.\n\n")
		writeSettings(stderr)
	}
	if err := fs.Parse(args); err != nil {
		return s, err
	}
	if fs.NArg() > 0 {
		errs = append(errs, fmt.Errorf("unexpected argument %q", fs.Arg(0)))
	}
	return s, errors.Join(errs...)
}

// setting is one field of Settings.
type setting struct {
	flag, env, help, defaultValue string
	secret                        bool
	value                         reflect.Value
}

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
		f.value.Set(reflect.ValueOf(splitList(text)))
	}
	return nil
}

func splitList(text string) []string {
	var out []string
	for part := range strings.SplitSeq(text, ",") {
		if part = strings.TrimSpace(part); part != "" {
			out = append(out, part)
		}
	}
	return out
}

func eachSetting(s *Settings, f func(setting)) {
	v := reflect.ValueOf(s).Elem()
	for i := range v.NumField() {
		tag := v.Type().Field(i).Tag
		name := tag.Get("flag")
		if name == "" {
			continue
		}
		f(setting{
			flag: name, env: "RELAY_" + strings.ToUpper(strings.ReplaceAll(name, "-", "_")), help: tag.Get("help"),
			defaultValue: tag.Get("default"), secret: tag.Get("secret") != "", value: v.Field(i),
		})
	}
}

// writeSettings prints the help text of all settings.
func writeSettings(w io.Writer) {
	tw := tabwriter.NewWriter(w, 0, 4, 2, ' ', 0)
	eachSetting(&Settings{}, func(f setting) {
		def := ""
		if f.defaultValue != "" {
			def = " (default " + f.defaultValue + ")"
		}
		name := f.flag
		if f.secret {
			name += ", --" + f.flag + "-file"
		}
		fmt.Fprintf(tw, "  --%s\t%s%s\n", name, f.help, def)
	})
	tw.Flush()
}

// settingsTable is the README's table.
func settingsTable() string {
	var b strings.Builder
	b.WriteString("| variable | meaning | default |\n|---|---|---|\n")
	eachSetting(&Settings{}, func(f setting) {
		variable := f.env
		if f.secret {
			variable += " or " + f.env + "_FILE"
		}
		fmt.Fprintf(&b, "| %s | %s | %s |\n", variable, strings.ReplaceAll(f.help, "|", "\\|"), f.defaultValue)
	})
	return b.String()
}

// Validate reports every fault at once, as the command of that name sees them.
func (s Settings) Validate(name string) error {
	var errs []error
	fault := func(env, format string, args ...any) {
		errs = append(errs, fmt.Errorf(env+": "+format, args...))
	}
	s.validateNumbers(fault)
	for _, r := range s.Roles {
		if !slices.Contains(knownRoles, r) {
			fault("RELAY_ROLES", "%q is none of %s", r, strings.Join(knownRoles, ", "))
		}
	}
	if _, err := prefixes(s.EgressAllow); err != nil {
		fault("RELAY_EGRESS_ALLOW", "%w", err)
	}
	if _, err := prefixes(s.TrustedProxies); err != nil {
		fault("RELAY_TRUSTED_PROXIES", "%w", err)
	}
	s.validateHosts(fault)
	if err := s.limit().Validate(); err != nil {
		fault("RELAY_REDIS_URL", "%w", err)
	}
	if s.BaseURL != "" {
		if u, err := url.Parse(s.BaseURL); err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Host == "" {
			fault("RELAY_BASE_URL", "want http:// or https:// and a host")
		}
	}
	if path, err := filepath.Abs(filepath.Join(s.DataDir, admin.SocketFile)); name != "migrate" && err == nil && len(path) > maxSocketPath {
		fault("RELAY_DATA_DIR", "the path of the command socket in it, %s, has %d bytes, but no system takes more than %d", path, len(path), maxSocketPath)
	}
	if (s.TLSCertFile == "") != (s.TLSKeyFile == "") {
		fault("RELAY_TLS_CERT_FILE", "and RELAY_TLS_KEY_FILE go together")
	}
	s.validateAdmin(fault)
	for env, key := range map[string]string{"RELAY_BOOTSTRAP_KEY": s.BootstrapKey, "RELAY_BOOTSTRAP_READ_KEY": s.BootstrapReadKey} {
		if key != "" && (len(key) < 16 || strings.ContainsFunc(key, func(r rune) bool { return r <= ' ' || r > '~' })) {
			fault(env, "must be at least 16 printable characters")
		}
	}
	if s.SMTPURL != "" {
		if _, err := notify.ParseSMTP(s.SMTPURL); err != nil {
			fault("RELAY_SMTP_URL", "%w", err)
		}
	}
	if _, err := notify.ParseDomains(s.AlertDomains); err != nil {
		fault("RELAY_ALERT_DOMAINS", "%w", err)
	}
	for env, rate := range map[string]int{"RELAY_API_RATE_READ": s.APIRateRead, "RELAY_API_RATE_WRITE": s.APIRateWrite, "RELAY_API_RATE_SEND": s.APIRateSend} {
		if rate < unset {
			fault(env, "must be 0 or more")
		}
	}
	for _, r := range []struct {
		env, value string
		commands   []string
	}{
		{"RELAY_NODE_NAME", s.NodeName, []string{"serve"}},
		{"RELAY_KAFKA_BROKERS", strings.Join(s.KafkaBrokers, ","), []string{"serve", "migrate"}},
		{"RELAY_CLICKHOUSE_URL", s.ClickHouseURL, []string{"serve", "migrate"}},
		{"RELAY_MASTER_KEYS", s.MasterKeys, []string{"serve"}},
	} {
		if r.value == "" && slices.Contains(r.commands, name) {
			fault(r.env, "is required by %s", name)
		}
	}
	return errors.Join(errs...)
}

// validateHosts reports what is no host name.
func (s Settings) validateHosts(fault func(env, format string, args ...any)) {
	for env, hosts := range map[string][]string{"RELAY_ALLOWED_HOSTS": s.AllowedHosts, "RELAY_ADMIN_HOSTS": s.AdminHosts} {
		for _, h := range hosts {
			if u, err := url.Parse("//" + h); err != nil || u.Host != h || u.Port() != "" || h == "" || strings.HasSuffix(h, ":") {
				fault(env, "%q is no host name", h)
			}
		}
	}
}

// validateAdmin judges the first user.
func (s Settings) validateAdmin(fault func(env, format string, args ...any)) {
	if (s.AdminEmail == "") != (s.AdminPassword == "") {
		fault("RELAY_ADMIN_EMAIL", "and RELAY_ADMIN_PASSWORD go together")
	}
	if s.AdminEmail != "" {
		if _, err := control.NormalizeEmail(s.AdminEmail); err != nil {
			fault("RELAY_ADMIN_EMAIL", "%w", err)
		}
	}
	if n := len(s.AdminPassword); n > 0 && (n < control.MinPassword || n > control.MaxPassword) {
		fault("RELAY_ADMIN_PASSWORD", "must have %d to %d bytes", control.MinPassword, control.MaxPassword)
	}
}

// validateNumbers reports those that are out of their range.
func (s Settings) validateNumbers(fault func(env, format string, args ...any)) {
	for _, n := range []struct {
		env              string
		value, low, high int
		want             string
	}{
		{"RELAY_MAX_BODY", s.MaxBody, 1 << 10, stream.MaxBody, fmt.Sprintf("from 1024 to %d bytes", stream.MaxBody)},
		{"RELAY_RETENTION_DAYS", s.RetentionDays, 1, 3650, "from 1 to 3650"},
		{"RELAY_LOG_KEEP_MINUTES", s.LogKeepMinutes, 15, 43200, "from 15 to 43200"},
		{"RELAY_ALLOWANCE_EVENTS", s.AllowanceEvents, 0, maxAllowance, fmt.Sprintf("from 0 to %d", maxAllowance)},
		{"RELAY_PARTITIONS", s.Partitions, 0, 4096, "from 1 to 4096"},
		{"RELAY_REPLICATION_FACTOR", s.Replication, 0, 100, "from 1 to 100"},
		{"RELAY_LEDGER_SECONDS", s.LedgerSeconds, 0, 3600, "from 0 to 3600"},
		{"RELAY_SEARCH_THREADS", s.SearchThreads, 0, 1024, "from 0 to 1024"},
		{"RELAY_TAKEOVER_SECONDS", s.TakeoverSeconds, 6, 1800, "from 6 to 1800, which is what Kafka brokers take by default"},
	} {
		if n.value < n.low || n.value > n.high {
			fault(n.env, "must be %s", n.want)
		}
	}
}

// rate is a limit that was given, or the usual one of serve; dev has none.
func (s Settings) rate(given, usual int) int {
	switch {
	case given != unset:
		return given
	case s.embedded:
		return 0
	}
	return usual
}

func (s Settings) has(role string) bool { return slices.Contains(s.Roles, role) }

func (s Settings) egressPolicy() egress.Policy {
	allow, _ := prefixes(s.EgressAllow) // judged by Validate
	return egress.Policy{Allow: allow, AllowHTTP: s.EgressAllowHTTP}
}

func prefixes(texts []string) ([]netip.Prefix, error) {
	var out []netip.Prefix
	for _, t := range texts {
		p, err := netip.ParsePrefix(t)
		if err != nil {
			return nil, fmt.Errorf("%q is no network such as 10.0.0.0/8", t)
		}
		out = append(out, p)
	}
	return out, nil
}

func (s Settings) stream() stream.Config {
	return stream.Config{
		Brokers: s.KafkaBrokers, Prefix: s.TopicPrefix, SASL: s.KafkaSASL, TLS: s.KafkaTLS,
		Session: time.Duration(s.TakeoverSeconds) * time.Second, DialFunc: s.dialKafka,
	}
}

func (s Settings) limit() limit.Config {
	cfg := limit.DefaultConfig()
	cfg.URL, cfg.Dial = s.RedisURL, s.dialRedis
	return cfg
}

// baseURL is the public address without a trailing slash.
func (s Settings) baseURL(listening string) string {
	if s.BaseURL != "" {
		return strings.TrimRight(s.BaseURL, "/")
	}
	scheme := "http"
	if s.TLSCertFile != "" {
		scheme = "https"
	}
	if a, err := netip.ParseAddrPort(listening); err == nil && a.Addr().IsUnspecified() { // nobody can call 0.0.0.0
		listening = net.JoinHostPort("localhost", strconv.Itoa(int(a.Port())))
	}
	return scheme + "://" + listening
}

// environment is what the settings are read from.
func environment(name string) string { return os.Getenv(name) }
