package command

import (
	"cmp"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/netip"
	"net/url"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/eventrelay/relay/command/cli"
	"github.com/eventrelay/relay/node/admin"
	"github.com/eventrelay/relay/pkg/config"
	"github.com/eventrelay/relay/pkg/egress"
	"github.com/eventrelay/relay/pkg/nodeconfig"
	"github.com/eventrelay/relay/pkg/notify"
	"github.com/eventrelay/relay/pkg/otlp"
	"github.com/eventrelay/relay/pkg/stream"
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

// maxSocketPath bounds the path of a unix socket in bytes: sun_path holds 104 on BSD and macOS and 108 on Linux, with a
// terminating zero.
const maxSocketPath = 103

// maxAllowance bounds RELAY_ALLOWANCE_EVENTS, far above any real month.
const maxAllowance = 1_000_000_000_000

// argumentOf has the argument of commands that need one, for their help.
var argumentOf = map[string]string{"backup": backupArgument, "restore": backupArgument}

const backupArgument = " DIRECTORY|s3://BUCKET/PREFIX"

// loadSettings reads settings: a flag wins over the environment, which wins over the default.
func loadSettings(name string, args []string, getenv func(string) string, stdout io.Writer, more ...cli.Toggle) (
	settings, error) {
	s := settings{Config: nodeconfig.Config{
		APIRateRead: nodeconfig.Unset, APIRateWrite: nodeconfig.Unset, APIRateSend: nodeconfig.Unset,
		ShutdownDelay: nodeconfig.Unset,
	}}
	fs := flag.NewFlagSet("relay "+name, flag.ContinueOnError)
	var errs []error
	eachSetting(&s.Config, func(f setting) {
		value := f.defaultValue
		v, open, err := f.fromEnvironment(getenv)
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
	if name == "migrate" {
		fs.StringVar(&s.ClickHouseCluster, "cluster", s.ClickHouseCluster, "the same as --clickhouse-cluster")
	}
	if name == "backup" {
		fs.StringVar(&s.previous, "previous", "", "previous backup: what it has too is linked, not copied")
	}
	for _, t := range more {
		fs.BoolVar(t.Value, t.Flag, *t.Value, t.Help)
	}
	usage := func() {
		fmt.Fprintf(stdout, "Usage: relay %s [flags]%s\n\n%s\n", name, argumentOf[name], helpOf(name))
		for _, t := range more {
			fmt.Fprintf(stdout, "\n  --%s\n        %s\n", t.Flag, t.Help)
		}
		fmt.Fprint(stdout, "\nEvery setting has an environment variable: --kafka-brokers is RELAY_KAFKA_BROKERS.\n")
		writeSettings(stdout)
	}
	arguments, err := cli.ParseInterleaved(fs, args, usage)
	if err != nil {
		return s, err
	}
	if argumentOf[name] != "" {
		if len(arguments) == 0 {
			return s, cli.UsageError{Err: fmt.Errorf("which backup? relay %s%s", name, argumentOf[name])}
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
			secret: tag.Get("secret") != "", value: v.Field(i),
		})
	}
}

// writeSettings prints the help text of all settings, by section.
func writeSettings(w io.Writer) {
	eachSetting(&nodeconfig.Config{}, func(f setting) {
		if f.section != "" {
			fmt.Fprintf(w, "\n%s\n", f.section)
		}
		name := f.flag
		if f.secret {
			name += ", --" + f.flag + "-file"
		}
		fmt.Fprintf(w, "  --%s\n        %s\n        Default: %s\n", name, f.help, f.defaultText())
	})
}

// faultFunc reports what is wrong with the value of a variable.
type faultFunc func(env, format string, args ...any)

// Validate reports every fault of the settings at once, for the command with this name.
func (s settings) Validate(name string) error {
	var errs []error
	fault := func(env, format string, args ...any) {
		errs = append(errs, fmt.Errorf(env+": "+format, args...))
	}
	s.validateNumbers(fault)
	s.validateConnections(fault)
	for _, r := range s.Roles {
		if !slices.Contains(nodeconfig.Roles(), r) {
			fault("RELAY_ROLES", "%q is not one of %s", r, strings.Join(nodeconfig.Roles(), ", "))
		}
	}
	if _, err := nodeconfig.Prefixes(s.EgressAllow); err != nil {
		fault("RELAY_EGRESS_ALLOW", "%w", err)
	}
	if deny, err := nodeconfig.Prefixes(s.EgressDeny); err != nil {
		fault("RELAY_EGRESS_DENY", "%w", err)
	} else if i := slices.IndexFunc(deny, func(p netip.Prefix) bool { return p.Addr().Is4In6() }); i >= 0 {
		fault("RELAY_EGRESS_DENY", "%s would block no IPv4 address; write the network as 10.0.0.0/8", deny[i])
	}
	if _, err := nodeconfig.Prefixes(s.TrustedProxies); err != nil {
		fault("RELAY_TRUSTED_PROXIES", "%w", err)
	}
	s.validateHosts(fault)
	s.validateAddresses(fault)
	if s.BaseURL != "" && !isBaseURL(s.BaseURL) {
		fault("RELAY_BASE_URL", "must be http:// or https:// with a host, and nothing behind it but a port: "+
			"https://hooks.example.com")
	}
	path, err := filepath.Abs(filepath.Join(s.DataDir, admin.SocketFile))
	if !strings.HasPrefix(name, "migrate") && err == nil && len(path) > maxSocketPath {
		fault("RELAY_DATA_DIR", "the path of the command socket in it, %s, has %d bytes; systems allow at most "+
			"%d; choose a shorter RELAY_DATA_DIR", path, len(path), maxSocketPath)
	}
	if (s.TLSCertFile == "") != (s.TLSKeyFile == "") {
		fault("RELAY_TLS_CERT_FILE", "must be set together with RELAY_TLS_KEY_FILE")
	}
	s.validateACME(fault)
	s.validateAdmin(fault)
	for env, key := range map[string]string{
		"RELAY_BOOTSTRAP_KEY": s.BootstrapKey, "RELAY_BOOTSTRAP_READ_KEY": s.BootstrapReadKey} {
		if key != "" && (len(key) < 16 || strings.ContainsFunc(key, func(r rune) bool { return r <= ' ' || r > '~' })) {
			fault(env, "must be at least 16 printable characters")
		}
	}
	if s.EgressProxy != "" {
		if _, err := egress.ParseProxy(s.EgressProxy); err != nil {
			fault("RELAY_EGRESS_PROXY", "%w", err)
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
	for env, rate := range map[string]int{
		"RELAY_API_RATE_READ": s.APIRateRead, "RELAY_API_RATE_WRITE": s.APIRateWrite, "RELAY_API_RATE_SEND": s.APIRateSend} {
		if rate < 0 && rate != nodeconfig.Unset {
			fault(env, "must be 0 or more; 0 means no limit")
		}
	}
	if d := s.ShutdownDelay; d != nodeconfig.Unset && (d < 0 || d > 60) {
		fault("RELAY_SHUTDOWN_DELAY_SECONDS", "must be from 0 to 60")
	}
	s.validateRequired(name, fault)
	return errors.Join(errs...)
}

// validateRequired reports settings that the command with this name needs and that are not set.
func (s settings) validateRequired(name string, fault faultFunc) {
	if name == "serve" && len(s.KafkaBrokers) == 0 { // the log runs inside, unless the brokers were forgotten
		for env, value := range map[string]string{"RELAY_KAFKA_SASL": s.KafkaSASL, "RELAY_KAFKA_TLS": s.KafkaTLS,
			"RELAY_KAFKA_CERT_FILE": s.KafkaCertFile, "RELAY_CLICKHOUSE_CLUSTER": s.ClickHouseCluster} {
			if value != "" {
				fault("RELAY_KAFKA_BROKERS", "is missing, but %s is set; without brokers the log would be in this process", env)
			}
		}
		// A node that is about to move into a cluster runs without delivering, on the log that it has.
		if len(s.Roles) < len(nodeconfig.Roles()) && !exists(filepath.Join(s.DataDir, nodeconfig.LogDir)) {
			fault("RELAY_ROLES", "must name all roles of a node that is alone: RELAY_KAFKA_BROKERS is not set")
		}
		return
	}
	for _, r := range []struct {
		env, value string
		commands   []string
	}{
		{"RELAY_NODE_NAME", s.NodeName, []string{"serve"}},
		{"RELAY_KAFKA_BROKERS", strings.Join(s.KafkaBrokers, ","), []string{"migrate"}},
		{"RELAY_CLICKHOUSE_URL", s.ClickHouseURL,
			[]string{"serve", "migrate", "migrate --print", "migrate --print-grants"}}, // it names the database
		{"RELAY_MASTER_KEYS", s.MasterKeys, []string{"serve"}},
	} {
		if r.value == "" && slices.Contains(r.commands, name) {
			fault(r.env, "is required by %s%s", name, map[string]string{"serve": " with RELAY_KAFKA_BROKERS"}[name])
		}
	}
}

// isBaseURL reports whether all addresses of the service can begin with s: its paths are at the root of a host.
func isBaseURL(s string) bool {
	u, err := url.Parse(strings.TrimSuffix(s, "/"))
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" || u.Path != "" ||
		strings.ContainsAny(s, "?#@") || strings.HasSuffix(u.Host, ":") {
		return false
	}
	port, err := strconv.ParseUint(cmp.Or(u.Port(), "80"), 10, 16)
	return err == nil && port > 0
}

// validateHosts reports values that are not host names.
func (s settings) validateHosts(fault faultFunc) {
	lists := map[string][]string{"RELAY_ALLOWED_HOSTS": s.AllowedHosts, "RELAY_ADMIN_HOSTS": s.AdminHosts}
	if s.DashboardHost != "" {
		lists["RELAY_DASHBOARD_HOST"] = []string{s.DashboardHost}
	}
	if s.PortalHost != "" {
		lists["RELAY_PORTAL_HOST"] = []string{s.PortalHost}
	}
	base, _ := url.Parse(s.BaseURL)
	if s.PortalHost != "" && (strings.EqualFold(s.PortalHost, s.DashboardHost) || base != nil &&
		strings.EqualFold(s.PortalHost, base.Hostname()) && s.DashboardHost == "") {
		fault("RELAY_PORTAL_HOST", "is the name of the dashboard, which would not be reached any more; leave it out, or "+
			"give the portal another name")
	}
	const mostOrigins = 20
	if len(s.PortalOrigins) > mostOrigins {
		fault("RELAY_PORTAL_ORIGINS", "has %d origins; there may be at most %d", len(s.PortalOrigins), mostOrigins)
	}
	for _, origin := range s.PortalOrigins {
		if !isBaseURL(origin) || strings.HasSuffix(origin, "/") || strings.ToLower(origin) != origin ||
			strings.ContainsAny(origin, "*;, '") {
			fault("RELAY_PORTAL_ORIGINS", "%q is not an origin such as https://app.example.com, in lower case", origin)
		}
	}
	for env, hosts := range lists {
		for _, h := range hosts {
			if u, err := url.Parse("//" + h); err != nil || u.Host != h || u.Port() != "" || h == "" ||
				strings.HasSuffix(h, ":") {
				fault(env, "%q is not a host name; leave scheme and port out", h)
			}
		}
	}
}

// validateACME reports names that no CA certifies, and settings that need HTTPS.
func (s settings) validateACME(fault faultFunc) {
	for _, host := range s.ACMEHosts {
		if u, err := url.Parse("https://" + host); err != nil || u.Host != strings.ToLower(host) || u.Port() != "" ||
			net.ParseIP(host) != nil || strings.Trim(host, ".") != host || !strings.Contains(host, ".") {
			fault("RELAY_ACME_HOSTS", "%q is not a host name with a domain, in lower case", host)
		}
	}
	u, err := url.Parse(s.ACMEURL)
	switch {
	case len(s.ACMEHosts) > 0 && s.TLSCertFile != "":
		fault("RELAY_ACME_HOSTS", "cannot be set together with RELAY_TLS_CERT_FILE")
	case len(s.ACMEHosts) > 0 && (err != nil || u.Scheme != "https" || u.Host == ""):
		fault("RELAY_ACME_URL", "must be https:// with a host")
	case s.HTTPListen != "" && len(s.ACMEHosts) == 0 && s.TLSCertFile == "":
		fault("RELAY_HTTP_LISTEN", "needs HTTPS: set RELAY_ACME_HOSTS or RELAY_TLS_CERT_FILE")
	}
}

// validateAddresses reports addresses without a port, and ports beyond 65535.
func (s settings) validateAddresses(fault faultFunc) {
	for env, address := range map[string]string{"RELAY_LISTEN": s.Listen, "RELAY_ADMIN_LISTEN": s.AdminListen,
		"RELAY_HTTP_LISTEN": s.HTTPListen} {
		_, port, err := net.SplitHostPort(address)
		n, notNumber := strconv.Atoi(port) // a port may have a name
		if address != "" && (err != nil || notNumber == nil && (n < 0 || n > 65535)) {
			fault(env, "%q is not an address with a port, such as 127.0.0.1:8080 or :8080", address)
		}
	}
}

// validateAdmin validates the first user.
func (s settings) validateAdmin(fault faultFunc) {
	if (s.AdminEmail == "") != (s.AdminPassword == "") {
		fault("RELAY_ADMIN_EMAIL", "must be set together with RELAY_ADMIN_PASSWORD")
	}
	if s.AdminEmail != "" {
		if _, err := config.NormalizeEmail(s.AdminEmail); err != nil {
			fault("RELAY_ADMIN_EMAIL", "%w", err)
		}
	}
	if n := len(s.AdminPassword); n > 0 && (n < config.MinPassword || n > config.MaxPassword) {
		fault("RELAY_ADMIN_PASSWORD", "must have %d to %d bytes", config.MinPassword, config.MaxPassword)
	}
}

// validateNumbers reports numbers outside their range.
func (s settings) validateNumbers(fault faultFunc) {
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
		{"RELAY_METRICS_SECONDS", s.MetricsSeconds, 1, 3600, "from 1 to 3600"},
		{"RELAY_SEARCH_THREADS", s.SearchThreads, 0, 1024, "from 0 to 1024"},
		{"RELAY_TAKEOVER_SECONDS", s.TakeoverSeconds, 6, 1800, "from 6 to 1800, the default range of Kafka brokers"},
	} {
		if n.value < n.low || n.value > n.high {
			fault(n.env, "must be %s", n.want)
		}
	}
}
