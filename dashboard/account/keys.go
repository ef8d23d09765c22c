package account

import (
	"log/slog"
	"net/http"
	"slices"
	"strings"

	"github.com/eventrelay/relay/dashboard/ui"
	"github.com/eventrelay/relay/pkg/audit"
	"github.com/eventrelay/relay/pkg/config"
	"github.com/eventrelay/relay/pkg/web"
)

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
	Pager     ui.Pager
	Active    int  // how many keys work now
	NoUses    bool // the store, which has the uses, does not answer
	Form      *ui.Form
	Lifetimes []ui.Option
	BaseURL   string
	ui.MadeKey
}

// showKeys shows the API keys and, to a writer, the form for a new one, even while the store is unavailable: somebody
// may have to revoke a key just then.
func showKeys(v *ui.Visit, f *ui.Form, made ui.MadeKey) error {
	p := &keysPage{Form: f, Lifetimes: ui.Lifetimes, BaseURL: v.Config.BaseURL, MadeKey: made}
	now := v.Now()
	var ended []keyRow
	for _, k := range v.Deps.Control.Keys(v.Person.Account) {
		row := keyRow{Key: k, Expired: !k.ExpiresAt.IsZero() && !now.Before(k.ExpiresAt)}
		row.NotSet = !v.Deps.Control.IsSet(k)
		if row.Active = k.RevokedAt.IsZero() && !row.Expired && !row.NotSet; row.Active {
			p.Keys = append(p.Keys, row)
		} else {
			ended = append(ended, row)
		}
	}
	p.Active = len(p.Keys)
	p.Keys, p.Pager = ui.Paginate(v, ui.KeysPath, append(p.Keys, ended...)) // newest first among each
	addUses(v, p)
	return v.Page("keys", p)
}

// addUses adds the last uses to the keys of a page.
func addUses(v *ui.Visit, p *keysPage) {
	if len(p.Keys) == 0 {
		return
	}
	ids := make([]string, len(p.Keys))
	for i, row := range p.Keys {
		ids[i] = row.ID
	}
	uses, err := v.Deps.KeyUses.KeyUses(v.R.Context(), v.Person.Account, ids)
	if err != nil {
		p.NoUses = true
		v.Deps.Log.LogAttrs(v.R.Context(), slog.LevelWarn, "cannot read the last uses of API keys", slog.Any("error", err))
	}
	for i, row := range p.Keys {
		if u, used := uses[row.ID]; used {
			p.Keys[i].LastUse = &u
		}
	}
}

// revokeKey revokes an API key, whose name the person has typed.
func revokeKey(v *ui.Visit) error {
	all := v.Deps.Control.Keys(v.Person.Account)
	i := slices.IndexFunc(all, func(k *config.Key) bool { return k.ID == v.Vars["key"] })
	if i < 0 {
		return web.Missing("There is no such API key any more. Nothing was changed.")
	}
	k := all[i]
	if strings.TrimSpace(v.Values.Get("confirm")) != k.Name {
		v.Status = http.StatusBadRequest
		return showKeys(v, ui.ScopeForm("To revoke a key, type its name. Nothing was revoked."), ui.MadeKey{})
	}
	if err := v.Deps.Control.RevokeKey(v.R.Context(), k.ID); err != nil {
		return err
	}
	return v.Redirect(ui.KeysPath, "Revoked. The key works on no node any more.")
}
