package domain

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/eventrelay/relay/pkg/config/leak"
	"github.com/eventrelay/relay/pkg/egress"
	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/finding"
)

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

// find looks for the proof of a domain. wrong is empty if it is there, otherwise one of config.DomainErrors; seen is
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

// errorOf returns the error of a request as one of config.DomainErrors.
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
