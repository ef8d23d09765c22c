package admin

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"time"

	"github.com/eventrelay/relay/pkg/audit"
	"github.com/eventrelay/relay/pkg/config"
	"github.com/eventrelay/relay/pkg/config/entity"
	"github.com/eventrelay/relay/pkg/config/seal"
	"github.com/eventrelay/relay/pkg/web"
)

// Key is an API key as commands print it. The member Key, its secret, is set only in the answer that creates it.
type Key struct {
	ID        string     `json:"id"`
	Name      string     `json:"name"`
	Scope     string     `json:"scope"`
	Agent     bool       `json:"agent"`
	Tenant    string     `json:"tenant,omitempty"` // what the key is restricted to
	Key       string     `json:"key,omitempty"`
	Last4     string     `json:"last4"`
	CreatedAt time.Time  `json:"created_at"`
	ExpiresAt *time.Time `json:"expires_at"`
	RevokedAt *time.Time `json:"revoked_at"`
	LastUse   *KeyUse    `json:"last_use"` // null: never used, or LastUseUnknown
	// LastUseUnknown is true while the store, which has the uses, does not answer.
	LastUseUnknown bool `json:"last_use_unknown,omitempty"`
	// NotSet is true for a key of RELAY_BOOTSTRAP_KEY or RELAY_BOOTSTRAP_READ_KEY that this node's settings do not name,
	// such as one of an import: it gets 401.
	NotSet bool `json:"not_set,omitempty"`
	// UsedFromBrowser is true if a web page has called the API with the key, so that it is in client code.
	UsedFromBrowser bool `json:"used_from_browser"`
}

// KeyUse is the last use of an API key, within a minute.
type KeyUse struct {
	At       time.Time `json:"at"`
	Node     string    `json:"node"`
	RemoteIP string    `json:"remote_ip"`
}

// CreateKey asks for a new key.
type CreateKey struct {
	Name           string `json:"name"`
	Scope          string `json:"scope"`
	Agent          bool   `json:"agent"`
	Tenant         string `json:"tenant,omitempty"`
	ExpiresSeconds int64  `json:"expires_seconds"`
}

// Rewrap is the progress of relay keys rewrap.
type Rewrap struct {
	Entities  int `json:"entities"`  // with secrets that are sealed with another master key than the first
	Rewrapped int `json:"rewrapped"` // of Entities: done
	Secrets   int `json:"secrets"`   // sealed again
}

// Keys reads and changes the API keys, and seals secrets under the first master key.
type Keys interface {
	Account() *entity.Account
	Keys(account string) []*config.Key
	CreateKey(ctx context.Context, n config.NewKey) (text string, k *config.Key, err error)
	RevokeKey(ctx context.Context, key string) error
	// IsSet is false for a bootstrap key that this node's settings do not name.
	IsSet(k *config.Key) bool
	Rewrap(ctx context.Context, progress func(config.RewrapProgress)) (config.RewrapProgress, error)
}

// Uses returns the last uses of API keys of an account, by the key's id; of all keys if keys is empty.
type Uses interface {
	KeyUses(ctx context.Context, account string, keys []string) (map[string]audit.Use, error)
}

// keys are the handlers of relay keys.
type keys struct{ *Deps }

func commandKey(k *config.Key, text string) Key {
	j := Key{
		ID: k.ID, Name: k.Name, Scope: string(k.Scope), Agent: k.Agent, Tenant: k.Tenant, Key: text,
		Last4: k.Last4, CreatedAt: k.CreatedAt, UsedFromBrowser: k.UsedFromBrowser,
	}
	if !k.ExpiresAt.IsZero() {
		j.ExpiresAt = &k.ExpiresAt
	}
	if !k.RevokedAt.IsZero() {
		j.RevokedAt = &k.RevokedAt
	}
	return j
}

// list returns the keys even while the store is unavailable: an operator may have to revoke one just then.
func (x *keys) list(r *http.Request) (any, error) {
	account := x.Keys.Account().ID
	uses, err := x.Uses.KeyUses(r.Context(), account, nil)
	if err != nil {
		x.Log.LogAttrs(r.Context(), slog.LevelWarn, "cannot read the last uses of API keys", slog.Any("error", err))
	}
	shown := []Key{}
	for _, k := range x.Keys.Keys(account) {
		j := commandKey(k, "")
		j.LastUseUnknown, j.NotSet = err != nil, !x.Keys.IsSet(k)
		if u, used := uses[k.ID]; used {
			j.LastUse = &KeyUse{At: u.At, Node: u.Node, RemoteIP: u.RemoteIP.String()}
		}
		shown = append(shown, j)
	}
	return shown, nil
}

func (x *keys) create(r *http.Request) (any, error) {
	var c CreateKey
	if err := readCommand(r, &c); err != nil {
		return nil, err
	}
	n := config.NewKey{Name: c.Name, Scope: config.Scope(c.Scope), Agent: c.Agent, Tenant: c.Tenant}
	if c.ExpiresSeconds < 0 {
		return nil, web.Invalid("expires_seconds", "must not be negative")
	}
	if c.ExpiresSeconds > 0 {
		n.ExpiresAt = x.Now().Add(time.Duration(c.ExpiresSeconds) * time.Second)
	}
	text, k, err := x.Keys.CreateKey(r.Context(), n)
	if err != nil {
		return nil, err
	}
	return commandKey(k, text), nil
}

func (x *keys) revoke(r *http.Request) (any, error) {
	err := x.Keys.RevokeKey(r.Context(), r.PathValue("id"))
	if errors.Is(err, config.ErrNotFound) {
		return nil, web.Missing("no key has this id; relay keys list shows them")
	}
	return map[string]any{"id": r.PathValue("id"), "revoked": true}, err
}

// progressInterval is the least time between two lines of progress.
const progressInterval = 200 * time.Millisecond

// rewrap seals every secret that is sealed with another master key again, with the first one.
func (x *keys) rewrap(r *http.Request, report func(any)) error {
	var reported time.Time
	done, err := x.Keys.Rewrap(r.Context(), func(w config.RewrapProgress) {
		if now := time.Now(); now.Sub(reported) >= progressInterval {
			reported = now
			report(commandRewrap(w))
		}
	})
	switch {
	case errors.Is(err, seal.ErrMissingKey), errors.Is(err, config.ErrNotRewrapped):
		return web.WrongState("", "%v", err)
	case err != nil:
		return err
	}
	report(commandRewrap(done))
	return nil
}

func commandRewrap(r config.RewrapProgress) Rewrap {
	return Rewrap{Entities: r.Entities, Rewrapped: r.Done, Secrets: r.Secrets}
}
