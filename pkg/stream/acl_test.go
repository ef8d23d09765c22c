package stream

import (
	"errors"
	"slices"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/eventrelay/relay/test/must"
)

// All forms of ACLs are read. Brokers without ACLs and brokers that do not show them are distinguished.
func TestWriters(t *testing.T) {
	rule := func(name string, pattern kmsg.ACLResourcePatternType, op kmsg.ACLOperation) kfake.ACL {
		return kfake.ACL{Resource: kmsg.ACLResourceTypeTopic, Name: name, Pattern: pattern, Operation: op, Allow: true}
	}
	literal, prefixed := kmsg.ACLResourcePatternTypeLiteral, kmsg.ACLResourcePatternTypePrefixed
	cluster := must.Get(kfake.NewCluster(kfake.NumBrokers(1), kfake.EnableSASL(), kfake.EnableACLs(),
		kfake.Superuser("PLAIN", "relay", "password"),
		kfake.User("PLAIN", "reader", "password", rule("relay.events", literal, kmsg.ACLOperationRead)),
		kfake.User("PLAIN", "other", "password", rule("relay.control", literal, kmsg.ACLOperationWrite)),
		kfake.User("PLAIN", "wide", "password", rule("relay.retry", prefixed, kmsg.ACLOperationAll)),
		kfake.User("PLAIN", "elsewhere", "password", rule("shop.", prefixed, kmsg.ACLOperationAll)),
	))(t)
	defer cluster.Close()
	as := func(user string) *Reader {
		r := must.Get(NewReader(Config{Brokers: cluster.ListenAddrs(), Prefix: "relay.", SASL: "plain:" + user + ":password"},
			"test"))(t)
		t.Cleanup(r.Close)
		return r
	}
	all, own, err := as("relay").AllowedWriters(t.Context())
	if err != nil || own != "User:relay" || len(all) != 2 || all[0].Principal != "User:other" ||
		all[1].Principal != "User:wide" {
		t.Fatalf("%+v, %s, %v", all, own, err)
	}
	if !slices.Equal(all[0].Topics, []string{"relay.control"}) || len(all[1].Topics) != len(Tiers()) {
		t.Errorf("%+v", all)
	}
	if _, _, err := as("reader").AllowedWriters(t.Context()); !errors.Is(err, ErrACLsHidden) {
		t.Errorf("without permission to read them: %v", err)
	}
	cluster.ControlKey(int16(kmsg.DescribeACLs), func(kreq kmsg.Request) (kmsg.Response, error, bool) {
		resp := kreq.ResponseKind().(*kmsg.DescribeACLsResponse)
		resp.ErrorCode = kerr.SecurityDisabled.Code
		return resp, nil, true
	})
	if _, _, err := as("relay").AllowedWriters(t.Context()); !errors.Is(err, ErrNoAuthorizer) {
		t.Errorf("without an authorizer: %v", err)
	}
	if !appliesTo(kadm.DescribedACL{Name: "*", Pattern: kadm.ACLPatternLiteral}, "relay.events") {
		t.Error("an ACL for every topic")
	}
}

func TestSendsPasswordInClear(t *testing.T) {
	f := func(sasl, tls string, want bool) {
		if (Config{SASL: sasl, TLS: tls}).SendsPasswordInClear() != want {
			t.Errorf("%q with TLS %q: %v", sasl, tls, !want)
		}
	}
	f("plain:u:p", "", true)
	f("PLAIN:u:p", "", true)
	f("plain:u:p", "system", false)
	f("scram-sha-256:u:p", "", false)
	f("", "", false)
}
