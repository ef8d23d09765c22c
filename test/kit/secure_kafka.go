package kit

import (
	"context"
	"fmt"
	"net"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// SecureBroker is an Apache Kafka broker with an authorizer. Everybody but User:ANONYMOUS, which Admin is,
// needs ACLs.
type SecureBroker struct {
	SASLAddr    string // SASL_SSL with SCRAM-SHA-256 and SCRAM-SHA-512
	MTLSAddr    string // SSL; clients need a certificate of the CA, and are User:CN=name
	ExpiredAddr string // as SASLAddr, with a certificate that has expired
	PlainAddr   string // of Admin
	CA          *CA
	Admin       *kadm.Client

	engine *Engine
}

// SecureKafka starts an Apache Kafka broker that checks passwords, client certificates and ACLs, and logs what it
// allows.
func SecureKafka(t testing.TB) *SecureBroker {
	t.Helper()
	b := &SecureBroker{CA: NewCA(t)}
	ports := make([]int, 5)
	for i := range ports {
		ports[i] = FreePort(t)
	}
	at := func(i int) string { return fmt.Sprintf("127.0.0.1:%d", ports[i]) }
	b.SASLAddr, b.MTLSAddr, b.ExpiredAddr, b.PlainAddr = at(0), at(1), at(2), at(3)
	valid := b.CA.Issue(t, "broker", time.Now().AddDate(0, 2, 0))
	expired := b.CA.Issue(t, "expired", time.Now().Add(-time.Hour))
	const scram = "org.apache.kafka.common.security.scram.ScramLoginModule required;"
	properties := []string{
		"controller.quorum.voters=1@" + at(4),
		fmt.Sprintf("listeners=SASL://%s,MTLS://%s,EXPIRED://%s,BROKERS://%s,CONTROLLER://%s", at(0), at(1), at(2), at(3),
			at(4)),
		fmt.Sprintf("advertised.listeners=SASL://%s,MTLS://%s,EXPIRED://%s,BROKERS://%s", at(0), at(1), at(2), at(3)),
		"listener.security.protocol.map=SASL:SASL_SSL,MTLS:SSL,EXPIRED:SASL_SSL,BROKERS:PLAINTEXT,CONTROLLER:PLAINTEXT",
		"ssl.keystore.type=PEM", "ssl.keystore.location=" + valid.BothFile,
		"ssl.truststore.type=PEM", "ssl.truststore.location=" + b.CA.File,
		"listener.name.mtls.ssl.client.auth=required",
		"listener.name.expired.ssl.keystore.type=PEM", "listener.name.expired.ssl.keystore.location=" + expired.BothFile,
		"authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer",
		// Otherwise a slow client may find the connection closed before it reads why.
		"connection.failed.authentication.delay.ms=2000",
		"super.users=User:ANONYMOUS", "allow.everyone.if.no.acl.found=false",
	}
	for _, listener := range []string{"sasl", "expired"} {
		name := "listener.name." + listener
		properties = append(properties, name+".sasl.enabled.mechanisms=SCRAM-SHA-256,SCRAM-SHA-512",
			name+".scram-sha-256.sasl.jaas.config="+scram, name+".scram-sha-512.sasl.jaas.config="+scram)
	}
	run := kafkaProcess(t, properties)
	run.command = append([]string{"env", "RELAY_KAFKA_AUTHORIZER_LOG=DEBUG"}, run.command...)
	peer := &Brokers{Addr: at(3), dial: net.Dial}
	b.engine = startEngine(t, &Engine{
		Addr: at(3), Description: "Apache Kafka with an authorizer, a process of its own", runner: run,
		startLimit: 10 * time.Minute, dial: net.Dial,
		checkReady: func(ctx context.Context, _ *Engine) error { return peer.checkMember(ctx, at(3), 1) },
	})
	var err error
	if b.Admin, err = kadm.NewOptClient(kgo.SeedBrokers(at(3))); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.Admin.Close)
	return b
}

// AddUser adds a user with a password for both mechanisms of SCRAM.
func (b *SecureBroker) AddUser(t testing.TB, name, password string) {
	t.Helper()
	// A request may change one credential of a user.
	for _, mechanism := range []kadm.ScramMechanism{kadm.ScramSha256, kadm.ScramSha512} {
		altered, err := b.Admin.AlterUserSCRAMs(t.Context(), nil, []kadm.UpsertSCRAM{
			{User: name, Mechanism: mechanism, Iterations: 4096, Password: password}})
		if err == nil {
			err = altered.Error()
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// Allow adds ACLs for a principal: operations on all topics, or all groups, whose names begin with a prefix, or on the
// cluster.
func (b *SecureBroker) Allow(t testing.TB, principal, resource, prefix string, operations ...kadm.ACLOperation) {
	t.Helper()
	created, err := b.Admin.CreateACLs(t.Context(), acls(principal, resource, prefix, operations))
	for _, c := range created {
		if err == nil {
			err = c.Err
		}
	}
	if err != nil {
		t.Fatal(err)
	}
}

// Forbid removes ACLs that Allow added.
func (b *SecureBroker) Forbid(t testing.TB, principal, resource, prefix string, operations ...kadm.ACLOperation) {
	t.Helper()
	deleted, err := b.Admin.DeleteACLs(t.Context(), acls(principal, resource, prefix, operations))
	if err != nil || len(deleted) == 0 || len(deleted[0].Deleted) == 0 {
		t.Fatalf("%v %v", deleted, err)
	}
}

func acls(principal, resource, prefix string, operations []kadm.ACLOperation) *kadm.ACLBuilder {
	builder := kadm.NewACLs().Allow(principal).AllowHosts("*").Operations(operations...)
	switch resource {
	case "topics":
		builder = builder.Topics(prefix).ResourcePatternType(kadm.ACLPatternPrefixed)
	case "groups":
		builder = builder.Groups(prefix).ResourcePatternType(kadm.ACLPatternPrefixed)
	default:
		builder = builder.Clusters().ResourcePatternType(kadm.ACLPatternLiteral)
	}
	return builder
}

var authorizerLine = regexp.MustCompile(
	`Principal = (\S+) is (Allowed|Denied) [Oo]peration = (\w+) from host = \S+ on resource = (Topic|Group|Cluster):\w+:` +
		`(\S+) for request = (\w+)`)

// Decision is what the authorizer has decided about an operation: "Allowed Topic WRITE", and an example.
type Decision struct{ Text, Example string }

// Decisions returns the different decisions of the authorizer about a principal since the start, in their order.
func (b *SecureBroker) Decisions(principal string) (all []Decision) {
	seen := map[string]bool{}
	for _, found := range authorizerLine.FindAllStringSubmatch(b.engine.runner.output(), -1) {
		text := strings.Join([]string{found[2], found[4], found[3]}, " ")
		if found[1] == principal && !seen[text] {
			seen[text] = true
			all = append(all, Decision{text, found[6] + " of " + found[5]})
		}
	}
	return all
}
