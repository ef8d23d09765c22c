package doctor

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/eventrelay/relay/pkg/config"
	"github.com/eventrelay/relay/pkg/limit"
	"github.com/eventrelay/relay/pkg/stream"
	"github.com/eventrelay/relay/test/must"
)

// Each planted fault is found: with its state, what is wrong, and what to do.
func TestEachPlantedFaultIsFound(t *testing.T) {
	now := time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)
	node := func(name string) config.Node { return config.Node{Name: name, Version: "1"} }
	older, skewed, far, twin := node("b"), node("b"), node("b"), node("b")
	older.Version, skewed.ClockSkew, far.ClockSkew, twin.Shared = "0", 3*time.Second, -40*time.Second, true
	store := func(text string) Check {
		x := checker{Target: Target{Store: func(context.Context) error { return errors.New(text) }}}
		return x.clickhouse(t.Context())
	}
	rights := func(missing ...string) Check {
		answers := func(context.Context) error { return nil }
		x := checker{Target: Target{Store: answers, StoreRights: func(context.Context) ([]string, error) {
			return missing, nil
		}}}
		return x.clickhouse(t.Context())
	}
	certificate := func(file string) Check {
		x := checker{Target: Target{CertFile: file, Now: func() time.Time { return now }}}
		return x.certificate(t.Context())
	}
	in := func(d time.Duration) string { return writeCertificate(t, now.Add(-time.Hour), now.Add(d)) }
	partition := stream.UnderReplicatedPartition{
		Partition: stream.Partition{Topic: "events", Index: 3}, InSync: 2, Replicas: 3, BrokersOutOfSync: []int32{1}}
	leaderless := partition
	leaderless.Leaderless, leaderless.InSync = true, 0
	healthy := ok("3 brokers")
	for name, f := range map[string]struct {
		check               Check
		state, text, advice string
	}{
		"a broker is lost": {checkReplicas(healthy, []stream.UnderReplicatedPartition{partition}), StateWarn,
			"1 partition with fewer", "start the missing broker"},
		"a partition has no one": {checkReplicas(healthy, []stream.UnderReplicatedPartition{partition, leaderless}),
			StateFail, "1 partition without a leader", "start the brokers"},
		"an ACL is missing": {checkRights([]stream.MissingRight{{Operation: "Write", Resource: "topic",
			Names: []string{"relay.events"}}}), StateFail, "does not allow", "docs/operate/security.md"},
		"another writes to topics": {checkWriters([]stream.AllowedWriter{{Principal: "User:x"}}, "User:relay", nil,
			"relay."), StateWarn, "1 other principal", "give the relay its own principal"},
		"Kafka asks for no rights": {checkWriters(nil, "", stream.ErrNoAuthorizer, "relay."), StateWarn,
			"every client", "turn on an authorizer"},
		"versions are apart": {checkNodes([]config.Node{node("a"), older}, 1, 1), StateWarn,
			"2 different versions", "upgrade all nodes"},
		"an upgrade is not ended": {checkNodes([]config.Node{node("a")}, 1, 2), StateWarn, "has level 1",
			"relay migrate --finalize"},
		"two nodes have one name": {checkNodes([]config.Node{node("a"), twin}, 1, 1), StateFail,
			"two processes run under the name b", "RELAY_NODE_NAME"},
		"a node reads no heartbeats": {withHeartbeats("a", nil, checkClock), StateWarn,
			"not known: node a runs", "kafka"},
		"no node runs": {checkNodes(nil, 1, 1), StateFail, "no node runs", "relay serve"},
		"a clock is wrong": {checkClock([]config.Node{node("a"), skewed}), StateWarn,
			"node b differ by at least 3 s", "NTP"},
		"a clock stops events": {checkClock([]config.Node{far, skewed}), StateFail, "differ by at least 40 s", "NTP"},
		"another service's keys": {(&checker{Target: Target{ConfigErr: config.ErrLogSecret}}).noConfig(), StateFail,
			config.ErrLogSecret.Error(), ""},
		"migrations are half-run": {store("the tables are at migration 0001, this version needs 0002: run relay migrate"),
			StateFail, "run relay migrate", "relay migrate has run"},
		"a shard is lost": {store("shard 2: connection refused"), StateFail, "shard 2", "RELAY_CLICKHOUSE_URL"},
		"a grant is missing": {store("code: 497, message: relay: Not enough privileges"), StateFail,
			"Not enough privileges", "relay migrate --print-grants"},
		"a writer may not write": {rights("RELAY_CLICKHOUSE_URL: INSERT ON relay.*"), StateFail,
			"users of ClickHouse lack rights", "relay migrate --print-grants"},
		"Redis is nearly full": {checkRedis(healthy, limit.Settings{Eviction: "noeviction", Memory: 0.8}), StateWarn,
			"uses 80 %", "maxmemory"},
		"Redis evicts": {checkRedis(healthy, limit.Settings{Eviction: "allkeys-lru", Memory: 1}), StateWarn,
			"allkeys-lru", "noeviction"},
		"Redis forgets": {checkRedis(healthy, limit.Settings{Eviction: "noeviction", Volatile: true}),
			StateWarn, "over a restart", "appendonly"},
		"the volume fills":   {checkDisk("/data", 10, 100, 0, 0), StateWarn, "(10 %) free", "enlarge the disk"},
		"the volume is full": {checkDisk("/data", 1, 100, 0, 0), StateFail, "(1 %) free", "enlarge the disk"},
		"a certificate ends": {certificate(in(5 * 24 * time.Hour)), StateWarn, "expires in 5 days",
			"RELAY_TLS_CERT_FILE"},
		"a certificate has ended": {certificate(in(-time.Minute)), StateFail, "has expired", "RELAY_TLS_CERT_FILE"},
		"a certificate is away":   {certificate("/nowhere"), StateFail, "no such file", "readable"},
		"too few files": {(&checker{Target: Target{OpenFiles: 1024,
			WantFiles: 8192}}).openFiles(t.Context()), StateWarn, "1024 files", "LimitNOFILE"},
		"two limits are near": {checkBounds([]config.BoundUsage{{Name: "endpoints", Used: 90, Limit: 100},
			{Name: "answers", Used: 95, Limit: 100}}), StateWarn, "near 2 limits", "delete what is unused"},
		"no finding is opened": {checkFindings(healthy, []config.BoundUsage{{Name: "findings", Used: 5, Limit: 5},
			{Name: "endpoints", Used: 5, Limit: 5}}, 0), StateFail, "; new leaks are in no list: findings: 5 of 5",
			"resolve or ignore findings"},
		"hits were dropped": {checkFindings(healthy, []config.BoundUsage{{Name: "findings", Used: 4, Limit: 5}}, 3),
			StateWarn, "; 3 hits in no list", "resolve or ignore findings"},
		"a group has stopped": {checkAge(time.Hour, "add nodes", "waits"), StateFail, "waits", "add nodes"},
	} {
		c := f.check
		if c.State != f.state || !strings.Contains(c.Text, f.text) || !strings.Contains(c.Advice, f.advice) {
			t.Errorf("%s: %+v, want %s %q %q", name, c, f.state, f.text, f.advice)
		}
	}
	ofRSA := writeCertificateOf(t, must.Get(rsa.GenerateKey(rand.Reader, 2048))(t), now.Add(-time.Hour),
		now.Add(30*24*time.Hour))
	if c := certificate(ofRSA); c.State != StateOK || !strings.Contains(c.Text, "its key is RSA") {
		t.Errorf("a certificate with an RSA key: %+v", c)
	}
	if c := certificate(in(30 * 24 * time.Hour)); c.State != StateOK || strings.Contains(c.Text, "RSA") {
		t.Errorf("a valid certificate: %+v", c)
	}
	c := checkBounds([]config.BoundUsage{{Name: "a", Used: 9, Limit: 10}, {Name: "b", Used: 10, Limit: 10}})
	if len(c.Details) != 2 || !strings.HasPrefix(c.Details[0], "a: 9 of 10") {
		t.Errorf("both limits are listed: %+v", c)
	}
}

// writeCertificate writes a self-signed certificate and returns its file.
func writeCertificate(t *testing.T, from, until time.Time) string {
	t.Helper()
	return writeCertificateOf(t, must.Get(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))(t), from, until)
}

func writeCertificateOf(t *testing.T, key crypto.Signer, from, until time.Time) string {
	t.Helper()
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "relay"}, NotBefore: from,
		NotAfter: until}
	der := must.Get(x509.CreateCertificate(rand.Reader, template, template, key.Public(), key))(t)
	file := filepath.Join(t.TempDir(), "cert.pem")
	text := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	must.Do(t, os.WriteFile(file, text, 0o600))
	return file
}

// Faults of the topics, each planted in a Kafka of three brokers.
func TestFaultsOfTopicsAreFound(t *testing.T) {
	cluster := must.Get(kfake.NewCluster(kfake.NumBrokers(3)))(t)
	defer cluster.Close()
	cl := must.Get(kgo.NewClient(kgo.SeedBrokers(cluster.ListenAddrs()...)))(t)
	defer cl.Close()
	adm := kadm.NewClient(cl)
	for i, f := range []struct {
		name   string
		plant  func(prefix string) error
		state  string
		text   string
		detail string
		advice string
	}{
		{"nothing", func(string) error { return nil }, StateOK, "configured correctly", "", ""},
		{"retention", alter(t, adm, "events", "retention.ms", "1000"), StateFail, "1 topic setting", "retention.ms",
			"relay migrate --fix"},
		{"in-sync replicas", alter(t, adm, "control", "min.insync.replicas", "1"), StateFail, "1 topic setting",
			"min.insync.replicas", "relay migrate --fix"},
		{"compaction", alter(t, adm, "control", "cleanup.policy", "compact"), StateFail, "1 topic setting",
			"cleanup.policy", "relay migrate --fix"},
		{"a missing topic", func(prefix string) error {
			_, err := adm.DeleteTopic(t.Context(), prefix+"outcomes")
			return err
		}, StateFail, "outcomes", "", "relay migrate"},
		{"partitions", func(prefix string) error {
			_, err := adm.CreatePartitions(t.Context(), 3, prefix+"events")
			return err
		}, StateFail, "topic settings", "partitions is 4, want 7", "relay migrate"},
	} {
		conf := stream.Config{Brokers: cluster.ListenAddrs(), Prefix: fmt.Sprintf("relay%d.", i)}
		must.Get(stream.Migrate(t.Context(), conf, 4, 3))(t)
		if err := f.plant(conf.Prefix); err != nil {
			t.Fatal(f.name, err)
		}
		x := checker{Target: Target{Stream: conf, ReplicationFactor: 3}}
		c := x.topics(t.Context())
		if c.State != f.state || !strings.Contains(c.Text, f.text) || !strings.Contains(join(c.Details), f.detail) ||
			!strings.Contains(c.Advice, f.advice) {
			t.Errorf("%s: %+v", f.name, c)
		}
	}
	conf := stream.Config{Brokers: cluster.ListenAddrs(), Prefix: "single."}
	must.Get(stream.Migrate(t.Context(), conf, 4, 1))(t)
	x := checker{Target: Target{Stream: conf, ReplicationFactor: 3}}
	if c := x.topics(t.Context()); c.State != StateFail || !strings.Contains(c.Text+join(c.Details), "replication") {
		t.Errorf("one replica: %+v", c)
	}
	underReplicated(t, cluster, conf)
}

// alter returns a fault: a topic's setting has another value.
func alter(t *testing.T, adm *kadm.Client, topic, name, value string) func(prefix string) error {
	return func(prefix string) error {
		_, err := adm.AlterTopicConfigs(t.Context(), []kadm.AlterConfig{{Op: kadm.SetConfig, Name: name, Value: &value}},
			prefix+topic)
		return err
	}
}

// underReplicated checks that partitions without a leader, and with replicas that are out of sync, are found.
func underReplicated(t *testing.T, cluster *kfake.Cluster, conf stream.Config) {
	t.Helper()
	reader, err := stream.NewReader(conf, "test")
	must.Do(t, err)
	if partitions, err := reader.UnderReplicatedPartitions(t.Context()); err != nil || len(partitions) != 0 {
		t.Fatalf("%v %v", partitions, err)
	}
	reader.Close() // it remembers the answer
	if reader, err = stream.NewReader(conf, "test"); err != nil {
		t.Fatal(err)
	}
	defer reader.Close()
	cluster.ControlKey(int16(kmsg.Metadata), func(request kmsg.Request) (kmsg.Response, error, bool) {
		cluster.KeepControl()
		response := request.ResponseKind().(*kmsg.MetadataResponse)
		response.Brokers = []kmsg.MetadataResponseBroker{{NodeID: 0, Host: "127.0.0.1", Port: 1}}
		for _, asked := range request.(*kmsg.MetadataRequest).Topics {
			topic := kmsg.NewMetadataResponseTopic()
			topic.Topic = asked.Topic
			for index, leader := range []int32{0, -1} {
				p := kmsg.NewMetadataResponseTopicPartition()
				p.Partition, p.Leader, p.Replicas, p.ISR = int32(index), leader, []int32{0, 1, 2}, []int32{0, 2}
				if *asked.Topic == conf.Prefix+"events" {
					topic.Partitions = append(topic.Partitions, p)
				}
			}
			response.Topics = append(response.Topics, topic)
		}
		return response, nil, true
	})
	found, err := reader.UnderReplicatedPartitions(t.Context())
	if err != nil || len(found) != 2 || found[0].Leaderless || found[0].InSync != 2 || !found[1].Leaderless ||
		fmt.Sprint(found[0].BrokersOutOfSync) != "[1]" {
		t.Errorf("%+v %v", found, err)
	}
}
