// Package nodeconfig is the configuration of a process of the relay: what an operator sets, and what follows from it.
// Package command reads it.
package nodeconfig

import (
	"context"
	"fmt"
	"log/slog"
	"math"
	"net"
	"net/netip"
	"net/url"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/eventrelay/relay/pkg/apikey"
	"github.com/eventrelay/relay/pkg/egress"
	"github.com/eventrelay/relay/pkg/limit"
	"github.com/eventrelay/relay/pkg/oidc"
	"github.com/eventrelay/relay/pkg/otlp"
	"github.com/eventrelay/relay/pkg/private"
	"github.com/eventrelay/relay/pkg/spans"
	"github.com/eventrelay/relay/pkg/stream"
)

// Config is everything that an operator can set. Each setting has a flag (`--kafka-brokers`) and an environment
// variable (RELAY_KAFKA_BROKERS); the flag wins. Package command reads and validates them. The help texts and the
// tables in docs/operate/settings.md come from the tags, and a test compares the tables: section opens a group,
// default is a value, unset says what holds without one.
type Config struct {
	Listen            string   `section:"HTTP server" flag:"listen" usual:"dev serve" default:"127.0.0.1:8080" help:"Address and port of the HTTP server: ingest, the API, /healthz and /readyz."`
	BaseURL           string   `flag:"base-url" usual:"dev serve doctor" unset:"http:// or https:// and the listen address" help:"Public address of the service. Ingest URLs and links begin with it."`
	AllowedHosts      []string `flag:"allowed-hosts" unset:"none" help:"Further host names under which /v1 and the dashboard answer. /v1 always answers under the name in the base URL, under localhost and under IP addresses; ingest answers under every name."`
	PortalHost        string   `flag:"portal-host" unset:"the names of the dashboard" help:"Host name of the portal, the pages for people of your tenants. It then answers under this name only. Give it a name of its own, so that browsers keep its pages apart from the dashboard."`
	PortalOrigins     []string `flag:"portal-origins" unset:"none" help:"Origins of your applications, such as https://app.example.com. Their pages may show the portal in a frame and call the API with tokens of the portal, and links to the portal may lead back to them. At most 20."`
	DashboardHost     string   `flag:"dashboard-host" unset:"the names of RELAY_BASE_URL and RELAY_ALLOWED_HOSTS" help:"Host name of the dashboard. It then answers under this name only, and links to it name it."`
	TrustedProxies    []string `flag:"trusted-proxies" unset:"none" help:"Networks (CIDR) of your proxies. X-Forwarded-For counts only in requests that come from them, and only they may have more than a quarter of the connections."`
	TLSCertFile       string   `flag:"tls-cert-file" usual:"serve" unset:"plain HTTP" help:"PEM file with the certificate chain. The server then serves HTTPS. A changed file is loaded without a restart."`
	TLSKeyFile        string   `flag:"tls-key-file" usual:"serve" unset:"none" help:"PEM file with the certificate's private key. Give both files or neither."`
	ACMEHosts         []string `flag:"acme-hosts" usual:"serve" unset:"none" help:"Host names for which the server obtains certificates by ACME, from Let's Encrypt unless RELAY_ACME_URL says otherwise; it then serves HTTPS. The names must resolve to this machine, with port 443 at RELAY_LISTEN or port 80 at RELAY_HTTP_LISTEN. You accept the terms of the CA. For one node: others have certificates of their own."`
	ACMEEmail         string   `flag:"acme-email" unset:"none" help:"Address to which the CA may write about these certificates."`
	ACMEURL           string   `flag:"acme-url" default:"https://acme-v02.api.letsencrypt.org/directory" help:"Directory of the CA. RELAY_EGRESS_CA_FILE may have its root certificate."`
	HTTPListen        string   `flag:"http-listen" unset:"off" help:"Address and port of a second server, in plain HTTP, that sends browsers to HTTPS and answers the CA of RELAY_ACME_HOSTS. Events are refused there."`
	MaxBody           int      `flag:"max-body" default:"1048576" help:"Largest event body in bytes, at most 10485760."`
	NodeName          string   `section:"Node" flag:"node-name" unset:"required by serve on Kafka; otherwise relay, dev: dev" help:"Name of this node. No two nodes may share one, and a node keeps its name across restarts."`
	Roles             []string `flag:"roles" default:"ingest,dispatch,write,api" help:"What this node does: ingest accepts webhooks, dispatch delivers, write copies the log into ClickHouse, api answers /v1."`
	DataDir           string   `flag:"data-dir" usual:"dev serve migrate doctor backup restore upgrade" default:"./.relay" help:"Directory of the command socket and of all data of the engines inside the process."`
	TakeoverSeconds   int      `flag:"takeover-seconds" default:"30" help:"How many seconds a node may be silent before other nodes take over its partitions, 6 to 1800. A restart within this time moves no partition."`
	ShutdownDelay     int      `flag:"shutdown-delay-seconds" unset:"5; on a log inside: 0" help:"How many seconds a node that is told to stop still takes requests while /readyz answers 503, so that load balancers leave it out, 0 to 60."`
	LogLevel          string   `flag:"log-level" usual:"dev" default:"info" help:"Lowest level that is logged: debug, info, warn or error."`
	LogFormat         string   `flag:"log-format" unset:"text; serve on engines inside: json" help:"How a line of the log is written: text (key=value pairs) or json. Each has at least time, level, msg and node."`
	AdminListen       string   `flag:"admin-listen" unset:"dev: 127.0.0.1:9090 if the port is free; serve: off" help:"Address and port of Prometheus metrics and pprof. They ask for no password."`
	Pprof             bool     `flag:"pprof" default:"true" help:"Serve the profiles of pprof beside the metrics. The Helm chart and docker-compose.yml turn them off."`
	AdminHosts        []string `flag:"admin-hosts" unset:"none" help:"Further host names under which metrics and pprof answer. They always answer under IP addresses, localhost and the node's name."`
	KafkaBrokers      []string `section:"Kafka" flag:"kafka-brokers" usual:"serve migrate doctor restore" unset:"serve: a log inside the process; required by migrate" help:"Addresses of the Kafka brokers, as host:port."`
	KafkaSASL         string   `flag:"kafka-sasl" unset:"no authentication" secret:"yes" help:"Credentials as mechanism:user:password. The mechanism is plain, scram-sha-256 or scram-sha-512."`
	KafkaTLS          string   `flag:"kafka-tls" unset:"no TLS" help:"Use TLS to the brokers: system trusts the system's root certificates, a path trusts those in this PEM file."`
	KafkaCertFile     string   `flag:"kafka-cert-file" unset:"no client certificate" help:"PEM file with the client certificate (mTLS) for the brokers. A changed file is used for new connections."`
	KafkaKeyFile      string   `flag:"kafka-key-file" unset:"none" help:"PEM file with the client certificate's private key. Give both files or neither."`
	TopicPrefix       string   `flag:"topic-prefix" usual:"migrate doctor upgrade" default:"relay." help:"Prefix of all topic and consumer group names."`
	Partitions        int      `flag:"partitions" usual:"migrate" unset:"32; on a log inside the process: 4" help:"Partitions of each topic, 1 to 4096. relay migrate creates topics with this many and adds partitions where there are fewer."`
	Replication       int      `flag:"replication-factor" usual:"migrate" unset:"3; on a log inside the process: 1" help:"Replicas of each topic that relay migrate creates. serve refuses topics with fewer."`
	LogKeepMinutes    int      `flag:"log-keep-minutes" default:"15" help:"How many minutes a record stays in the log after every consumer group has committed it, 15 to 43200. Raise it for consumers of your own. A log inside the process keeps at most 1 GB."`
	ClickHouseURL     string   `section:"ClickHouse" flag:"clickhouse-url" usual:"serve migrate doctor upgrade" unset:"serve on a log inside: a store inside the process; otherwise required" secret:"yes" help:"Address of the store: http://, https:// or clickhouse:// with a database as path, or unix:///path?database=name. Give one address for each shard, separated by commas."`
	ClickHouseCluster string   `flag:"clickhouse-cluster" usual:"migrate upgrade" unset:"no cluster" help:"Name of the ClickHouse cluster that the shards belong to. relay migrate then creates replicated tables on all its servers."`
	RetentionDays     int      `flag:"retention-days" usual:"dev serve" default:"30" help:"How many days events stay readable, 1 to 3650."`
	ReadURL           string   `flag:"read-url" unset:"the same as RELAY_CLICKHOUSE_URL" secret:"yes" help:"Addresses that lists, pages and figures use, as many as in RELAY_CLICKHOUSE_URL and with the same databases. Give them a user that may only read."`
	SearchURL         string   `flag:"search-url" unset:"the same as RELAY_READ_URL" secret:"yes" help:"Addresses that searches use, as many as in RELAY_CLICKHOUSE_URL and with the same databases. Give them another user whose quotas keep searches from slowing the writer down."`
	SearchThreads     int      `flag:"search-threads" default:"0" help:"Cores of a ClickHouse server that one search may use; an account has at most two searches running. 0 means half of this machine's cores."`
	SearchIndex       bool     `flag:"search-index" default:"false" help:"Keep a text index, which makes searches for rare text faster and storing events more expensive. relay migrate adds and removes it, dev does so when it starts, serve uses what is there."`
	RedisURL          string   `section:"Redis" flag:"redis-url" usual:"serve doctor restore" unset:"on a log inside: counters and claims inside the process; on Kafka: each node limits by itself and nothing is deduplicated" secret:"yes" help:"Address of the Redis that nodes share for rates, deduplication and circuit breakers: redis://, rediss:// or unix://."`
	RedisCAFile       string   `flag:"redis-ca-file" unset:"the system's root certificates" help:"PEM file with the root certificates that a Redis at rediss:// is trusted by."`
	RedisCertFile     string   `flag:"redis-cert-file" unset:"no client certificate" help:"PEM file with the client certificate (mTLS) for Redis. A changed file is used for new connections."`
	RedisKeyFile      string   `flag:"redis-key-file" unset:"none" help:"PEM file with the client certificate's private key. Give both files or neither."`
	Fsync             bool     `section:"Engines inside the process" flag:"fsync" default:"true" help:"Sync to disk before acknowledging. If false, a power cut loses unsynced events, configuration changes and list rows, usually those of the last 30 s."`
	SkipMissing       bool     `flag:"skip-missing-records" default:"false" help:"Start although the log lost events or deliveries, and skip them. Lost configuration is never skipped: restore a backup."`
	ChdbLib           string   `flag:"chdb-lib" usual:"backup restore" unset:"lib/libchdb.so beside the executable" help:"Path of libchdb.so, the embedded ClickHouse."`
	MasterKeys        string   `section:"Secrets and first users" flag:"master-keys" usual:"serve migrate doctor restore upgrade" unset:"required by serve on Kafka; otherwise created in the data directory" secret:"yes" help:"Keys that seal the secrets of the configuration, as name:base64 of 32 bytes, separated by commas. The first seals, all of them open."`
	BootstrapKey      string   `flag:"bootstrap-key" unset:"none; dev creates one" secret:"yes" help:"Read-write API key that exists from the first start."`
	BootstrapReadKey  string   `flag:"bootstrap-read-key" unset:"none" secret:"yes" help:"Read-only API key that exists from the first start."`
	AdminEmail        string   `flag:"admin-email" usual:"dev" unset:"none" help:"Email address of the first dashboard user. It is used only while there is no user, or only a dev@localhost who has never signed in."`
	AdminPassword     string   `flag:"admin-password" unset:"none" secret:"yes" help:"Password of the first dashboard user, 12 to 1000 bytes."`
	OIDCIssuer        string   `section:"Sign-in by OpenID Connect" flag:"oidc-issuer" unset:"people sign in with a password only" help:"URL of the OpenID Connect issuer that signs people in to the dashboard, exactly as the issuer writes it, such as https://login.example.com/realms/ops. See docs/operate/sign-in.md."`
	OIDCClientID      string   `flag:"oidc-client-id" unset:"required with RELAY_OIDC_ISSUER" help:"Id of the relay at the issuer."`
	OIDCClientSecret  string   `flag:"oidc-client-secret" unset:"a public client" secret:"yes" help:"Secret of the relay at the issuer."`
	OIDCWriteGroups   []string `flag:"oidc-write-groups" unset:"none" help:"Groups whose people may read and change everything. A name cannot have a comma."`
	OIDCReadGroups    []string `flag:"oidc-read-groups" unset:"none" help:"Groups whose people may read."`
	OIDCGroupsClaim   string   `flag:"oidc-groups-claim" default:"groups" help:"Claim of the ID token or of UserInfo that has the groups of a person: a text or a list. A path such as realm_access.roles leads into objects."`
	OIDCVerifiedClaim string   `flag:"oidc-verified-claim" default:"email_verified" help:"Claim that says whether the claim email is verified. People without it are refused."`
	OIDCScopes        []string `flag:"oidc-scopes" default:"openid,email" help:"Scopes that the relay asks for. Some issuers need another one for the groups."`
	EgressAllow       []string `section:"Deliveries" flag:"egress-allow" usual:"dev" unset:"public addresses only" help:"Networks (CIDR) that deliveries may reach although they are not public."`
	EgressDeny        []string `flag:"egress-deny" unset:"none" help:"Networks (CIDR) that deliveries must not reach although they are public: your own with public addresses. Wins over RELAY_EGRESS_ALLOW."`
	EgressCAFile      string   `flag:"egress-ca-file" unset:"the system's root certificates" help:"PEM file with further root certificates for destinations."`
	EgressAllowHTTP   bool     `flag:"egress-allow-http" usual:"dev" default:"false" help:"Accept http:// destinations, whose requests everybody on the way can read. For destinations on your own machine."`
	EgressProxy       string   `flag:"egress-proxy" unset:"none" secret:"yes" help:"HTTP proxy for all requests to addresses of customers: http://host:port or http://user:password@host:port. It gets CONNECT with the address that the relay has checked."`
	DNSServer         string   `flag:"dns-server" unset:"the system's resolver" help:"Address and port of the DNS server that resolves the names of destinations."`
	AllowEmpty        bool     `flag:"allow-empty-configuration" default:"false" help:"Dispatch although the configuration has no endpoint and deliveries wait in the log: they end as skipped. Also start without a log though the data directory has other data. Without it such a node does not start, because the configuration was probably lost."`
	APIRateRead       int      `section:"Limits and usage" flag:"api-rate-read" unset:"500; dev: no limit" help:"GET requests per second of one API key. 0 means no limit."`
	APIRateWrite      int      `flag:"api-rate-write" unset:"200; dev: no limit" help:"Changes (POST, PATCH, DELETE) per second of one API key. 0 means no limit."`
	APIRateSend       int      `flag:"api-rate-send" unset:"5000; dev: no limit" help:"Requests that send events, per second of one API key; a batch is one request. 0 means no limit."`
	AllowanceEvents   int      `flag:"allowance-events" default:"0" help:"Agreed number of events per month, shown by GET /v1/usage. Events above it are accepted. 0 means no allowance."`
	SMTPURL           string   `section:"Alerts and checks" flag:"smtp-url" unset:"no mail" secret:"yes" help:"Mail server for alerts: smtp:// or smtps://user:password@host:port?from=address. TLS is required except on loopback or with &tls=opportunistic."`
	AlertDomains      []string `flag:"alert-domains" unset:"any domain" help:"Domains that alert mail may go to. Subdomains are not included."`
	LedgerSeconds     int      `flag:"ledger-seconds" default:"60" help:"Seconds between two checks for lost deliveries, 0 to 3600: a node that dispatches compares accepted deliveries with completed and waiting ones. 0 means never."`
	TracesURL         string   `section:"Traces" flag:"traces-url" unset:"no traces" help:"Address of an OpenTelemetry collector that takes OTLP over HTTP, such as http://collector:4318. The path is /v1/traces unless you give one."`
	TracesSample      string   `flag:"traces-sample" default:"0.01" help:"Share of the accepted events that are traced, 0 to 1."`
	TracesHeaders     string   `flag:"traces-headers" unset:"none" secret:"yes" help:"Headers of the requests to the collector, as name=value,name=value. Values may be percent-encoded."`
	MetricsURL        string   `section:"Metrics and logs over OTLP" flag:"metrics-url" unset:"no export; Prometheus may scrape RELAY_ADMIN_LISTEN" help:"Address of an OpenTelemetry collector that takes the metrics by OTLP over HTTP. The path is /v1/metrics unless you give one."`
	MetricsSeconds    int      `flag:"metrics-seconds" default:"60" help:"Seconds between two exports of the metrics, 1 to 3600."`
	MetricsHeaders    string   `flag:"metrics-headers" unset:"none" secret:"yes" help:"Headers of the requests with metrics, as name=value,name=value. Values may be percent-encoded."`
	LogsURL           string   `flag:"logs-url" unset:"no export" help:"Address of an OpenTelemetry collector that takes the log of serve and dev by OTLP over HTTP. The path is /v1/logs unless you give one. The log is written to stderr all the same."`
	LogsHeaders       string   `flag:"logs-headers" unset:"none" secret:"yes" help:"Headers of the requests with log records, as name=value,name=value. Values may be percent-encoded."`

	// Decided by the command, not by a setting.
	Version  string
	Dev      bool // relay dev: without limits, and with metrics on a loopback address
	Embedded bool // the log is in this process, so this node is alone
	// EmbeddedLog is the log in this process; nil = Kafka.
	EmbeddedLog *stream.Log
	// DialRedis connects to the embedded engine without TCP; nil = TCP.
	DialRedis  func(ctx context.Context, network, addr string) (net.Conn, error)
	ClaimsFile string       // keeps the claims of events instead of Redis; empty: Redis does
	SyncTables func() error // syncs inserted rows to disk; nil = ClickHouse does so itself
	// BackUpStore lets use copy a backup of the store from a directory; nil: the store is elsewhere.
	BackUpStore func(ctx context.Context, use func(dir string) error) error
	// RestoreStore restores the store in the data directory from such a directory.
	RestoreStore func(ctx context.Context, s Config, log *slog.Logger, from string) error
	Checks       []CheckFunc // of features, for relay doctor
	Waits        Waits
}

// Waits shortens waits that are no settings, for tests of whole processes. One that is 0 keeps its length.
type Waits struct {
	ScanInterval time.Duration // between two requests of a leak scan to a host
	ClaimLife    time.Duration // of the claim of a call with an Idempotency-Key
	RunProgress  time.Duration // of a replay run, before it counts as interrupted
	PendingClaim time.Duration // of an event that is not stored yet, before a repeat stores it
}

// Unset is the value of a number that is not set, where 0 has a meaning of its own. Nobody gives it by mistake, as -1.
const Unset = math.MinInt

// defaultReplicationFactor is for a setting that is not given.
const defaultReplicationFactor = 3

// Copies returns the replication factor of new topics. serve refuses topics with less.
func (s Config) Copies() int {
	if s.Replication == 0 {
		return defaultReplicationFactor
	}
	return s.Replication
}

// Rate returns the given limit, or if it is Unset the default: defaultRate in serve, and 0, no limit, in dev.
func (s Config) Rate(given, defaultRate int) int {
	switch {
	case given != Unset:
		return given
	case s.Dev:
		return 0
	}
	return defaultRate
}

// defaultShutdownDelay is enough for a load balancer that asks /readyz each second and believes the second failure.
const defaultShutdownDelay = 5 * time.Second

// StopDelay returns how long a node that is asked to stop still takes requests.
func (s Config) StopDelay() time.Duration {
	switch {
	case s.ShutdownDelay != Unset:
		return time.Duration(s.ShutdownDelay) * time.Second
	case s.Embedded: // no other node takes over
		return 0
	}
	return defaultShutdownDelay
}

// HasRole reports whether the node has this role.
func (s Config) HasRole(role string) bool { return slices.Contains(s.Roles, role) }

// EgressPolicy returns which addresses of customers requests may reach.
func (s Config) EgressPolicy() egress.Policy {
	allow, _ := Prefixes(s.EgressAllow) // Validate has checked it
	deny, _ := Prefixes(s.EgressDeny)
	return egress.Policy{Allow: allow, Deny: deny, AllowHTTP: s.EgressAllowHTTP}
}

// Prefixes parses networks in CIDR form.
func Prefixes(texts []string) ([]netip.Prefix, error) {
	var out []netip.Prefix
	for _, t := range texts {
		p, err := netip.ParsePrefix(t)
		if err != nil {
			return nil, fmt.Errorf("%q is not a network; write one as 10.0.0.0/8", t)
		}
		out = append(out, p)
	}
	return out, nil
}

// Stream returns how to reach the log.
func (s Config) Stream() stream.Config {
	return stream.Config{
		Brokers: s.KafkaBrokers, Embedded: s.EmbeddedLog, Prefix: s.TopicPrefix, SASL: s.KafkaSASL, TLS: s.KafkaTLS,
		CertFile: s.KafkaCertFile, KeyFile: s.KafkaKeyFile,
		SessionTimeout: time.Duration(s.TakeoverSeconds) * time.Second,
	}
}

// Limit returns how to reach Redis.
func (s Config) Limit() limit.Config {
	cfg := limit.DefaultConfig()
	cfg.URL, cfg.Dial = s.RedisURL, s.DialRedis
	cfg.CAFile, cfg.CertFile, cfg.KeyFile = s.RedisCAFile, s.RedisCertFile, s.RedisKeyFile
	return cfg
}

// URL returns the public address without a trailing slash. listening is the address of the listener.
func (s Config) URL(listening string) string {
	if s.BaseURL != "" {
		return strings.TrimRight(s.BaseURL, "/")
	}
	scheme := "http"
	if s.TLSCertFile != "" {
		scheme = "https"
	}
	if len(s.ACMEHosts) > 0 {
		scheme = "https"
		_, port, _ := net.SplitHostPort(listening)
		if listening = s.ACMEHosts[0]; port != "443" {
			listening = net.JoinHostPort(s.ACMEHosts[0], port)
		}
	}
	// Clients cannot connect to 0.0.0.0.
	if a, err := netip.ParseAddrPort(listening); err == nil && a.Addr().IsUnspecified() {
		listening = net.JoinHostPort("localhost", strconv.Itoa(int(a.Port())))
	}
	return scheme + "://" + listening
}

// SplitList splits a comma-separated list, without empty items.
func SplitList(text string) []string {
	var out []string
	for part := range strings.SplitSeq(text, ",") {
		if part = strings.TrimSpace(part); part != "" {
			out = append(out, part)
		}
	}
	return out
}

// WeakKeys names the settings whose API keys are easier to guess than generated ones.
func (s Config) WeakKeys() (names []string) {
	if apikey.Weak(s.BootstrapKey) {
		names = append(names, "RELAY_BOOTSTRAP_KEY")
	}
	if apikey.Weak(s.BootstrapReadKey) {
		names = append(names, "RELAY_BOOTSTRAP_READ_KEY")
	}
	return names
}

// InstanceID returns the id for static group membership, with which a restart within the session timeout moves no
// partition. It is empty for a node that is alone: static membership would only delay its restart.
func (s Config) InstanceID() string {
	if s.Embedded {
		return ""
	}
	return s.NodeName
}

// Retention returns how long events are kept.
func (s Config) Retention() time.Duration { return time.Duration(s.RetentionDays) * 24 * time.Hour }

// ServedCertificate is the file with the certificate that HTTPS serves, or the first of them; empty without HTTPS.
func (s Config) ServedCertificate() string {
	if len(s.ACMEHosts) > 0 {
		return filepath.Join(s.DataDir, ACMEDir, s.ACMEHosts[0])
	}
	return s.TLSCertFile
}

// Names in the data directory.
const (
	ACMEDir        = "acme" // the account key and the certificates
	LogDir         = "log"
	KafkaDir       = "kafka" // the log of versions that ran an embedded Kafka
	ClaimsFile     = "claims.db"
	CountersFile   = "counters.json"
	MasterKeysFile = "master.keys"
	LockFile       = "relay.lock"
	RestoringFile  = "restore.incomplete" // marks an incomplete restore: no node starts on it
)

// EngineHosts returns the hosts of Kafka, ClickHouse and Redis that the settings name.
func (s Config) EngineHosts() []string {
	var hosts []string
	for _, broker := range s.KafkaBrokers {
		if host, _, err := net.SplitHostPort(broker); err == nil {
			hosts = append(hosts, host)
		}
	}
	urls := slices.Concat(SplitList(s.ClickHouseURL), SplitList(s.ReadURL), SplitList(s.SearchURL), []string{s.RedisURL})
	for _, text := range urls {
		if u, err := url.Parse(strings.TrimSpace(text)); err == nil && u.Hostname() != "" {
			hosts = append(hosts, u.Hostname())
		}
	}
	return hosts
}

// Traces returns how traces are recorded and exported.
func (s Config) Traces() spans.Config {
	return spans.Config{
		URL: s.TracesURL, Headers: s.TracesHeaders, Sample: s.TracesSample, Node: s.NodeName, Version: s.Version,
		CAFile: s.EgressCAFile, DNSServer: s.DNSServer,
	}
}

// OTLP returns how metrics and log lines are exported.
func (s Config) OTLP() otlp.Config {
	return otlp.Config{
		Metrics: s.collector(s.MetricsURL, s.MetricsHeaders), Logs: s.collector(s.LogsURL, s.LogsHeaders),
		Every: time.Duration(s.MetricsSeconds) * time.Second, Node: s.NodeName, Version: s.Version,
	}
}

func (s Config) collector(url, headers string) otlp.Collector {
	return otlp.Collector{URL: url, Headers: headers, CAFile: s.EgressCAFile, DNSServer: s.DNSServer}
}

// OIDC returns how people sign in by an OpenID Connect issuer. redirectURL is where it sends them back.
func (s Config) OIDC(redirectURL string) oidc.Config {
	return oidc.Config{
		Issuer: s.OIDCIssuer, ClientID: s.OIDCClientID, ClientSecret: s.OIDCClientSecret, Scopes: s.OIDCScopes,
		GroupsClaim: s.OIDCGroupsClaim, VerifiedClaim: s.OIDCVerifiedClaim, ReadGroups: s.OIDCReadGroups,
		WriteGroups: s.OIDCWriteGroups, RedirectURL: redirectURL, CAFile: s.EgressCAFile, DNSServer: s.DNSServer,
	}
}

// OpenDataDir creates the data directory, closes it to other users, and locks it.
func (s *Config) OpenDataDir() (unlock func(), err error) {
	if s.DataDir, err = filepath.Abs(s.DataDir); err != nil {
		return nil, fmt.Errorf("cannot resolve the data directory: %w", err)
	}
	if err := private.EnsureDir(s.DataDir, LockFile); err != nil {
		return nil, fmt.Errorf("data directory: %w", err)
	}
	return private.LockDir(s.DataDir, LockFile)
}

// Database is the database of the store inside the process.
const Database = "relay"

// StoreSocket is the unix socket of the store inside the process.
func (s Config) StoreSocket() string { return filepath.Join(s.DataDir, "run", "clickhouse.sock") }

// StoreURL is the address of its database.
func (s Config) StoreURL() string {
	u := url.URL{Scheme: "unix", Path: s.StoreSocket(), RawQuery: url.Values{"database": {Database}}.Encode()}
	return u.String()
}
