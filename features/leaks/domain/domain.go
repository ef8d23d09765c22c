// Package domain finds out whether a customer controls a host name: its token must stand in a TXT record of the name,
// or in a file on its website. Without such a proof nothing is looked for there.
//
// A domain is checked when somebody asks for it, at most 10 times an hour, and once a day while it is verified. The
// node that owns the first partition makes the daily checks; a check that is made twice does no harm. Every request
// goes through pkg/egress, which refuses addresses that are not public. An answer says what was found instead of the
// proof, but neither an address nor why a connection failed, so it tells nothing about the network of the relay.
//
// Begin reading at Domains.Verify.
package domain

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/eventrelay/relay/pkg/config/entity"
	"github.com/eventrelay/relay/pkg/config/leak"
	"github.com/eventrelay/relay/pkg/egress"
	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/finding"
	"github.com/eventrelay/relay/pkg/secrets"
	"github.com/eventrelay/relay/pkg/wait"
)

const (
	// maxAttempts bounds the checks of a host name that people ask for in AttemptsSpan.
	maxAttempts = 10
	// recheckAfter is the time between two checks of a verified domain.
	recheckAfter = 24 * time.Hour
	// recheckInterval is how often the owner looks for domains that are due.
	recheckInterval = time.Minute
	// recheckMost is the number of domains that are read at once: there are never so many.
	recheckMost = 100
)

// AttemptsSpan is the window of Deps.Attempts.
const AttemptsSpan = time.Hour

// Configuration holds the domains.
type Configuration interface {
	Account() *entity.Account
	Domains(account string, beforeSeq int64, limit int) ([]*leak.Domain, bool)
	RecordDomainCheck(ctx context.Context, id string, check leak.DomainCheck) (*leak.Domain, error)
}

// Resolver looks up TXT records.
type Resolver interface {
	LookupTXT(ctx context.Context, name string) ([]string, error)
}

// Attempts counts occurrences of a key in AttemptsSpan; see limit.Window.
type Attempts interface {
	Claim(ctx context.Context, key string, most int) (wait time.Duration)
}

// Deps are what the checks need. All are required.
type Deps struct {
	Log       *slog.Logger
	Config    Configuration
	Resolver  Resolver
	Transport http.RoundTripper // of pkg/egress; it follows no redirect
	Attempts  Attempts
	Scanner   *secrets.Scanner // masks secrets in what was found instead of the proof
	UserAgent string
	Now       func() time.Time
	IsOwner   func() bool // whether this node makes the daily checks
}

// Domains checks domains.
type Domains struct {
	deps Deps
}

// New creates the checks. It starts nothing.
func New(deps Deps) *Domains { return &Domains{deps} }

// Verify looks for the proof of a domain and returns the domain with the result. When there were too many attempts it
// does nothing, and returns for how long none is made.
func (x *Domains) Verify(ctx context.Context, d *leak.Domain, method string) (*leak.Domain, time.Duration, error) {
	// By host name: a domain that is deleted and added again gets no more attempts.
	if pause := x.deps.Attempts.Claim(ctx, d.Hostname, maxAttempts); pause > 0 {
		return nil, pause, nil
	}
	after, err := x.check(ctx, d, method)
	return after, 0, err
}

// Recheck looks for the proof of a verified domain by the method that has verified it, and returns the domain with the
// result.
func (x *Domains) Recheck(ctx context.Context, d *leak.Domain) (*leak.Domain, error) {
	return x.check(ctx, d, d.Method)
}

func (x *Domains) check(ctx context.Context, d *leak.Domain, method string) (*leak.Domain, error) {
	at := x.deps.Now().UTC().Truncate(time.Millisecond)
	wrong, seen := x.find(ctx, d, method)
	if err := ctx.Err(); err != nil { // the caller has left: that says nothing about the domain
		return nil, err
	}
	return x.deps.Config.RecordDomainCheck(ctx, d.ID, leak.DomainCheck{At: at, Method: method, Error: wrong, Seen: seen,
		Silent: wrong == leak.DomainUnreachable && !x.othersAnswer(d, at)})
}

// othersAnswer reports whether the newest check of another domain got an answer in the last day, whatever it said. If
// none did, the resolver or the network of the relay may be down, which says nothing about a domain.
func (x *Domains) othersAnswer(d *leak.Domain, at time.Time) bool {
	all, _ := x.deps.Config.Domains(x.deps.Config.Account().ID, 0, recheckMost)
	return slices.ContainsFunc(all, func(other *leak.Domain) bool {
		c := other.Checked
		return other.ID != d.ID && !c.At.IsZero() && at.Sub(c.At) < recheckAfter && c.Error != leak.DomainUnreachable
	})
}

// Run checks verified domains once a day, until ctx ends.
func (x *Domains) Run(ctx context.Context) error {
	for wait.For(ctx, recheckInterval) == nil {
		if x.deps.IsOwner() {
			x.recheckDue(ctx)
		}
	}
	return nil
}

// recheckDue checks the verified domains whose last check is recheckAfter ago.
func (x *Domains) recheckDue(ctx context.Context) {
	all, _ := x.deps.Config.Domains(x.deps.Config.Account().ID, 0, recheckMost)
	for _, d := range all {
		now := x.deps.Now()
		if d.Status(now) != leak.DomainVerified || now.Sub(d.Checked.At) < recheckAfter {
			continue
		}
		after, err := x.Recheck(ctx, d)
		if ctx.Err() != nil {
			return
		}
		switch {
		case err != nil:
			x.deps.Log.LogAttrs(ctx, slog.LevelWarn, "cannot record the check of a domain", slog.String("domain", d.ID),
				slog.Any("error", err))
		case after.Checked.Error != "":
			x.deps.Log.LogAttrs(ctx, slog.LevelWarn, "the proof of a domain is missing", slog.String("domain", d.ID),
				slog.String("reason", after.Checked.Error), slog.String("status", after.Status(now)),
				slog.Bool("no_domain_answers", after.Checked.Silent))
		}
	}
}

const (
	// checkTimeout bounds one check.
	checkTimeout = 10 * time.Second
	// maxProof bounds the file with the token, in bytes.
	maxProof = 1 << 10
	// maxSeen bounds the text that is shown of what was found instead, in bytes.
	maxSeen = 200
	// maxRecords bounds the records that are shown.
	maxRecords = 5
)

// find looks for the proof of a domain. wrong is empty if it is there, otherwise one of leak.DomainErrors; seen is
// what was found instead.
func (x *Domains) find(ctx context.Context, d *leak.Domain, method string) (wrong, seen string) {
	ctx, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	if method == leak.DomainByDNS {
		return x.findRecord(ctx, d)
	}
	return x.findFile(ctx, d)
}

func (x *Domains) findRecord(ctx context.Context, d *leak.Domain) (wrong, seen string) {
	// With the final dot the name is absolute: the search list of the machine's resolver does not apply.
	records, err := x.deps.Resolver.LookupTXT(ctx, d.RecordName()+".")
	if dns, ok := errors.AsType[*net.DNSError](err); ok && dns.IsNotFound {
		return leak.DomainNotFound, ""
	}
	switch {
	case err != nil:
		return leak.DomainUnreachable, ""
	case slices.ContainsFunc(records, func(r string) bool { return strings.TrimSpace(r) == d.RecordValue() }):
		return "", ""
	case len(records) == 0:
		return leak.DomainNotFound, ""
	}
	if n := len(records) - maxRecords; n > 0 {
		records = append(records[:maxRecords:maxRecords], fmt.Sprintf("and %d more", n))
	}
	return leak.DomainMismatch, x.shown(strings.Join(records, "; "))
}

func (x *Domains) findFile(ctx context.Context, d *leak.Domain) (wrong, seen string) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, d.FileURL(), nil)
	if err != nil {
		return leak.DomainUnreachable, ""
	}
	req.Header.Set("User-Agent", x.deps.UserAgent)
	req.Header.Set("Accept", "text/plain")
	res, err := x.deps.Transport.RoundTrip(req)
	if err != nil {
		return errorOf(err), ""
	}
	defer res.Body.Close()
	switch {
	case res.StatusCode >= 300 && res.StatusCode < 400:
		return leak.DomainRedirected, x.shown(targetOf(res))
	case res.StatusCode != http.StatusOK:
		return leak.DomainNotFound, fmt.Sprintf("HTTP status %d", res.StatusCode)
	}
	body, err := io.ReadAll(io.LimitReader(res.Body, maxProof+1))
	if err != nil {
		return errorOf(err), ""
	}
	// Some editors put a byte order mark at the start of a text.
	if text := strings.TrimSpace(strings.TrimPrefix(string(body), "\ufeff")); len(body) <= maxProof && text == d.Token {
		return "", ""
	}
	return leak.DomainMismatch, x.shown(string(body))
}

// targetOf returns the host that a redirect leads to: paths and queries may hold secrets.
func targetOf(res *http.Response) string {
	target, err := url.Parse(res.Header.Get("Location"))
	switch {
	case err != nil:
		return "a redirect"
	case target.Host == "":
		return "a redirect to another page of the website"
	}
	return "a redirect to " + target.Host
}

// errorOf returns the error of a request as one of leak.DomainErrors.
func errorOf(err error) string {
	switch egress.Classify(err) {
	case event.CodeAddressBlocked:
		return leak.DomainBlocked
	case event.CodeTLS:
		return leak.DomainTLS
	}
	return leak.DomainUnreachable
}

// shown returns untrusted text as it may be stored and shown: without what is invisible, and without secrets.
func (x *Domains) shown(text string) string {
	masked, _ := x.deps.Scanner.MaskAll(nil, []byte(strings.ToValidUTF8(text, "?")))
	return finding.CleanLine(strings.TrimSpace(string(masked)), maxSeen)
}
