package command

import (
	"cmp"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"net/url"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/eventrelay/relay/node/admin"
	"github.com/eventrelay/relay/pkg/config"
	"github.com/eventrelay/relay/pkg/config/seal"
	"github.com/eventrelay/relay/pkg/egress"
	"github.com/eventrelay/relay/pkg/nodeconfig"
	"github.com/eventrelay/relay/pkg/notify"
	"github.com/eventrelay/relay/pkg/stream"
	"github.com/eventrelay/relay/store/schema"
)

// maxSocketPath bounds the path of a unix socket in bytes: sun_path holds 104 on BSD and macOS and 108 on Linux, with a
// terminating zero.
const maxSocketPath = 103

// maxAllowance bounds RELAY_ALLOWANCE_EVENTS, far above any real month.
const maxAllowance = 1_000_000_000_000

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

// validateConnections reports credentials, keys, addresses and certificate files that cannot be used. It connects to
// nothing.
func (s settings) validateConnections(fault faultFunc) {
	if s.MasterKeys != "" {
		if _, err := seal.NewKeyring(s.MasterKeys); err != nil {
			fault("RELAY_MASTER_KEYS", "%w", err)
		}
	}
	kafka := s.Stream()
	kafka.Brokers = []string{"localhost:9092"} // whether there are brokers is validated apart
	kafka.TLS, kafka.CertFile, kafka.KeyFile = "", "", ""
	if err := kafka.Validate(); err != nil {
		fault("RELAY_KAFKA_SASL", "%w", err)
	}
	kafka.SASL, kafka.TLS = "", s.KafkaTLS
	if err := kafka.Validate(); err != nil {
		fault("RELAY_KAFKA_TLS", "%w", err)
	} else {
		kafka.CertFile, kafka.KeyFile = s.KafkaCertFile, s.KafkaKeyFile
		if err := kafka.Validate(); err != nil {
			fault("RELAY_KAFKA_CERT_FILE", "%w", err)
		}
	}
	redis := s.Limit()
	redis.CAFile, redis.CertFile, redis.KeyFile = "", "", ""
	if err := redis.Validate(); err != nil {
		fault("RELAY_REDIS_URL", "%w", err)
	} else {
		redis.CAFile = s.RedisCAFile
		if err := redis.Validate(); err != nil {
			fault("RELAY_REDIS_CA_FILE", "%w", err)
		}
		redis.CAFile, redis.CertFile, redis.KeyFile = "", s.RedisCertFile, s.RedisKeyFile
		if err := redis.Validate(); err != nil {
			fault("RELAY_REDIS_CERT_FILE", "%w", err)
		}
	}
	for env, text := range map[string]string{
		"RELAY_CLICKHOUSE_URL": s.ClickHouseURL, "RELAY_READ_URL": s.ReadURL, "RELAY_SEARCH_URL": s.SearchURL} {
		if text == "" {
			continue
		}
		if err := (schema.Config{URL: text, RetentionDays: 1}).Validate(); err != nil {
			fault(env, "%w", err)
		}
	}
	if s.TLSCertFile != "" && s.TLSKeyFile != "" {
		if _, err := tls.LoadX509KeyPair(s.TLSCertFile, s.TLSKeyFile); err != nil {
			fault("RELAY_TLS_CERT_FILE", "cannot be used with RELAY_TLS_KEY_FILE: %w", err)
		}
	}
	if _, err := egress.NewOperatorDialer(s.EgressCAFile, ""); err != nil {
		fault("RELAY_EGRESS_CA_FILE", "%w", err)
	}
	if _, err := egress.NewResolver(s.DNSServer); err != nil {
		fault("RELAY_DNS_SERVER", "%w", err)
	}
	if env, err := s.Traces().Validate(); err != nil {
		fault(env, "%w", err)
	}
	if env, err := s.OTLP().Validate(); err != nil {
		fault(env, "%w", err)
	}
	if env, err := s.OIDC(s.BaseURL).Validate(); err != nil {
		fault(env, "%w", err)
	}
	if err := new(slog.Level).UnmarshalText([]byte(s.LogLevel)); err != nil {
		fault("RELAY_LOG_LEVEL", "%q is none of debug, info, warn, error", s.LogLevel)
	}
	if s.LogFormat != "" && s.LogFormat != logText && s.LogFormat != logJSON {
		fault("RELAY_LOG_FORMAT", "%q is neither %s nor %s", s.LogFormat, logText, logJSON)
	}
}
