package doctor

import (
	"context"
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
	first := chain[0]
	for _, c := range chain[1:] {
		if c.NotAfter.Before(first.NotAfter) {
			first = c
		}
	}
	end := first.NotAfter.UTC().Format(time.RFC3339)
	switch left := first.NotAfter.Sub(x.Now()); {
	case left <= 0:
		return fail(advice, "the certificate in %s has expired at %s (%s): clients refuse it", x.CertFile, end, first.Subject)
	case x.Now().Before(chain[0].NotBefore):
		return fail(advice, "the certificate in %s is valid only from %s on", x.CertFile,
			chain[0].NotBefore.UTC().Format(time.RFC3339))
	case left < warnExpiry:
		return warn(advice, "the certificate in %s expires in %d days, at %s (%s)", x.CertFile, int(left.Hours()/24), end,
			first.Subject)
	}
	return ok("the certificate is valid until %s", end)
}

// openFiles checks the limit of open files, which bounds the requests to destinations and the connections of clients.
func (x *checker) openFiles(context.Context) Check {
	if x.OpenFiles < x.WantFiles {
		return warn("raise the limit (ulimit -n, LimitNOFILE in systemd, ulimits in compose) and restart the node; 32768 "+
			"are enough", "the node may open %d files at once, want %d at least: one destination that hangs holds up to 1000",
			x.OpenFiles, x.WantFiles)
	}
	return ok("the node may open %d files at once", x.OpenFiles)
}
