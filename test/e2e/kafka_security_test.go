package e2e

import (
	"errors"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/eventrelay/relay/features/doctor"
	"github.com/eventrelay/relay/pkg/stream"
	"github.com/eventrelay/relay/test/is"
	"github.com/eventrelay/relay/test/kit"
	"github.com/eventrelay/relay/test/must"
)

// documentedACL is a row of the table of ACLs in docs/operate/security.md.
type documentedACL struct {
	resource   string // topics, groups or cluster
	operations []kadm.ACLOperation
	migrates   bool // of relay migrate, not of nodes
}

// documentedACLs reads the table of ACLs in docs/operate/security.md.
func documentedACLs(t *testing.T) (all []documentedACL) {
	t.Helper()
	row := regexp.MustCompile(`(?m)^\| (topics|groups|cluster)[^|]*\| ([A-Za-z, ]+) \| ([^|]*)\|$`)
	for _, found := range row.FindAllStringSubmatch(string(readFile(t, "docs/operate/security.md")), -1) {
		a := documentedACL{resource: found[1], migrates: strings.Contains(found[3], "relay migrate")}
		for name := range strings.SplitSeq(found[2], ", ") {
			op, err := kmsg.ParseACLOperation(name)
			must.Do(t, err, "docs/operate/security.md")
			a.operations = append(a.operations, op)
		}
		all = append(all, a)
	}
	if len(all) < 4 {
		t.Fatalf("docs/operate/security.md has %d rows of ACLs", len(all))
	}
	return all
}

// The ACLs in docs/operate/security.md are enough for a node and for relay migrate on an Apache Kafka with SASL, TLS
// and an authorizer, and each is used. A missing one is named, and so is everything else that keeps a node out. The
// node's Redis wants TLS and a client certificate.
func TestDocumentedKafkaACLsAreEnoughAndMinimal(t *testing.T) {
	t.Parallel()
	broker := kit.SecureKafka(t)
	later := time.Now().AddDate(0, 2, 0)
	redis, own := kit.SecureRedis(t, broker.CA, broker.CA.Issue(t, "redis", later), true), broker.CA.Issue(t, "own", later)
	c := newCluster(t, engines{broker.SASLAddr, redis.Addr, sharedEngine(t, "clickhouse")}, "secure",
		"RELAY_KAFKA_TLS="+broker.CA.File, "RELAY_KAFKA_SASL=scram-sha-512:relay:right password",
		"RELAY_REDIS_URL="+redis.URL, "RELAY_REDIS_CA_FILE="+broker.CA.File, "RELAY_REDIS_CERT_FILE="+own.CertFile,
		"RELAY_REDIS_KEY_FILE="+own.KeyFile)
	broker.AddUser(t, "relay", "right password")
	broker.AddUser(t, "migrate", "its password")
	acls := documentedACLs(t)
	for _, a := range acls {
		principal := "User:relay"
		if a.migrates {
			principal = "User:migrate"
		}
		broker.Allow(t, principal, a.resource, c.prefix, a.operations...)
	}
	asMigrate := []string{"--kafka-sasl", "scram-sha-256:migrate:its password"}
	c.migrate(asMigrate...)
	asMigrate = append(asMigrate, "--partitions", "5")
	c.migrate(asMigrate...)
	value := "1000"
	must.Get(broker.Admin.AlterTopicConfigs(t.Context(), []kadm.AlterConfig{
		{Op: kadm.SetConfig, Name: "retention.ms", Value: &value}}, c.prefix+stream.Outcomes))(t)
	c.migrate(append(asMigrate, "--fix")...)

	n := c.node("a")
	n.start()
	dest := newSink(t, nil)
	ep, _, _ := n.endpoint(map[string]any{"destinations": []any{dest.URL}})
	n.awaitStatus(n.send(ep, 1), "delivered", arrival)
	c.migrate(asMigrate...) // reads the configuration log, in which there are records now
	checks, _ := n.runDoctor()
	for _, name := range []string{"kafka", "topics", "rights", "writers", "engine certificates"} {
		// The principal of relay migrate may write settings: the doctor names it.
		if got := checks[name]; got.State != doctor.StateOK && (name != "writers" || len(got.Details) != 1) {
			t.Errorf("%s: %+v", name, got)
		}
	}
	if got := checks["redis"].Text; !strings.Contains(got, "keeps nothing over a restart") { // its settings were read
		t.Errorf("redis: %s", got)
	}
	conf := stream.Config{Brokers: []string{broker.SASLAddr}, Prefix: c.prefix, TLS: broker.CA.File,
		SASL: "scram-sha-512:relay:right password"}
	trim(t, conf) // a node does this when records are older than RELAY_LOG_KEEP_MINUTES
	checkDecisions(t, broker, acls)

	broker.Forbid(t, "User:relay", "topics", c.prefix, kadm.OpWrite)
	broker.Forbid(t, "User:relay", "groups", c.prefix, kadm.OpRead)
	eventually(t, arrival, func() string {
		checks, _ := n.runDoctor()
		missing := strings.Join(checks["rights"].Details, "; ")
		if checks["rights"].State != doctor.StateFail || !strings.Contains(missing, "Read on group "+c.prefix+"dispatch") ||
			!strings.Contains(missing, "Write on topic "+c.prefix) || !strings.Contains(missing, c.prefix+"events") {
			return "rights: " + checks["rights"].Text + missing
		}
		return ""
	})
	refused := c.node("b", "--listen", "127.0.0.1:0")
	if out, err := refused.command(refused.args...).CombinedOutput(); err == nil ||
		!strings.Contains(string(out), "Write on topic "+c.prefix) ||
		!strings.Contains(string(out), "docs/operate/security.md") {
		t.Errorf("a node without a right: %v\n%s", err, out)
	}
	keptOut(t, broker, conf)
}

// trim deletes no record of a partition, which needs the right to delete.
func trim(t *testing.T, conf stream.Config) {
	t.Helper()
	r := must.Get(stream.NewReader(conf, "test"))(t)
	defer r.Close()
	is.OK(t, r.Trim(t.Context(), stream.Partition{Topic: stream.Events}, 0))
}

// checkDecisions checks that the authorizer has denied nothing, and that each documented operation was needed.
func checkDecisions(t *testing.T, broker *kit.SecureBroker, acls []documentedACL) {
	t.Helper()
	used := map[string]bool{}
	for _, principal := range []string{"User:relay", "User:migrate"} {
		for _, d := range broker.Decisions(principal) {
			used[principal+" "+d.Text] = true
			if strings.HasPrefix(d.Text, "Denied") {
				t.Errorf("%s: %s for %s", principal, d.Text, d.Example)
			}
		}
	}
	kinds := map[string]string{"topics": "Topic", "groups": "Group", "cluster": "Cluster"}
	for _, a := range acls {
		principal := "User:relay"
		if a.migrates {
			principal = "User:migrate"
		}
		for _, op := range a.operations {
			if !used[principal+" Allowed "+kinds[a.resource]+" "+strings.ToUpper(op.String())] {
				t.Errorf("%s: the documented operation %s on %s is not used: %v", principal, op, a.resource, used)
			}
		}
	}
}

// keptOut checks that a client that the brokers refuse, or that refuses them, says which setting is wrong.
func keptOut(t *testing.T, broker *kit.SecureBroker, right stream.Config) {
	tomorrow := time.Now().Add(24 * time.Hour)
	own, other := broker.CA.Issue(t, "relay", tomorrow), kit.NewCA(t)
	foreign, old := other.Issue(t, "relay", tomorrow), broker.CA.Issue(t, "old", time.Now().Add(-time.Hour))
	mtls := func(p kit.Pair) func(*stream.Config) {
		return func(c *stream.Config) {
			c.Brokers, c.SASL, c.CertFile, c.KeyFile = []string{broker.MTLSAddr}, "", p.CertFile, p.KeyFile
		}
	}
	var all sync.WaitGroup
	defer all.Wait()
	for name, f := range map[string]struct {
		change func(*stream.Config)
		is     error
		text   string
	}{
		"SCRAM-SHA-256":    {func(c *stream.Config) { c.SASL = strings.Replace(c.SASL, "512", "256", 1) }, nil, ""},
		"another password": {func(c *stream.Config) { c.SASL += "x" }, stream.ErrLogin, "RELAY_KAFKA_SASL"},
		"another user": {func(c *stream.Config) { c.SASL = "scram-sha-512:nobody:right password" }, stream.ErrLogin,
			"RELAY_KAFKA_SASL"},
		"a mechanism that is off": {func(c *stream.Config) { c.SASL = "plain:relay:right password" }, stream.ErrSecurity,
			"RELAY_KAFKA_SASL"},
		"an unknown CA": {func(c *stream.Config) { c.TLS = other.File }, stream.ErrSecurity, "RELAY_KAFKA_TLS"},
		"an expired broker": {func(c *stream.Config) { c.Brokers = []string{broker.ExpiredAddr} }, stream.ErrSecurity,
			"expired"},
		"a client certificate":          {mtls(own), nil, ""},
		"no client certificate":         {mtls(kit.Pair{}), stream.ErrSecurity, "RELAY_KAFKA_CERT_FILE"},
		"a foreign client certificate":  {mtls(foreign), stream.ErrSecurity, "RELAY_KAFKA_CERT_FILE"},
		"an expired client certificate": {mtls(old), stream.ErrSecurity, "RELAY_KAFKA_CERT_FILE"},
	} {
		conf := right
		f.change(&conf)
		all.Go(func() {
			missing, err := stream.MissingRights(t.Context(), conf, false)
			if !errors.Is(err, f.is) || err != nil && !strings.Contains(err.Error(), f.text) {
				t.Errorf("%s: %v, want %v with %q", name, err, f.is, f.text)
			}
			t.Logf("%s: %d missing rights, %v", name, len(missing), err)
		})
	}
}
