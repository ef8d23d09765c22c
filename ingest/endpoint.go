package ingest

import (
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/eventrelay/relay/ingest/verify"
	"github.com/eventrelay/relay/pkg/control"
	"github.com/eventrelay/relay/pkg/event"
)

// maxOpened bounds the endpoints whose opened secrets are kept.
const maxOpened = 10_000

// opened keeps verification settings with their secrets in clear, so that a request costs no decryption.
type opened struct {
	keyring *control.Keyring

	mu      sync.RWMutex // guards configs
	configs map[string]openedConfig
}

type openedConfig struct {
	rev  int64
	conf verify.Config
}

// config returns the settings of the endpoint's present revision.
func (o *opened) config(ep *control.Endpoint) (verify.Config, error) {
	o.mu.RLock()
	have, ok := o.configs[ep.ID]
	o.mu.RUnlock()
	if ok && have.rev == ep.Rev {
		return have.conf, nil
	}
	conf := settings(*ep.Verification)
	for _, sealed := range ep.Verification.Secrets {
		secret, err := o.keyring.OpenString(ep.ID, control.FieldVerification, sealed)
		if err != nil {
			return verify.Config{}, fmt.Errorf("open verification secret of %s: %w", ep.ID, err)
		}
		conf.Secrets = append(conf.Secrets, secret)
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.configs == nil || len(o.configs) >= maxOpened {
		o.configs = make(map[string]openedConfig)
	}
	o.configs[ep.ID] = openedConfig{ep.Rev, conf}
	return conf, nil
}

// settings translates what stands in the configuration; the secrets are still missing.
func settings(v control.Verification) verify.Config {
	return verify.Config{
		Type: v.Type, Tolerance: time.Duration(v.ToleranceSeconds) * time.Second, Header: v.Header,
		Algorithm: v.Algorithm, Encoding: v.Encoding, Prefix: v.Prefix, SignedContent: v.SignedContent,
	}
}

// CheckVerification judges how a provider is said to sign, secrets in clear: the member at fault and
// what is wrong with it, or nothing.
func CheckVerification(v control.Verification, secrets []string) (param, message string) {
	conf := settings(v)
	conf.Secrets = secrets
	var fault *verify.Fault
	if errors.As(conf.Validate(), &fault) {
		return fault.Param, fault.Message
	}
	return "", ""
}

// Reverify judges the signature of a stored event again, by the endpoint's present secrets and without
// its age. An empty reason means that it is good.
func (g *Ingest) Reverify(ep *control.Endpoint, e *event.Event) (event.Reason, error) {
	if ep.Verification == nil {
		return "", nil
	}
	conf, err := g.opened.config(ep)
	if err != nil {
		return "", err
	}
	token, err := g.deps.Keyring.OpenString(ep.ID, control.FieldToken, ep.Token)
	if err != nil {
		return "", fmt.Errorf("open token of %s: %w", ep.ID, err)
	}
	url := g.cfg.BaseURL + PathPrefix + token
	if e.Query != "" {
		url += "?" + e.Query
	}
	header := make(http.Header, len(e.Header))
	for _, f := range e.Header {
		header[f.Name] = append(header[f.Name], f.Value)
	}
	return event.Reason(verify.CheckIgnoringAge(conf, verify.Request{Method: e.Method, URL: url, Header: header, Body: e.Body})), nil
}

// perSecond lets limit things a second through for each key. It forgets everything at every new second,
// so it holds no more keys than there were in one.
type perSecond struct {
	limit int

	mu     sync.Mutex // guards the rest
	second int64
	counts map[string]int
}

func (p *perSecond) allow(key string, now time.Time) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if s := now.Unix(); s != p.second || p.counts == nil {
		p.second, p.counts = s, make(map[string]int)
	}
	p.counts[key]++
	return p.counts[key] <= p.limit
}
