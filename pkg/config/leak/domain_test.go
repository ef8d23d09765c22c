package leak

import (
	"testing"
	"time"

	"github.com/eventrelay/relay/pkg/config/entity"
	"github.com/eventrelay/relay/test/is"
)

// Checks that get no answer, while no other domain gets one, let a domain expire after a week without any answer.
func TestSilenceIsNoMiss(t *testing.T) {
	start := time.Now().UTC().Truncate(time.Second)
	const day = 24 * time.Hour
	d := &Domain{Meta: entity.Meta{CreatedAt: start}}
	check := func(days int, wrong string, silent bool, want string) {
		t.Helper()
		at := start.Add(time.Duration(days) * day)
		d.record(DomainCheck{At: at, Method: DomainByDNS, Error: wrong, Silent: silent})
		is.Equal(t, d.Status(at), want, "day %d: %+v", days, d)
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
