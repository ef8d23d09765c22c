package node

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/eventrelay/relay/pkg/apikey"
	"github.com/eventrelay/relay/pkg/egress"
	"github.com/eventrelay/relay/pkg/limit"
	"github.com/eventrelay/relay/pkg/stream"
)

// Config is everything that an operator can say. Each has a flag (`--kafka-brokers`) and an environment variable
// (RELAY_KAFKA_BROKERS); the flag wins. Package command reads and checks them, and makes the README's table from the
// tags.
type Config struct {
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
	AlertDomains      []string `flag:"alert-domains" help:"domains that alert mails may go to, their subdomains not included; none = any"`
	LogLevel          string   `flag:"log-level" default:"info" help:"debug, info, warn or error"`

	// Decided by the command, not by a setting.
	Version  string
	Embedded bool // the engines are embedded
	// DialKafka and DialRedis lead past the network where that can be; nil = TCP.
	DialKafka, DialRedis func(ctx context.Context, network, addr string) (net.Conn, error)
	SyncTables           func() error // makes what ClickHouse has taken durable; nil = it does so by itself
}

// Unset marks a number that nobody has given, where 0 means something.
const Unset = -1

// newCopies is how many a new service gets whose settings say nothing.
const newCopies = 3

// Copies is the replication factor that topics get, and must have at least.
func (s Config) Copies() int {
	if s.Replication == 0 {
		return newCopies
	}
	return s.Replication
}

// rate is a limit that was given, or the usual one of serve; dev has none.
func (s Config) rate(given, usual int) int {
	switch {
	case given != Unset:
		return given
	case s.Embedded:
		return 0
	}
	return usual
}

func (s Config) has(role string) bool { return slices.Contains(s.Roles, role) }

func (s Config) egressPolicy() egress.Policy {
	allow, _ := Prefixes(s.EgressAllow) // checked before
	return egress.Policy{Allow: allow, AllowHTTP: s.EgressAllowHTTP}
}

// Prefixes reads networks.
func Prefixes(texts []string) ([]netip.Prefix, error) {
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

// Stream says where the log is.
func (s Config) Stream() stream.Config {
	return stream.Config{
		Brokers: s.KafkaBrokers, Prefix: s.TopicPrefix, SASL: s.KafkaSASL, TLS: s.KafkaTLS,
		Session: time.Duration(s.TakeoverSeconds) * time.Second, DialFunc: s.DialKafka,
	}
}

// Limit says where the limiter keeps its state.
func (s Config) Limit() limit.Config {
	cfg := limit.DefaultConfig()
	cfg.URL, cfg.Dial = s.RedisURL, s.DialRedis
	return cfg
}

// baseURL is the public address without a trailing slash.
func (s Config) baseURL(listening string) string {
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

// SplitList reads a list with commas.
func SplitList(text string) []string {
	var out []string
	for part := range strings.SplitSeq(text, ",") {
		if part = strings.TrimSpace(part); part != "" {
			out = append(out, part)
		}
	}
	return out
}

// WeakKeys are the settings whose API keys are easier to guess than those that the relay makes.
func (s Config) WeakKeys() (names []string) {
	if apikey.Weak(s.BootstrapKey) {
		names = append(names, "RELAY_BOOTSTRAP_KEY")
	}
	if apikey.Weak(s.BootstrapReadKey) {
		names = append(names, "RELAY_BOOTSTRAP_READ_KEY")
	}
	return names
}
