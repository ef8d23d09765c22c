package frame

import (
	"crypto/rand"
	"encoding/base64"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/web"
)

// filterChoices are the values of a filter of the API.
func filterChoices(name string) []Option {
	i := slices.IndexFunc(event.Filters, func(f event.Filter) bool { return f.Name == name })
	return PlainOptions(event.Filters[i].AllowedValues...)
}

// Form is what a page draws of a form: its values, the errors of its fields, and a nonce.
type Form struct {
	// Nonce is the Idempotency-Key of the call that the form leads to.
	Nonce string
	// Version is the state of the resource when the form was drawn, such as its updated_at; empty for a new one.
	Version string
	// Error is why the form was not accepted; empty for a new form. Param is the field at fault, and Label its label:
	// known once the field is drawn.
	Error, Param, Label string
	// ReadOnly says that the form asks for something and changes nothing. Refused begins the message of a
	// refused form, such as "Not sent"; empty: "Not saved".
	ReadOnly bool
	Refused  string
	// Unconfirmed says that the service did not confirm what the form asked for.
	Unconfirmed bool
	// Stale says that somebody has changed the resource since the form was drawn; see SetStale.
	Stale  bool
	Values url.Values
	stored map[string]string // what is stored now, by field, where it differs from the value in the form
	// now and present are the arguments of AddVersion.
	now     url.Values
	present string
}

// NewForm returns a form with these values. Names of fields are the API's names of parameters, so that errors find
// them.
func NewForm(values url.Values, version string) *Form {
	return &Form{Nonce: NewNonce(), Version: version, Values: values}
}

// NewNonce returns a random text that no other form has.
func NewNonce() string {
	var b [16]byte
	rand.Read(b[:]) // never fails: crypto/rand ends the process instead
	return base64.RawURLEncoding.EncodeToString(b[:])
}

var nonceFormat = regexp.MustCompile(`^[A-Za-z0-9_-]{22}$`)

// Form returns the form that was sent, with its values, nonce and version.
func (v *Visit) Form() (*Form, error) {
	f := &Form{Nonce: v.Values.Get("nonce"), Version: v.Values.Get("version"), Values: v.Values}
	if !nonceFormat.MatchString(f.Nonce) {
		return nil, web.Invalid("", "The form is incomplete. Open the page again and send it once more.")
	}
	return f, nil
}

// Value returns the value of a field; empty if it has none.
func (f *Form) Value(name string) string { return f.Values.Get(name) }

// Has reports whether value is one of the values of a field, for checkboxes and options.
func (f *Form) Has(name, value string) bool { return slices.Contains(f.Values[name], value) }

// SetError shows an error of the API in the form, at the field that it names, and returns the status of the page. A
// form that may have taken effect keeps its nonce, so that sending it again does nothing twice; a rejected one gets a
// new one, since it will be sent with other values.
func (f *Form) SetError(e *APIError) (status int) {
	f.Error, f.Param = Sentence(e.Message), e.Param
	f.Unconfirmed = !f.ReadOnly && e.Status >= http.StatusInternalServerError
	if e.Status == http.StatusBadRequest {
		f.Nonce = NewNonce()
	}
	return e.Status
}

// SetStale marks the form as drawn from an older state: version is the present one, stored the present values of its
// fields. The page then shows both and asks again.
func (f *Form) SetStale(version string, stored map[string]string) (status int) {
	f.Stale, f.Version, f.Nonce, f.stored = true, version, NewNonce(), map[string]string{}
	for name, value := range stored {
		if value != f.Value(name) {
			f.stored[name] = value
		}
	}
	return http.StatusBadRequest
}

// field is one control of a form for the template "field".
type field struct {
	ID, Name, Label, Hint, Value, Error string
	Stored                              *string // what is stored now, if it differs
	Again                               bool    // a secret was entered, and the page that is shown again does not have it
	Type, Autocomplete, Placeholder     string
	Max, Min, Pattern, Rows, List       string // List is the id of a datalist
	Required, Focus, ReadOnly           bool
	Options                             []Option
	Empty                               string // text of the empty option; "" = none
	Many                                bool   // boxes in place of circles
}

// Option is one choice of a select or of a group of options.
type Option struct {
	Value, Text, Hint string
	Chosen            bool
}

// newField returns a field of f. Each setting is a word ("required", "focus", "readonly") or name=value with the names
// label, hint, type, autocomplete, placeholder, max (characters), min, pattern, rows, list.
func newField(f *Form, name string, settings ...string) (field, error) {
	x := field{ID: "f-" + name, Name: name, Label: name, Type: "text"}
	if f != nil {
		x.Value = f.Value(name)
		if f.Error != "" && f.Param == name {
			x.Error = f.Error
		}
		if stored, ok := f.stored[name]; ok {
			x.Stored = &stored
		}
	}
	texts := map[string]*string{"label": &x.Label, "hint": &x.Hint, "type": &x.Type, "autocomplete": &x.Autocomplete,
		"placeholder": &x.Placeholder, "max": &x.Max, "min": &x.Min, "pattern": &x.Pattern, "rows": &x.Rows,
		"empty": &x.Empty, "list": &x.List}
	words := map[string]*bool{"required": &x.Required, "focus": &x.Focus, "readonly": &x.ReadOnly, "many": &x.Many}
	for _, s := range settings {
		name, value, ok := strings.Cut(s, "=")
		switch {
		case ok && texts[name] != nil:
			*texts[name] = value
		case !ok && words[name] != nil:
			*words[name] = true
		default:
			return field{}, fmt.Errorf("field %s: unknown setting %q", x.Name, s)
		}
	}
	switch {
	case x.Error != "":
		x.Focus, f.Label = true, x.Label
	case f != nil && f.Label != "":
		x.Focus = false // the field at fault has it
	}
	if x.Type == "password" { // a person's own password, which a browser fills in, needs no note
		x.Again = x.Value != "" && x.Autocomplete == "off" && (f.Error != "" || f.Stale)
		x.Value = ""
	}
	return x, nil
}

// OptionText returns the text of a choice; the value itself if it is none.
func OptionText(options []Option, value string) string {
	for _, o := range options {
		if o.Value == value {
			return o.Text
		}
	}
	return value
}

// NewOptions returns choices, each of the form value=text or value=text|hint; a word is both value and text.
func NewOptions(choices ...string) []Option {
	options := make([]Option, len(choices))
	for i, choice := range choices {
		value, text, ok := strings.Cut(choice, "=")
		if text, options[i].Hint, _ = strings.Cut(text, "|"); !ok {
			text = value
		}
		options[i].Value, options[i].Text = value, text
	}
	return options
}

// PlainOptions returns options that show their values.
func PlainOptions(values ...string) []Option {
	options := make([]Option, len(values))
	for i, value := range values {
		options[i] = Option{Value: value, Text: value}
	}
	return options
}

// newChoice returns a field of f with options, for the templates "select" and "options".
func newChoice(f *Form, name string, options []Option, settings ...string) (field, error) {
	x, err := newField(f, name, settings...)
	x.Options = slices.Clone(options)
	for i := range x.Options {
		x.Options[i].Chosen = f != nil && f.Has(name, x.Options[i].Value)
	}
	return x, err
}
