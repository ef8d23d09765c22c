package pages

import (
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/eventrelay/relay/dashboard/ui"
	"github.com/eventrelay/relay/features/leaks/routes"
	"github.com/eventrelay/relay/pkg/secrets"
	"github.com/eventrelay/relay/pkg/web"
)

const (
	detectionPath = "/app/settings/detection"
	detectionAPI  = "/v1/settings/detection"
)

// ruleData is one of the account's own rules, as the API says it.
type ruleData struct{ routes.DetectionRule }

// Key identifies the rule in the page.
func (r *ruleData) Key() string { return strings.TrimPrefix(r.ID, secrets.CustomPrefix) }

// Shape says what the rule looks for.
func (r *ruleData) Shape() string {
	length := fmt.Sprintf("%d to %d", r.Min, r.Max)
	if r.Min == r.Max {
		length = fmt.Sprint(r.Min)
	}
	return fmt.Sprintf("%s, then %s characters of %s", strings.Join(r.Prefixes, " or "), length, r.Charset)
}

// ruleFields are the fields of the rule's form.
var ruleFields = ui.FieldTable{
	{ui.TrimmedField, "id name"}, {linesOrWords, "prefixes"}, {ui.TextField, "charset left right severity"},
	{ui.NumberField, "min max entropy"}, {ui.OptionalText, "docs_url"},
}

// linesOrWords is a list, one a line in its field, or separated by commas or spaces.
var linesOrWords = ui.FieldKind{Read: ui.WordField.Read, Between: "\n"}

// values are the fields of the rule's form.
func (r *ruleData) values() url.Values {
	values := ruleFields.Values(r)
	values.Set("id", r.Key())
	return values
}

// newRule has the values of the form for a new rule.
var newRule = ruleData{routes.DetectionRule{CustomRule: routes.CustomRule{Charset: "alnum", Min: 16, Max: 128,
	Left: "word", Right: "word", Severity: "medium"}}}

// ruleBody is the rule that a form asks for, as the API takes it.
func ruleBody(f *ui.Form) map[string]any {
	body := ruleFields.All(f)
	body["id"] = secrets.CustomPrefix + strings.TrimSpace(f.Value("id"))
	body["docs_url"] = ui.AsTextOrNull(strings.TrimSpace(f.Value("docs_url")))
	return body
}

// detectionData are the account's own rules.
type detectionData struct {
	routes.DetectionSettings
	Rules []ruleData `json:"rules"`
}

// index returns the position of a rule; -1 if there is none.
func (d *detectionData) index(id string) int {
	return slices.IndexFunc(d.Rules, func(r ruleData) bool { return r.ID == id })
}

// detectionPage is the data of the page of the account's own rules.
type detectionPage struct {
	*detectionData
	Form    *ui.Form
	Changed *ruleData // the rule that the form changes; nil: it makes a new one
	TryForm *ui.Form
	Tried   *routes.DetectionTry // nil: no text was tried
}

// Charsets and the lists below are the choices of the form.
func (*detectionPage) Charsets() []ui.Option {
	var all []ui.Option
	hints := map[string]string{"alnum": "letters and digits", "word": "letters, digits and _",
		"hex": "0–9, a–f, A–F", "urlsafe": "letters, digits, - and _", "base64": "letters, digits, +, / and =",
		"digit": "digits"}
	for _, name := range secrets.Charsets() {
		text := name
		if hint := hints[name]; hint != "" {
			text += ": " + hint
		}
		all = append(all, ui.Option{Value: name, Text: text})
	}
	return all
}

// BuiltIn are the rules for common providers, the same for every account.
func (*detectionPage) BuiltIn() ([]secrets.Rule, error) {
	scanner, err := secrets.New(secrets.ForLeaks)
	if err != nil {
		return nil, err
	}
	return slices.SortedFunc(slices.Values(slices.DeleteFunc(slices.Clone(scanner.Rules()), func(r secrets.Rule) bool {
		return r.Test
	})), func(a, b secrets.Rule) int { return strings.Compare(strings.ToLower(a.Name), strings.ToLower(b.Name)) }), nil
}

// readDetection reads the account's own rules for their page.
func readDetection(v *ui.Visit) (*detectionPage, error) {
	p := &detectionPage{detectionData: &detectionData{}, Form: ui.EditForm(newRule.values()),
		TryForm: ui.NewForm(url.Values{}, "")}
	return p, v.Get(detectionAPI, nil, p.detectionData)
}

// change makes the form of the page change a rule.
func (p *detectionPage) change(id string) error {
	if id == "" {
		return nil
	}
	i := p.index(id)
	if i < 0 {
		return web.Missing("There is no such rule any more. Nothing was changed.")
	}
	p.Changed = &p.Rules[i]
	p.Form = ui.EditForm(p.Changed.values())
	return nil
}

func showDetection(v *ui.Visit, p *detectionPage) error {
	if err := p.change(v.R.URL.Query().Get("rule")); err != nil {
		return err
	}
	return v.Page("detection", p)
}

// saveRule makes a rule, or changes one.
func saveRule(v *ui.Visit, f *ui.Form, p *detectionPage) error {
	if err := p.change(f.Value("rule")); err != nil {
		return err
	}
	stored := p.Form.Values
	p.Form = f
	if p.Changed != nil && f.IsStale(v, stored) {
		return v.Page("detection", p)
	}
	rules, at := make([]any, len(p.Rules)), len(p.Rules)
	for i := range p.Rules {
		rules[i] = &p.Rules[i]
	}
	if p.Changed == nil {
		rules = append(rules, nil)
	} else {
		at = p.index(p.Changed.ID)
	}
	rules[at] = ruleBody(f)
	err := v.Do("PATCH "+detectionAPI, f, ui.Object{"rules": rules, "version": p.Version}, nil)
	if x, ok := errors.AsType[*ui.APIError](err); ok {
		x.Param = strings.TrimPrefix(x.Param, fmt.Sprintf("rules[%d].", at))
	}
	return v.Answer(f, err, func() error { return v.Page("detection", p) },
		ui.Opens(v, detectionPath, "Saved. It applies to what arrives from now on."))
}

// removeRule removes a rule. The findings that it has made stay.
func removeRule(v *ui.Visit, f *ui.Form, p *detectionPage) error {
	if i := p.index(f.Value("rule")); i >= 0 {
		body := ui.Object{"rules": slices.Delete(p.Rules, i, i+1), "version": p.Version}
		if err := v.Do("PATCH "+detectionAPI, f, body, nil); err != nil {
			return err
		}
	}
	return v.Redirect(detectionPath, "Removed. Its findings stay.")
}

// tryLine shows what would be found in a text. The page has masks only, and nobody keeps the text.
func tryLine(v *ui.Visit, f *ui.Form, p *detectionPage) error {
	tried := &routes.DetectionTry{}
	err := v.Send("POST", detectionAPI+"/try", ui.Object{"text": ui.UnixLines(f.Value("text"))}, "", tried)
	if x, ok := errors.AsType[*ui.APIError](err); ok {
		v.Status = p.TryForm.SetError(x)
	} else if err != nil {
		return err
	} else {
		p.Tried = tried
	}
	return v.Page("detection", p)
}
