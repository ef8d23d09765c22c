package ui

import (
	"errors"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/eventrelay/relay/pkg/config"
	"github.com/eventrelay/relay/pkg/config/entity"
)

// ScopeForm returns a form whose field scope is read, with a message of what was not done.
func ScopeForm(problem string) *Form {
	f := NewForm(url.Values{"scope": {string(config.Read)}}, "")
	f.Error = problem
	return f
}

// InvalidInput returns an error of the configuration about what a person has entered as the API would return it.
func InvalidInput(err error) error {
	if invalid, ok := errors.AsType[*entity.InvalidError](err); ok {
		return Fault(invalid.Param, "%s", invalid.Message)
	}
	return nil
}

// MadeKey is the key that a form has created.
type MadeKey struct {
	// New and Text are the key that was created by this request. Text is shown this once.
	New  *config.Key
	Text string
	// Repeated is the key that an earlier submission of the same form created.
	Repeated *config.Key
}

// makeKey creates the key that a form describes. If the form has a fault, ok is false, and the form says it.
func makeKey(v *Visit, f *Form, n config.NewKey) (made MadeKey, ok bool, err error) {
	n.Name, n.Nonce = strings.TrimSpace(f.Value("name")), f.Nonce
	if n.ExpiresAt, ok = expiryOf(v, f.Value("expires")); !ok {
		err = &entity.InvalidError{Param: "expires", Message: "is not one of the choices"}
	} else {
		made.Text, made.New, err = v.Deps.Control.CreateKey(v.R.Context(), n)
	}
	if v.Refused(f, InvalidInput(err)) {
		return MadeKey{}, false, nil
	}
	if errors.Is(err, config.ErrAlreadyCreated) {
		return MadeKey{Repeated: made.New}, true, nil
	}
	return made, true, err
}

// Lifetimes are the choices of the field expires, in days; empty: the key never expires.
var Lifetimes = []Option{
	{Value: "", Text: "Never"}, {Value: "30", Text: "In 30 days"}, {Value: "90", Text: "In 90 days"},
	{Value: "365", Text: "In a year"},
}

// ListKeys returns what shows a page with the form of a new key.
func ListKeys(page func(*Visit, *Form, MadeKey) error) func(*Visit) error {
	return func(v *Visit) error {
		f := ScopeForm("")
		f.Values.Set("tenant", v.R.URL.Query().Get("tenant"))
		return page(v, f, MadeKey{})
	}
}

// CreateKey returns the handler of the form of a new key. The page shows its text, once: a second submission of the
// form shows it to nobody. The key of an agent changes nothing by itself.
func CreateKey(agent bool, page func(*Visit, *Form, MadeKey) error) func(*Visit) error {
	return Submit(func(v *Visit, f *Form) error {
		made, ok, err := makeKey(v, f, config.NewKey{Scope: config.Scope(f.Value("scope")), Agent: agent,
			Tenant: strings.TrimSpace(f.Value("tenant"))})
		if err != nil {
			return err
		}
		if ok {
			f = ScopeForm("")
		}
		return page(v, f, made)
	})
}

// expiryOf returns when a key with a lifetime of the list ends; ok is false for other lifetimes.
func expiryOf(v *Visit, lifetime string) (at time.Time, ok bool) {
	if !slices.ContainsFunc(Lifetimes, func(o Option) bool { return o.Value == lifetime }) {
		return time.Time{}, false
	}
	if lifetime == "" {
		return time.Time{}, true
	}
	days, err := strconv.Atoi(lifetime)
	return v.Now().AddDate(0, 0, days).UTC(), err == nil
}
