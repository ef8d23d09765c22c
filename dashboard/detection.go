package dashboard

import (
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/eventrelay/relay/api/wire"
	"github.com/eventrelay/relay/pkg/secrets"
	"github.com/eventrelay/relay/pkg/web"
)

const (
	detectionPath = settingsPath + "/detection"
	detectionAPI  = "/v1/settings/detection"
)

// ruleData is one of the account's own rules, as the API says it.
type ruleData struct{ wire.DetectionRule }

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
var ruleFields = fieldTable{
	{trimmedField, "id name"}, {linesOrWords, "prefixes"}, {textField, "charset left right severity"},
	{numberField, "min max entropy"}, {optionalText, "docs_url"},
}

// linesOrWords is a list, one a line in its field, or separated by commas or spaces.
var linesOrWords = fieldKind{wordField.read, "\n"}

// values are the fields of the rule's form.
func (r *ruleData) values() url.Values {
	values := ruleFields.values(r)
	values.Set("id", r.Key())
	return values
}

// newRule has the values of the form for a new rule.
var newRule = ruleData{wire.DetectionRule{CustomRule: wire.CustomRule{Charset: "alnum", Min: 16, Max: 128, Left: "word",
	Right: "word", Severity: "medium"}}}

// ruleBody is the rule that a form asks for, as the API takes it.
func ruleBody(f *form) map[string]any {
	body := ruleFields.all(f)
	body["id"] = secrets.CustomPrefix + strings.TrimSpace(f.Value("id"))
	body["docs_url"] = asTextOrNull(strings.TrimSpace(f.Value("docs_url")))
	return body
}

// detectionData are the account's own rules.
type detectionData struct {
	wire.DetectionSettings
	Rules []ruleData `json:"rules"`
}

// index returns the position of a rule; -1 if there is none.
func (d *detectionData) index(id string) int {
	return slices.IndexFunc(d.Rules, func(r ruleData) bool { return r.ID == id })
}

// detectionPage is the data of the page of the account's own rules.
type detectionPage struct {
	*detectionData
	Form    *form
	Changed *ruleData // the rule that the form changes; nil: it makes a new one
	TryForm *form
	Tried   *wire.DetectionTry // nil: no text was tried
}

// Charsets and the lists below are the choices of the form.
func (*detectionPage) Charsets() []option {
	var all []option
	hints := map[string]string{"alnum": "letters and digits", "word": "letters, digits and _", "hex": "0–9, a–f, A–F",
		"urlsafe": "letters, digits, - and _", "base64": "letters, digits, +, / and =", "digit": "digits"}
	for _, name := range secrets.Charsets() {
		text := name
		if hint := hints[name]; hint != "" {
			text += ": " + hint
		}
		all = append(all, option{Value: name, Text: text})
	}
	return all
}

// readDetection reads the account's own rules for their page.
func readDetection(v *visit) (*detectionPage, error) {
	p := &detectionPage{detectionData: &detectionData{}, Form: editForm(newRule.values()),
		TryForm: newForm(url.Values{}, "")}
	return p, v.get(detectionAPI, nil, p.detectionData)
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
	p.Form = editForm(p.Changed.values())
	return nil
}

func showDetection(v *visit, p *detectionPage) error {
	if err := p.change(v.r.URL.Query().Get("rule")); err != nil {
		return err
	}
	return v.page("detection", p)
}

// saveRule makes a rule, or changes one.
func saveRule(v *visit, f *form, p *detectionPage) error {
	if err := p.change(f.Value("rule")); err != nil {
		return err
	}
	stored := p.Form.values
	p.Form = f
	if p.Changed != nil {
		if status, stale := f.isStale(stored); stale {
			v.status = status
			return v.page("detection", p)
		}
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
	err := v.do("PATCH "+detectionAPI, f, members{"rules": rules, "version": p.Version}, nil)
	if x, ok := errors.AsType[*apiError](err); ok {
		x.Param = strings.TrimPrefix(x.Param, fmt.Sprintf("rules[%d].", at))
	}
	return v.answer(f, err, func() error { return v.page("detection", p) },
		opens(v, detectionPath, "Saved. It applies to what arrives from now on."))
}

// removeRule removes a rule. The findings that it has made stay.
func removeRule(v *visit, f *form, p *detectionPage) error {
	if i := p.index(f.Value("rule")); i >= 0 {
		body := members{"rules": slices.Delete(p.Rules, i, i+1), "version": p.Version}
		if err := v.do("PATCH "+detectionAPI, f, body, nil); err != nil {
			return err
		}
	}
	return v.redirect(detectionPath, "Removed. Its findings stay.")
}

// tryLine shows what would be found in a text. The page has masks only, and nobody keeps the text.
func tryLine(v *visit, f *form, p *detectionPage) error {
	tried := &wire.DetectionTry{}
	err := v.send("POST", detectionAPI+"/try", members{"text": unixLines(f.Value("text"))}, "", tried)
	if x, ok := errors.AsType[*apiError](err); ok {
		v.status = p.TryForm.setError(x)
	} else if err != nil {
		return err
	} else {
		p.Tried = tried
	}
	return v.page("detection", p)
}
