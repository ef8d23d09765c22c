package config

import (
	"errors"
	"fmt"
	"regexp"
	"testing"
	"time"

	"github.com/eventrelay/relay/pkg/config/entity"
)

// newDomain returns a domain as the API makes it.
func newDomain(id, hostname string, created time.Time) *Domain {
	return &Domain{Meta: entity.Meta{ID: "dom_" + id, CreatedAt: created}, Hostname: hostname, CreatedBy: "key_1"}
}

// A domain is created with a token of its own. Each hostname exists once.
func TestDomains(t *testing.T) {
	n := node(t, broker(t), Config{Node: "a"})
	tokens := map[string]bool{}
	for i := range MaxDomains {
		d, err := entity.Create(t.Context(), n, newDomain(fmt.Sprint(i), fmt.Sprintf("s%d.example.com", i), time.Time{}))
		if err != nil || !regexp.MustCompile(`^rvf_[0-9A-Za-z]{32}$`).MatchString(d.Token) || tokens[d.Token] {
			t.Fatalf("%+v, %v", d, err)
		}
		tokens[d.Token] = true
	}
	noError(t, entity.Delete[Domain](t.Context(), n, "dom_4"))
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
	check := func(after time.Duration, method, wrong, want string) *Domain {
		t.Helper()
		at := start.Add(after)
		d, err := n.RecordDomainCheck(t.Context(), "dom_1", DomainCheck{At: at, Method: method, Error: wrong})
		if err != nil || d.Status(at) != want {
			t.Errorf("after %v: %s, want %s, %v", after, d.Status(at), want, err)
		}
		return d
	}
	const hour, day = time.Hour, 24 * time.Hour
	check(0, DomainByDNS, DomainNotFound, DomainPending)
	if d := check(hour, DomainByDNS, "", DomainVerified); !d.VerifiedAt.Equal(start.Add(hour)) || d.Method != DomainByDNS {
		t.Errorf("%+v", d)
	}
	check(2*hour, DomainByDNS, DomainUnreachable, DomainVerified)
	check(2*hour+day-time.Second, DomainByDNS, DomainNotFound, DomainVerified)
	check(3*hour+day, DomainByHTTP, DomainNotFound, DomainVerified) // the other method proves nothing, and misses nothing
	d := check(3*hour+day, DomainByDNS, "", DomainVerified)
	if !d.MissedAt.IsZero() || !d.VerifiedAt.Equal(start.Add(hour)) {
		t.Errorf("after a proof: %+v", d)
	}
	check(4*hour+day, DomainByDNS, DomainMismatch, DomainVerified)
	check(5*hour+2*day, DomainByDNS, DomainMismatch, DomainExpired)
	check(4*day, DomainByDNS, DomainNotFound, DomainExpired)
	if d := check(5*day, DomainByHTTP, "", DomainVerified); !d.VerifiedAt.Equal(start.Add(5 * day)) {
		t.Errorf("verified again: %+v", d)
	}

	late, err := entity.Create(t.Context(), n, newDomain("2", "late.example.com", start))
	if err != nil || late.Status(start.Add(7*day-time.Second)) != DomainPending || late.Ended(start) {
		t.Fatalf("%+v, %v", late, err)
	}
	late, err = n.RecordDomainCheck(t.Context(), "dom_2", DomainCheck{At: start.Add(7 * day), Method: DomainByDNS})
	if err != nil || !late.Ended(start.Add(7*day)) || !late.VerifiedAt.IsZero() {
		t.Errorf("a proof after a week: %+v, %v", late, err)
	}
}

// Checks that get no answer, while no other domain gets one, let a domain expire after a week without any answer.
func TestSilenceIsNoMiss(t *testing.T) {
	start := time.Now().UTC().Truncate(time.Second)
	const day = 24 * time.Hour
	d := newDomain("1", "www.example.com", start)
	check := func(days int, wrong string, silent bool, want string) {
		t.Helper()
		at := start.Add(time.Duration(days) * day)
		d.record(DomainCheck{At: at, Method: DomainByDNS, Error: wrong, Silent: silent})
		if got := d.Status(at); got != want {
			t.Errorf("day %d: %s, want %s: %+v", days, got, want, d)
		}
	}
	check(0, "", false, DomainVerified)
	for n := range 7 {
		check(1+n, DomainUnreachable, true, DomainVerified)
	}
	check(8, DomainNotFound, false, DomainVerified) // an answer: the first miss
	check(9, DomainUnreachable, true, DomainVerified)
	check(10, "", false, DomainVerified)
	check(11, DomainUnreachable, true, DomainVerified)
	check(17, DomainUnreachable, true, DomainVerified)
	check(18, DomainUnreachable, true, DomainExpired)
	check(19, "", false, DomainVerified)
	check(20, DomainUnreachable, false, DomainVerified) // other domains answer
	check(21, DomainUnreachable, false, DomainExpired)
}

// The result of a check that began earlier does not replace a later one.
func TestDomainChecksAreInOrder(t *testing.T) {
	start := time.Now().UTC().Truncate(time.Second)
	n := node(t, broker(t), Config{Node: "a"})
	must(entity.Create(t.Context(), n, newDomain("1", "www.example.com", start)))(t)
	var d *Domain
	for _, check := range []DomainCheck{{At: start.Add(time.Minute), Method: DomainByDNS},
		{At: start, Method: DomainByHTTP, Error: DomainMismatch}} {
		var err error
		if d, err = n.RecordDomainCheck(t.Context(), "dom_1", check); err != nil {
			t.Fatal(err)
		}
	}
	if d.Checked.Error != "" || d.Status(start) != DomainVerified {
		t.Errorf("%+v", d)
	}
}
