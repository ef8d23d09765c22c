package config

import (
	"errors"
	"fmt"
	"regexp"
	"testing"
	"time"

	"github.com/eventrelay/relay/pkg/config/entity"
	"github.com/eventrelay/relay/pkg/config/leak"
)

// newDomain returns a domain as the API makes it.
func newDomain(id, hostname string, created time.Time) *leak.Domain {
	return &leak.Domain{Meta: entity.Meta{ID: "dom_" + id, CreatedAt: created}, Hostname: hostname, CreatedBy: "key_1"}
}

// A domain is created with a token of its own. Each hostname exists once.
func TestDomains(t *testing.T) {
	n := node(t, broker(t), Config{Node: "a"})
	tokens := map[string]bool{}
	for i := range leak.MaxDomains {
		d, err := entity.Create(t.Context(), n, newDomain(fmt.Sprint(i), fmt.Sprintf("s%d.example.com", i), time.Time{}))
		if err != nil || !regexp.MustCompile(`^rvf_[0-9A-Za-z]{32}$`).MatchString(d.Token) || tokens[d.Token] {
			t.Fatalf("%+v, %v", d, err)
		}
		tokens[d.Token] = true
	}
	noError(t, entity.Delete[leak.Domain](t.Context(), n, "dom_4"))
	if _, err := entity.Create(t.Context(), n, newDomain("again", "s0.example.com", time.Time{})); !errors.Is(
		err, ErrConflict) {
		t.Errorf("a hostname twice: %v", err)
	}
	if _, err := entity.Create(t.Context(), n, newDomain("5", "s4.example.com", time.Time{})); err != nil {
		t.Errorf("the hostname of a deleted domain: %v", err)
	}
}

// A proof verifies a domain. It expires when its own proof is missed twice, a day apart, or when none came in a week; a
// new proof verifies it again, unless it never had one.
func TestDomainStatus(t *testing.T) {
	start := time.Now().UTC().Truncate(time.Second)
	n := node(t, broker(t), Config{Node: "a"})
	must(entity.Create(t.Context(), n, newDomain("1", "www.example.com", start)))(t)
	check := func(after time.Duration, method, wrong, want string) *leak.Domain {
		t.Helper()
		at := start.Add(after)
		d, err := n.RecordDomainCheck(t.Context(), "dom_1", leak.DomainCheck{At: at, Method: method, Error: wrong})
		if err != nil || d.Status(at) != want {
			t.Errorf("after %v: %s, want %s, %v", after, d.Status(at), want, err)
		}
		return d
	}
	const hour, day = time.Hour, 24 * time.Hour
	check(0, leak.DomainByDNS, leak.DomainNotFound, leak.DomainPending)
	if d := check(hour, leak.DomainByDNS, "", leak.DomainVerified); !d.VerifiedAt.Equal(start.Add(hour)) ||
		d.Method != leak.DomainByDNS {
		t.Errorf("%+v", d)
	}
	check(2*hour, leak.DomainByDNS, leak.DomainUnreachable, leak.DomainVerified)
	check(2*hour+day-time.Second, leak.DomainByDNS, leak.DomainNotFound, leak.DomainVerified)
	// the other method proves nothing, and misses nothing
	check(3*hour+day, leak.DomainByHTTP, leak.DomainNotFound, leak.DomainVerified)
	d := check(3*hour+day, leak.DomainByDNS, "", leak.DomainVerified)
	if !d.MissedAt.IsZero() || !d.VerifiedAt.Equal(start.Add(hour)) {
		t.Errorf("after a proof: %+v", d)
	}
	check(4*hour+day, leak.DomainByDNS, leak.DomainMismatch, leak.DomainVerified)
	check(5*hour+2*day, leak.DomainByDNS, leak.DomainMismatch, leak.DomainExpired)
	check(4*day, leak.DomainByDNS, leak.DomainNotFound, leak.DomainExpired)
	if d := check(5*day, leak.DomainByHTTP, "", leak.DomainVerified); !d.VerifiedAt.Equal(start.Add(5 * day)) {
		t.Errorf("verified again: %+v", d)
	}

	late, err := entity.Create(t.Context(), n, newDomain("2", "late.example.com", start))
	if err != nil || late.Status(start.Add(7*day-time.Second)) != leak.DomainPending || late.Ended(start) {
		t.Fatalf("%+v, %v", late, err)
	}
	late, err = n.RecordDomainCheck(t.Context(), "dom_2", leak.DomainCheck{At: start.Add(7 * day),
		Method: leak.DomainByDNS})
	if err != nil || !late.Ended(start.Add(7*day)) || !late.VerifiedAt.IsZero() {
		t.Errorf("a proof after a week: %+v, %v", late, err)
	}
}

// The result of a check that began earlier does not replace a later one.
func TestDomainChecksAreInOrder(t *testing.T) {
	start := time.Now().UTC().Truncate(time.Second)
	n := node(t, broker(t), Config{Node: "a"})
	must(entity.Create(t.Context(), n, newDomain("1", "www.example.com", start)))(t)
	var d *leak.Domain
	for _, check := range []leak.DomainCheck{{At: start.Add(time.Minute), Method: leak.DomainByDNS},
		{At: start, Method: leak.DomainByHTTP, Error: leak.DomainMismatch}} {
		var err error
		if d, err = n.RecordDomainCheck(t.Context(), "dom_1", check); err != nil {
			t.Fatal(err)
		}
	}
	if d.Checked.Error != "" || d.Status(start) != leak.DomainVerified {
		t.Errorf("%+v", d)
	}
}
