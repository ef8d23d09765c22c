package ingest

import (
	"context"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"

	"github.com/eventrelay/relay/pkg/verify"
	"github.com/eventrelay/relay/pkg/wait"
	"github.com/eventrelay/relay/pkg/web"
)

const (
	// fetchTimeout bounds a request to a provider, for which an event waits. Providers wait at least 5 s for the answer.
	fetchTimeout = 3 * time.Second
	maxFetches   = 4        // at a time: anyone who knows an ingest URL can name certificates that do not exist
	maxFetched   = 64 << 10 // bytes of a response
	// maxCertificates limits the cache, which is emptied at the limit. SNS has one for each region, and each is valid for
	// about a year; their URLs change with them. Once expired, one is fetched again.
	maxCertificates = 64
)

// fetcher fetches from providers: certificates, which it caches, and the URLs that confirm a subscription. Package
// verify has checked that the URLs belong to the provider.
type fetcher struct {
	transport http.RoundTripper
	turns     chan struct{}
	room      *wait.Room // bytes of the events that wait for a certificate
	runs      singleflight.Group

	mu           sync.Mutex // guards certificates
	certificates map[string]*x509.Certificate
}

// certify sets the certificate of a request whose scheme needs one. If the provider is unavailable, it returns a 503,
// so that the event is sent again. If the URL has no certificate, none is set, and the request is rejected.
func (f *fetcher) certify(ctx context.Context, conf verify.Config, req *verify.Request) error {
	address := conf.CertificateURL(*req)
	if address == "" {
		return nil
	}
	f.mu.Lock()
	cached := f.certificates[address]
	f.mu.Unlock()
	if cached != nil && !req.Now.After(cached.NotAfter) {
		req.Certificate = cached
		return nil
	}
	size := int64(waitingOverhead + len(req.Body))
	if !f.room.Take(size) {
		return web.ServiceUnavailable(nil, "too many events wait for a certificate; send the event again")
	}
	defer f.room.Give(size)
	fetched, err, _ := f.runs.Do(address, func() (any, error) {
		return f.certificate(context.WithoutCancel(ctx), conf, address)
	})
	if err != nil {
		return web.ServiceUnavailable(err, "the certificate of the signature could not be fetched; send the event again")
	}
	req.Certificate = fetched.(*x509.Certificate)
	return nil
}

// certificate fetches and caches a certificate; nil if the address has none of the provider. What it is trusted for is
// the TLS connection to the provider's host: neither file has the certificates between it and a root.
func (f *fetcher) certificate(ctx context.Context, conf verify.Config, address string) (*x509.Certificate, error) {
	status, body, err := f.get(ctx, address)
	block, _ := pem.Decode(body)
	switch {
	case err != nil:
		return nil, err
	case status >= http.StatusInternalServerError || status == http.StatusTooManyRequests:
		return nil, fmt.Errorf("%s answered %d", address, status)
	case status != http.StatusOK || block == nil:
		return nil, nil
	}
	cert, err := x509.ParseCertificate(block.Bytes)
	if err != nil || !conf.IsOfProvider(cert) {
		return nil, nil //nolint:nilerr // it is not a certificate of the provider: the request is rejected
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.certificates == nil || len(f.certificates) >= maxCertificates {
		f.certificates = map[string]*x509.Certificate{}
	}
	f.certificates[address] = cert
	return cert, nil
}

// get requests an address of a provider.
func (f *fetcher) get(ctx context.Context, address string) (status int, body []byte, err error) {
	ctx, cancel := context.WithTimeout(ctx, fetchTimeout)
	defer cancel()
	select {
	case f.turns <- struct{}{}:
		defer func() { <-f.turns }()
	case <-ctx.Done():
		return 0, nil, ctx.Err()
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return 0, nil, err
	}
	answer, err := f.transport.RoundTrip(r)
	if err != nil {
		return 0, nil, err
	}
	defer answer.Body.Close()
	body, err = io.ReadAll(io.LimitReader(answer.Body, maxFetched))
	return answer.StatusCode, body, err
}
