package ingest

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync"

	"github.com/eventrelay/relay/pkg/config"
	"github.com/eventrelay/relay/pkg/config/seal"
	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/verify"
)

// maxPrepared limits the cached prepared endpoints; at the limit the cache is emptied.
const maxPrepared = 10_000

// prepared is an endpoint's configuration, decrypted and parsed once per revision instead of once per request. It is
// shared and immutable.
type prepared struct {
	rev    int64
	verify *verify.Config // secrets in clear text; nil = no signature is required
	types  event.TypeSource
	dedup  *event.DedupKey // nil = no deduplication
	dests  []string        // enabled
}

// masked replaces a secret that a provider sends instead of a signature.
const masked = "****"

// maskSecret removes the secret from the headers of a verified event, where everyone who reads events would see it.
// Other events keep what came, so that they can be verified again.
func (p *prepared) maskSecret(e *event.Event) {
	if p.verify == nil || e.Verdict != event.VerdictVerified {
		return
	}
	name := verify.ByName(p.verify.Type).SecretHeader()
	for i := range e.Header {
		if e.Header[i].Name == name {
			e.Header[i].Value = masked
		}
	}
}

// preparer caches prepared endpoints.
type preparer struct {
	keyring *seal.Keyring

	mu         sync.RWMutex // guards byEndpoint
	byEndpoint map[string]*prepared
}

// get returns the prepared form of the endpoint's current revision.
func (p *preparer) get(ep *config.Endpoint) (*prepared, error) {
	p.mu.RLock()
	have := p.byEndpoint[ep.ID]
	p.mu.RUnlock()
	if have != nil && have.rev == ep.Rev {
		return have, nil
	}
	made, err := p.prepare(ep)
	if err != nil {
		return nil, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.byEndpoint == nil || len(p.byEndpoint) >= maxPrepared {
		p.byEndpoint = make(map[string]*prepared)
	}
	p.byEndpoint[ep.ID] = made
	return made, nil
}

func (p *preparer) prepare(ep *config.Endpoint) (*prepared, error) {
	made := &prepared{rev: ep.Rev, dests: ep.EnabledDestinations()}
	if ep.TypeSource != nil {
		// The API has validated it. If a newer version of the relay wrote it, it may be invalid here; then the events are
		// stored without a type.
		made.types, _ = event.ParseTypeSource(*ep.TypeSource)
	}
	if ep.Dedup != nil {
		if key, err := event.ParseDedupKey(ep.Dedup.Key); err == nil { // otherwise a newer version wrote it: no deduplication
			made.dedup = &key
		}
	}
	if ep.Verification == nil {
		return made, nil
	}
	conf := ep.Verification.Config()
	for _, sealed := range ep.Verification.Secrets {
		secret, err := p.keyring.OpenString(ep.ID, seal.FieldVerification, sealed)
		if err != nil {
			return nil, fmt.Errorf("decrypt verification secret of %s: %w", ep.ID, err)
		}
		conf.Secrets = append(conf.Secrets, secret)
	}
	made.verify = &conf
	return made, nil
}

// CheckVerification validates an endpoint's verification and its secrets in clear text. It returns the invalid member
// and what is wrong with it, or empty strings.
func CheckVerification(v config.Verification, secrets []string) (param, message string) {
	conf := v.Config()
	conf.Secrets = secrets
	var fault *verify.Fault
	if errors.As(conf.Validate(), &fault) {
		return fault.Param, fault.Message
	}
	return "", ""
}

// Reverify verifies the signature of a stored event again, with the endpoint's current secrets and regardless of its
// age. An empty reason means that it is valid; then signed is a hash of what was signed. A signature that covers the
// URL may cover the endpoint's current or former token.
func (g *Ingest) Reverify(ep *config.Endpoint, e *event.Event) (
	signed [sha256.Size]byte, reason event.Reason, err error) {
	p, err := g.preparer.get(ep)
	if err != nil || p.verify == nil {
		return signed, "", err
	}
	req, err := g.storedRequest(ep, p, e)
	if err != nil {
		return signed, "", err
	}
	if reason = event.Reason(verify.CheckIgnoringAge(*p.verify, req)); reason == "" {
		signed = verify.SignedContent(*p.verify, req)
	}
	return signed, reason, nil
}

// Explain explains the signature of a stored event, with the endpoint's current secrets and the age that it had when it
// was received. It returns nil if the endpoint verifies no signatures. The explanation may contain the endpoint's token
// as a part of the URL.
func (g *Ingest) Explain(ep *config.Endpoint, e *event.Event) (*verify.Explanation, error) {
	p, err := g.preparer.get(ep)
	if err != nil || p.verify == nil {
		return nil, err
	}
	req, err := g.storedRequest(ep, p, e)
	if err != nil {
		return nil, err
	}
	return verify.Explain(*p.verify, req), nil
}

// storedRequest returns the request of a stored event, at the time of its receipt. Its URL has the endpoint's current
// token, or the former one if the signature is valid for that.
func (g *Ingest) storedRequest(ep *config.Endpoint, p *prepared, e *event.Event) (verify.Request, error) {
	req := verify.Request{Method: e.Method, Header: make(http.Header, len(e.Header)), Body: e.Body, Now: e.ReceivedAt()}
	for _, f := range e.Header {
		req.Header[f.Name] = append(req.Header[f.Name], f.Value)
	}
	if name := verify.ByName(p.verify.Type).SecretHeader(); e.Verdict == event.VerdictVerified &&
		slices.Contains(req.Header[name], masked) {
		if err := verify.Sign(*p.verify, req); err != nil { // it came with the secret
			return req, err
		}
	}
	err := g.fetcher.certify(context.Background(), *p.verify, &req)
	if err != nil {
		return req, err
	}
	if ep.FormerToken != nil {
		req.URL, err = g.signedURL(ep.ID, ep.FormerToken.Token, e.Query)
		if err != nil || verify.CheckIgnoringAge(*p.verify, req) == "" {
			return req, err
		}
	}
	req.URL, err = g.signedURL(ep.ID, ep.Token, e.Query)
	return req, err
}

// signedURL returns the ingest URL with the decrypted token, as the provider calls and signs it.
func (g *Ingest) signedURL(endpoint string, sealed seal.Secret, query string) (string, error) {
	token, err := g.deps.Keyring.OpenString(endpoint, seal.FieldToken, sealed)
	if err != nil {
		return "", fmt.Errorf("decrypt token of %s: %w", endpoint, err)
	}
	url := g.cfg.BaseURL + PathPrefix + token
	if query != "" {
		url += "?" + query
	}
	return url, nil
}
