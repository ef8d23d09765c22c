package dashboard

import (
	"errors"
	"log/slog"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/eventrelay/relay/pkg/audit"
	"github.com/eventrelay/relay/pkg/config"
	"github.com/eventrelay/relay/pkg/web"
)

const keysPath = "/app/settings/keys"

// keyRow is one API key in the list.
type keyRow struct {
	*config.Key
	Active  bool
	Expired bool
	NotSet  bool       // a bootstrap key that the settings of this node do not name: it gets 401
	LastUse *audit.Use // nil: never used, or not known
}

// Revocable reports whether the key works, or would work again if the settings named it.
func (k keyRow) Revocable() bool { return k.RevokedAt.IsZero() && !k.Expired }

// keysPage is the data of the page of API keys.
type keysPage struct {
	Keys      []keyRow
	Pager     pager
	Active    int  // how many keys work now
	NoUses    bool // the store, which has the uses, does not answer
	Form      *form
	Scopes    []option
	Lifetimes []option
	BaseURL   string
	madeKey
}

// madeKey is the key that a form has created.
type madeKey struct {
	// New and Text are the key that was created by this request. Text is shown this once.
	New  *config.Key
	Text string
	// Repeated is the key that an earlier submission of the same form created.
	Repeated *config.Key
}

// makeKey creates the key that a form describes. If the form has a fault, ok is false, and the form says it.
func makeKey(v *visit, f *form, n config.NewKey) (made madeKey, ok bool, err error) {
	n.Name, n.Nonce = strings.TrimSpace(f.Value("name")), f.Nonce
	if n.ExpiresAt, ok = expiryOf(v, f.Value("expires")); !ok {
		err = &config.InvalidError{Param: "expires", Message: "is not one of the choices"}
	} else {
		made.Text, made.New, err = v.deps.Keys.CreateKey(v.r.Context(), n)
	}
	if v.refused(f, invalidInput(err)) {
		return madeKey{}, false, nil
	}
	if errors.Is(err, config.ErrAlreadyCreated) {
		return madeKey{Repeated: made.New}, true, nil
	}
	return made, true, err
}

// lifetimes are the choices of the field expires, in days; empty: the key never expires.
var lifetimes = []option{
	{Value: "", Text: "Never"}, {Value: "30", Text: "In 30 days"}, {Value: "90", Text: "In 90 days"},
	{Value: "365", Text: "In a year"},
}

var keyScopes = []option{
	{Value: string(config.Read), Text: "Read", Hint: "Reads everything, changes nothing. Enough for monitoring."},
	{Value: string(config.ReadWrite), Text: "Read and write",
		Hint: "Sends events, replays, recovers, and changes endpoints."},
}

// listKeys shows the API keys and, to a writer, the form for a new one.
func listKeys(v *visit) error {
	return showKeys(v, &keysPage{Form: scopeForm("")})
}

// showKeys fills in the list. It is shown even while the store is unavailable: somebody may have to revoke a key just
// then.
func showKeys(v *visit, p *keysPage) error {
	p.Scopes, p.Lifetimes, p.BaseURL = keyScopes, lifetimes, v.cfg.BaseURL
	now := v.deps.Now()
	var ended []keyRow
	for _, k := range v.deps.Keys.Keys(v.person.Account) {
		row := keyRow{Key: k, Expired: !k.ExpiresAt.IsZero() && !now.Before(k.ExpiresAt)}
		row.NotSet = !v.deps.Keys.IsSet(k)
		if row.Active = k.RevokedAt.IsZero() && !row.Expired && !row.NotSet; row.Active {
			p.Keys = append(p.Keys, row)
		} else {
			ended = append(ended, row)
		}
	}
	p.Active = len(p.Keys)
	p.Keys, p.Pager = paginate(v, keysPath, append(p.Keys, ended...)) // newest first among each
	addUses(v, p)
	return v.page("keys", p)
}

// addUses adds the last uses to the keys of a page.
func addUses(v *visit, p *keysPage) {
	if len(p.Keys) == 0 {
		return
	}
	ids := make([]string, len(p.Keys))
	for i, row := range p.Keys {
		ids[i] = row.ID
	}
	uses, err := v.deps.KeyUses.KeyUses(v.r.Context(), v.person.Account, ids)
	if err != nil {
		p.NoUses = true
		v.deps.Log.LogAttrs(v.r.Context(), slog.LevelWarn, "cannot read the last uses of API keys", slog.Any("error", err))
	}
	for i, row := range p.Keys {
		if u, used := uses[row.ID]; used {
			p.Keys[i].LastUse = &u
		}
	}
}

// createKey creates an API key and shows its text, once: a second submission of the form shows it to nobody.
func createKey(v *visit, f *form) error {
	made, ok, err := makeKey(v, f, config.NewKey{Scope: config.Scope(f.Value("scope"))})
	if err != nil {
		return err
	}
	if ok {
		f = scopeForm("")
	}
	return showKeys(v, &keysPage{Form: f, madeKey: made})
}

// expiryOf returns when a key with a lifetime of the list ends; ok is false for other lifetimes.
func expiryOf(v *visit, lifetime string) (at time.Time, ok bool) {
	if !slices.ContainsFunc(lifetimes, func(o option) bool { return o.Value == lifetime }) {
		return time.Time{}, false
	}
	if lifetime == "" {
		return time.Time{}, true
	}
	days, err := strconv.Atoi(lifetime)
	return v.deps.Now().AddDate(0, 0, days).UTC(), err == nil
}

// revokeKey revokes an API key, whose name the person has typed.
func revokeKey(v *visit) error {
	all := v.deps.Keys.Keys(v.person.Account)
	i := slices.IndexFunc(all, func(k *config.Key) bool { return k.ID == v.vars["key"] })
	if i < 0 {
		return web.Missing("There is no such API key any more. Nothing was changed.")
	}
	k := all[i]
	if strings.TrimSpace(v.values.Get("confirm")) != k.Name {
		v.status = http.StatusBadRequest
		return showKeys(v, &keysPage{Form: scopeForm("To revoke a key, type its name. Nothing was revoked.")})
	}
	if err := v.deps.Keys.RevokeKey(v.r.Context(), k.ID); err != nil {
		return err
	}
	return v.redirect(keysPath, "Revoked. The key works on no node any more.")
}
