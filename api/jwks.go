package api

import (
	"crypto/sha256"
	"encoding/base64"
	"net/http"
	"sync"
	"time"

	"github.com/eventrelay/relay/api/frame"
	"github.com/eventrelay/relay/pkg/config"
	"github.com/eventrelay/relay/pkg/config/entity"
	"github.com/eventrelay/relay/pkg/config/seal"
	"github.com/eventrelay/relay/pkg/sign"
	"github.com/eventrelay/relay/pkg/web"
)

const (
	// keySetPath is where RFC 8615 puts it. Everyone may read public keys.
	keySetPath = "/.well-known/jwks.json"
	// maxPublicKeys bounds a set, and with it the work that a stranger can ask for.
	maxPublicKeys = 1000
	// keySetAge is how long the set of all endpoints is kept.
	keySetAge = 10 * time.Second
)

// jwk is an Ed25519 public key (RFC 8037) as a JSON Web Key (RFC 7517). Its id is the thumbprint of RFC 7638.
type jwk struct {
	Type      string `json:"kty"`
	Curve     string `json:"crv"`
	X         string `json:"x"`
	Use       string `json:"use"`
	Algorithm string `json:"alg"`
	ID        string `json:"kid"`
}

func newJWK(s sign.Secret) jwk {
	x := base64.RawURLEncoding.EncodeToString(s.PublicKey())
	sum := sha256.Sum256([]byte(`{"crv":"Ed25519","kty":"OKP","x":"` + x + `"}`))
	return jwk{Type: "OKP", Curve: "Ed25519", X: x, Use: "sig", Algorithm: "EdDSA",
		ID: base64.RawURLEncoding.EncodeToString(sum[:])}
}

// keySet serves the public keys of destinations that get Ed25519 signatures.
type keySet struct {
	config  Configuration
	keyring *seal.Keyring
	now     func() time.Time

	mu     sync.Mutex // of the set of all endpoints
	all    []jwk
	readAt time.Time
}

// serve answers with the keys of the endpoint in the parameter endpoint_id, otherwise with those of all endpoints. The
// keys of other endpoints are of no use to a receiver: what they have signed is not meant for it.
func (a *keySet) serve(w http.ResponseWriter, r *http.Request) error {
	web.InfoOf(r).Route = keySetPath
	q := frame.NewQuery(r, "")
	q.Names = []string{"endpoint_id"}
	name := q.Single("endpoint_id")
	if q.RefuseUnknownParameters(); q.Err != nil {
		return q.Err
	}
	keys, err := []jwk{}, error(nil)
	if name != "" {
		e, presence := a.config.Endpoint(name)
		if presence != entity.Present {
			return web.Missing("there is no such endpoint")
		}
		keys, err = a.add(keys, e)
	} else {
		keys, err = a.ofAll()
	}
	if err != nil {
		return err
	}
	if len(keys) > maxPublicKeys {
		return web.Invalid("endpoint_id", "is required: there are more than %d public keys", maxPublicKeys)
	}
	web.WriteJSON(w, http.StatusOK, map[string][]jwk{"keys": keys})
	return nil
}

// add adds the keys that sign for an endpoint now.
func (a *keySet) add(keys []jwk, e *config.Endpoint) ([]jwk, error) {
	for i := range e.Destinations {
		d := &e.Destinations[i]
		for _, sealed := range d.Secrets {
			if !sealed.Until.IsZero() && !a.now().Before(sealed.Until) {
				continue
			}
			text, err := a.keyring.OpenString(d.ID, seal.FieldSecret, sealed.Secret)
			if err != nil {
				return nil, err
			}
			if s, err := sign.ParseSecret(text); err == nil && s.Algorithm() == sign.Ed25519 {
				keys = append(keys, newJWK(s))
			}
		}
	}
	return keys, nil
}

// ofAll returns at most a few more than maxPublicKeys keys.
func (a *keySet) ofAll() (keys []jwk, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if account := a.config.Account(); account != nil && a.now().Sub(a.readAt) >= keySetAge {
		keys = []jwk{}
		for before, more := int64(0), true; more && len(keys) <= maxPublicKeys; {
			var page []*config.Endpoint
			page, more = a.config.Endpoints(account.ID, before, 100)
			for _, e := range page {
				if keys, err = a.add(keys, e); err != nil {
					return nil, err
				}
				before = e.CreationSeq()
			}
		}
		a.all, a.readAt = keys, a.now()
	}
	return a.all, nil
}
