package doctor

import (
	"context"
	"crypto/rsa"
	"crypto/x509"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/eventrelay/relay/pkg/certfile"
)

// warnExpiry is how long before its end a certificate is reported.
const warnExpiry = 14 * 24 * time.Hour

// certificate checks how long the certificate is valid that clients see.
func (x *checker) certificate(context.Context) Check {
	const advice = "renew RELAY_TLS_CERT_FILE and RELAY_TLS_KEY_FILE; the node loads changed files within seconds"
	chain, err := certfile.Chain(x.CertFile)
	if err != nil {
		return fail("make RELAY_TLS_CERT_FILE readable for the node: it still serves the certificate that it has loaded, "+
			"and does not start without one", "%v", err)
	}
	c := checkChain(chain, x.Now(), "the certificate in "+x.CertFile, advice)
	if _, isRSA := chain[0].PublicKey.(*rsa.PublicKey); isRSA && c.State == StateOK {
		c.Text += "; its key is RSA: with ECDSA P-256 a handshake takes half the CPU, which a provider that opens a " +
			"connection for each request causes with each event"
	}
	return c
}

// checkChain checks when a chain, that of the server first, can no longer be used: when its first certificate expires.
func checkChain(chain []*x509.Certificate, now time.Time, what, advice string) Check {
	first := slices.MinFunc(chain, func(a, b *x509.Certificate) int { return a.NotAfter.Compare(b.NotAfter) })
	end := first.NotAfter.UTC().Format(time.RFC3339)
	switch left := first.NotAfter.Sub(now); {
	case left <= 0:
		return fail(advice, "%s has expired at %s (%s): clients refuse it", what, end, first.Subject)
	case now.Before(chain[0].NotBefore):
		return fail(advice, "%s is valid only from %s on", what, chain[0].NotBefore.UTC().Format(time.RFC3339))
	case left < warnExpiry:
		return warn(advice, "%s expires in %s, at %s (%s)", what, formatAge(left), end, first.Subject)
	}
	return ok("%s is valid until %s", what, end)
}

// Names of engines in an Endpoint.
const (
	EngineKafka      = "Kafka"
	EngineClickHouse = "ClickHouse"
	EngineRedis      = "Redis"
)

// Endpoint is where an engine uses TLS.
type Endpoint struct {
	Engine string
	certfile.Endpoint
}

// renewals say how an engine loads a renewed certificate.
var renewals = map[string]string{
	EngineKafka:      "a broker loads it at its start",
	EngineClickHouse: "ClickHouse loads it with SYSTEM RELOAD CONFIG",
	EngineRedis:      "Redis loads it with CONFIG SET tls-cert-file … tls-key-file …, or at its start",
}

// engineCertificates checks how long the certificates are valid that the engines present. An engine that presents none
// is the matter of another check.
func (x *checker) engineCertificates(ctx context.Context) Check {
	endpoints := slices.Clone(x.Endpoints)
	for _, e := range x.log.Endpoints(ctx) {
		endpoints = append(endpoints, Endpoint{EngineKafka, e})
	}
	checks := make([]Check, len(endpoints))
	var all sync.WaitGroup
	for i, e := range endpoints {
		all.Go(func() {
			chain, err := e.Presented(ctx)
			if err != nil {
				checks[i] = Check{State: stateUnknown, Text: fmt.Sprintf("%s at %s was not asked: %v", e.Engine, e.Addr, err)}
				return
			}
			checks[i] = checkChain(chain, x.Now(), fmt.Sprintf("the certificate of %s at %s", e.Engine, e.Addr),
				renewals[e.Engine])
		})
	}
	all.Wait()
	return summarize(checks)
}

// stateUnknown is the state of a certificate that was not seen.
const stateUnknown = "unknown"

// summarize returns one check of the checks of several certificates.
func summarize(checks []Check) Check {
	state := StateOK
	var details, advice []string
	for _, c := range checks {
		if c.State == StateOK {
			continue
		}
		details = append(details, c.Text)
		if c.State == StateFail || c.State == StateWarn && state == StateOK {
			state = c.State
		}
		if c.Advice != "" && !slices.Contains(advice, c.Advice) {
			advice = append(advice, c.Advice)
		}
	}
	slices.Sort(advice)
	c := Check{State: state, Details: details}
	switch len(details) {
	case 0:
		c.Text = plural(len(checks), "certificate") + " of engines, valid for 14 days or more"
	case 1:
		c.Text, c.Details = details[0], nil
	default:
		c.Text = fmt.Sprintf("%d of %s of engines need attention", len(details), plural(len(checks), "certificate"))
	}
	if len(advice) > 0 {
		c.Advice = "renew the certificate; " + strings.Join(advice, "; ")
	}
	return c
}
