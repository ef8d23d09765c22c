package node

import (
	"errors"
	"log/slog"
	"net/http"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/eventrelay/relay/command"
	"github.com/eventrelay/relay/pkg/control"
	"github.com/eventrelay/relay/pkg/web"
)

func commandKey(k *control.Key, text string) command.Key {
	j := command.Key{ID: k.ID, Name: k.Name, Scope: string(k.Scope), Agent: k.Agent, Key: text, Last4: k.Last4, CreatedAt: k.CreatedAt}
	if !k.ExpiresAt.IsZero() {
		j.ExpiresAt = &k.ExpiresAt
	}
	if !k.RevokedAt.IsZero() {
		j.RevokedAt = &k.RevokedAt
	}
	return j
}

// listKeys shows the keys also while the store is away, for one may have to be revoked just then.
func (n *node) listKeys(r *http.Request) (any, error) {
	account := n.control.Account().ID
	uses, err := n.reader.KeyUses(r.Context(), account)
	if err != nil {
		n.log.LogAttrs(r.Context(), slog.LevelWarn, "read the last uses of API keys", slog.Any("error", err))
	}
	keys := []command.Key{}
	for _, k := range n.control.Keys(account) {
		j := commandKey(k, "")
		j.LastUseUnknown = err != nil
		if u, used := uses[k.ID]; used {
			j.LastUse = &command.KeyUse{At: u.At, Node: u.Node, RemoteIP: u.RemoteIP.String()}
		}
		keys = append(keys, j)
	}
	return keys, nil
}

func (n *node) createKey(r *http.Request) (any, error) {
	var c command.CreateKey
	if err := readCommand(r, &c); err != nil {
		return nil, err
	}
	scope := control.Scope(c.Scope)
	if scope != control.Read && scope != control.ReadWrite {
		return nil, web.Invalid("scope", "must be read or read_write")
	}
	// Lists print it as it is, one key a line.
	if n := utf8.RuneCountInString(c.Name); n < 1 || n > 100 || strings.ContainsFunc(c.Name, func(r rune) bool { return !unicode.IsPrint(r) }) {
		return nil, web.Invalid("name", "must have 1 to 100 printable characters")
	}
	if c.ExpiresSeconds < 0 {
		return nil, web.Invalid("expires_seconds", "must not be negative")
	}
	var expires time.Time
	if c.ExpiresSeconds > 0 {
		expires = n.now().Add(time.Duration(c.ExpiresSeconds) * time.Second)
	}
	text, k, err := n.control.CreateKey(r.Context(), c.Name, scope, c.Agent, expires)
	if err != nil {
		return nil, err
	}
	return commandKey(k, text), nil
}

func (n *node) revokeKey(r *http.Request) (any, error) {
	err := n.control.RevokeKey(r.Context(), r.PathValue("id"))
	if errors.Is(err, control.ErrNotFound) {
		return nil, web.Missing("no key has this id; relay keys list shows them")
	}
	return map[string]any{"id": r.PathValue("id"), "revoked": true}, err
}

// tellEvery is the pause between two lines of a command that tells how far it is.
const tellEvery = 200 * time.Millisecond

// rewrapKeys seals everything anew that another master key than the first seals.
func (n *node) rewrapKeys(r *http.Request, tell func(any)) error {
	var told time.Time
	done, err := n.control.Rewrap(r.Context(), func(w control.Rewrap) {
		if now := time.Now(); now.Sub(told) >= tellEvery {
			told = now
			tell(commandRewrap(w))
		}
	})
	switch {
	case errors.Is(err, control.ErrKeys), errors.Is(err, control.ErrNotRewrapped):
		return web.State("", "%v", err)
	case err != nil:
		return err
	}
	tell(commandRewrap(done))
	return nil
}

func commandRewrap(r control.Rewrap) command.Rewrap {
	return command.Rewrap{Entities: r.Entities, Rewrapped: r.Done, Secrets: r.Secrets}
}
