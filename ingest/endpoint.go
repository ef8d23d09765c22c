package ingest

import (
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/eventrelay/relay/pkg/config"
	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/verify"
)

// maxPrepared bounds the endpoints whose prepared form is kept.
const maxPrepared = 10_000

// prepared is what serving one endpoint needs of its configuration, worked out once for each revision, so
// that a request costs no decryption and no parsing. It is shared: nothing in it is ever changed.
type prepared struct {
	rev    int64
	verify *verify.Config // secrets in clear; nil = the endpoint asks for no signature
	types  event.TypeSource
	dedup  *event.DedupKey // nil = equal events are not looked for
	dests  []string        // enabled
}

// preparer keeps what it prepared.
type preparer struct {
	keyring *config.Keyring

	mu         sync.RWMutex // guards have
	byEndpoint map[string]*prepared
}

// endpoint returns the form of the endpoint's present revision.
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
		// Validated when it was saved. One that a newer version wrote gives no type; an event is never lost for it.
		made.types, _ = event.ParseTypeSource(*ep.TypeSource)
	}
	if ep.Dedup != nil {
		if key, err := event.ParseDedupKey(ep.Dedup.Key); err == nil { // as above
			made.dedup = &key
		}
	}
	if ep.Verification == nil {
		return made, nil
	}
	conf := verifyConfig(*ep.Verification)
	for _, sealed := range ep.Verification.Secrets {
		secret, err := p.keyring.OpenString(ep.ID, config.FieldVerification, sealed)
		if err != nil {
			return nil, fmt.Errorf("open verification secret of %s: %w", ep.ID, err)
		}
		conf.Secrets = append(conf.Secrets, secret)
	}
	made.verify = &conf
	return made, nil
}

// settings translates what stands in the configuration; the secrets are still missing.
func verifyConfig(v config.Verification) verify.Config {
	return verify.Config{
		Type: v.Type, Tolerance: time.Duration(v.ToleranceSeconds) * time.Second, Header: v.Header,
		Algorithm: v.Algorithm, Encoding: v.Encoding, Prefix: v.Prefix, SignedContent: v.SignedContent,
	}
}

// CheckVerification validates how a provider is said to sign, secrets in clear: the member at fault and
// what is wrong with it, or nothing.
func CheckVerification(v config.Verification, secrets []string) (param, message string) {
	conf := verifyConfig(v)
	conf.Secrets = secrets
	var fault *verify.Fault
	if errors.As(conf.Validate(), &fault) {
		return fault.Param, fault.Message
	}
	return "", ""
}

// Reverify verifies the signature of a stored event again, by the endpoint's present secrets and without
// its age. An empty reason means that it is good. A signature over the URL may be over that before a rotation.
func (g *Ingest) Reverify(ep *config.Endpoint, e *event.Event) (event.Reason, error) {
	p, err := g.preparer.get(ep)
	if err != nil || p.verify == nil {
		return "", err
	}
	header := make(http.Header, len(e.Header))
	for _, f := range e.Header {
		header[f.Name] = append(header[f.Name], f.Value)
	}
	tokens := []config.Sealed{ep.Token}
	if ep.FormerToken != nil {
		tokens = append(tokens, ep.FormerToken.Token)
	}
	var reason event.Reason
	for _, token := range tokens {
		url, err := g.signedURL(ep.ID, token, e.Query)
		if err != nil {
			return "", err
		}
		req := verify.Request{Method: e.Method, URL: url, Header: header, Body: e.Body}
		if reason = event.Reason(verify.CheckIgnoringAge(*p.verify, req)); reason == "" {
			break
		}
	}
	return reason, nil
}

// address is the URL with the token that a provider calls, as it signs it.
func (g *Ingest) signedURL(endpoint string, sealed config.Sealed, query string) (string, error) {
	token, err := g.deps.Keyring.OpenString(endpoint, config.FieldToken, sealed)
	if err != nil {
		return "", fmt.Errorf("open token of %s: %w", endpoint, err)
	}
	url := g.cfg.BaseURL + PathPrefix + token
	if query != "" {
		url += "?" + query
	}
	return url, nil
}
