package routes

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/eventrelay/relay/api/frame"
	"github.com/eventrelay/relay/pkg/config"
	"github.com/eventrelay/relay/pkg/finding"
	"github.com/eventrelay/relay/pkg/secrets"
	"github.com/eventrelay/relay/pkg/web"
)

const (
	// maxTryText is the length of a text to try rules on, in characters; maxTryMatches is how many matches are shown.
	maxTryText, maxTryMatches = 16 << 10, 50
	// tryRate is how many texts a second a key or a person may try.
	tryRate = 10
)

// Defaults of a rule's members.
const (
	defaultCharset = "alnum"
	defaultMin     = 16
	defaultMax     = 128
	defaultBeside  = "word"
)

// detection serves the account's own rules for secrets.
type detection struct {
	area
	scanners *secrets.Scanners
}

func (a *detection) answer(w http.ResponseWriter, s *config.Settings, warnings []frame.Warning) {
	v := DetectionSettings{Object: "detection_settings", Rules: []DetectionRule{}, Version: s.Detection.Version,
		UpdatedAt: web.Time(s.Detection.UpdatedAt), UpdatedBy: frame.OrNull(s.Detection.UpdatedBy), Warnings: warnings}
	for _, r := range s.Detection.Rules {
		v.Rules = append(v.Rules, DetectionRule{CustomRule: CustomRule(r), DocsURL: frame.OrNull(r.Docs)})
	}
	web.WriteJSON(w, http.StatusOK, v)
}

func (a *detection) readDetection(w http.ResponseWriter, r *http.Request, _ *config.Key) error {
	a.CatchUp(r.Context())
	a.answer(w, a.Control.Settings(), nil)
	return nil
}

func (a *detection) updateDetection(w http.ResponseWriter, r *http.Request, key *config.Key) error {
	body, err := a.Body(r)
	if err != nil {
		return err
	}
	var in *frame.Input
	after, err := a.Control.UpdateDetection(r.Context(), func(d *config.Detection) error {
		in = &frame.Input{}
		before := slices.Clone(d.Rules)
		a.merge(in, body, d)
		if !slices.EqualFunc(before, d.Rules, equalRules) {
			d.UpdatedBy = key.ID
		}
		return in.Err
	})
	if err != nil {
		return err
	}
	a.answer(w, after, in.Warnings)
	return nil
}

func equalRules(a, b secrets.Custom) bool {
	prefixes := slices.Equal(a.Prefixes, b.Prefixes)
	a.Prefixes, b.Prefixes = nil, nil
	return prefixes && fmt.Sprint(a) == fmt.Sprint(b)
}

// merge reads the members of the settings.
func (a *detection) merge(in *frame.Input, body []byte, d *config.Detection) {
	o := in.NewObject("", body)
	version := d.Version
	o.Integer("version", 0, 1<<53, &version)
	if version != d.Version && in.Err == nil {
		in.Err = &web.Error{Status: http.StatusBadRequest, Type: web.Conflict, Param: "version",
			Message: fmt.Sprintf("is not that of the settings, which have been changed meanwhile and are now %d; read them "+
				"and try again", d.Version)}
	}
	if o.IsNull("rules") {
		d.Rules = nil
	} else if _, ok := o.Raw("rules"); ok {
		d.Rules = a.rules(in, o, d.Rules)
	}
	o.Decode(&DetectionSettings{})
	o.WarnUnknown()
}

// rules reads the member rules, which replaces all of the account's rules, the saved ones.
func (a *detection) rules(in *frame.Input, o *frame.Object, saved []secrets.Custom) (rules []secrets.Custom) {
	for i, raw := range o.Array("rules", secrets.MaxCustomRules) {
		rules = append(rules, a.rule(in, frame.Indexed("rules", i), raw, saved))
	}
	if in.Err != nil {
		return nil
	}
	if err := secrets.ValidateCustom(rules); err != nil {
		failCustom(in, err)
	}
	return rules
}

// failCustom records an error of package secrets.
func failCustom(in *frame.Input, err error) {
	if e, ok := errors.AsType[*secrets.CustomError](err); ok {
		in.Fail(e.Param, "%s", e.Message)
	} else if in.Err == nil {
		in.Err = err
	}
}

// rule reads one rule, which replaces the saved one with its id.
func (a *detection) rule(in *frame.Input, path string, raw []byte, saved []secrets.Custom) secrets.Custom {
	x := DetectionRule{CustomRule: CustomRule{Charset: defaultCharset, Min: defaultMin, Max: defaultMax,
		Left: defaultBeside, Right: defaultBeside, Severity: secrets.Medium}}
	o := in.NewObject(path, raw)
	for _, name := range []string{"id", "name", "prefixes"} {
		o.Require(name)
	}
	o.Text("id", 1, len(secrets.CustomPrefix)+secrets.MaxCustomPrefix, &x.ID)
	if i := slices.IndexFunc(saved, func(s secrets.Custom) bool { return s.ID == x.ID }); i >= 0 {
		x.Name = saved[i].Name
	}
	o.Decode(&x)
	in.MaskName(a.scanners.Base(), o.Param("name"), &x.Name)
	r := secrets.Custom(x.CustomRule)
	a.prefixes(o, &r)
	if x.DocsURL != nil {
		if r.Docs = *x.DocsURL; a.scanners.Base().Find(r.Docs) != nil {
			o.Fail("docs_url", "must not contain a secret")
		}
	}
	o.WarnUnknown()
	return r
}

// prefixes reads the prefixes of a rule. A whole key in place of its beginning is refused: everybody reads the rules.
func (a *detection) prefixes(o *frame.Object, r *secrets.Custom) {
	for i, raw := range o.Array("prefixes", secrets.MaxCustomRulePrefixes) {
		name := frame.Indexed("prefixes", i)
		text, problem := "", "must be "+frame.KindString
		if frame.KindOf(raw) == frame.KindString {
			text, problem = frame.TextOf(raw, secrets.MinCustomPrefix, secrets.MaxCustomPrefix)
		}
		if problem == "" && a.scanners.Base().Find(text) != nil {
			problem = "must be the beginning that all keys have in common, not a whole key"
		}
		if problem != "" {
			o.Fail(name, "%s", problem)
			return
		}
		r.Prefixes = append(r.Prefixes, text)
	}
}

// tryRules scans a text with the account's rules, or with those of the request in their place. Nothing is stored,
// counted or logged, and the answer has masks only.
func (a *detection) tryRules(w http.ResponseWriter, r *http.Request, key *config.Key) error {
	if wait, _ := a.Limits.TakeSharedToken("detection-try", key.ID, tryRate); wait > 0 {
		return &web.Error{Status: http.StatusTooManyRequests, Type: web.RateLimited, RetryAfter: max(wait, time.Second),
			Message: fmt.Sprintf("at most %d texts a second can be tried; wait as long as Retry-After says", tryRate)}
	}
	body, err := a.Body(r)
	if err != nil {
		return err
	}
	in, text := &frame.Input{}, ""
	o := in.NewObject("", body)
	o.Require("text")
	o.Text("text", 1, maxTryText, &text)
	settings := a.Control.Settings()
	scanner := a.scanners.For(settings.Account, settings.Rev, settings.Detection.Rules)
	if _, ok := o.Raw("rules"); ok {
		if rules := a.rules(in, o, settings.Detection.Rules); in.Err == nil {
			scanner, in.Err = a.scanners.Base().With(rules)
		}
	}
	if o.WarnUnknown(); in.Err != nil {
		return in.Err
	}
	view := tryText(scanner, []byte(text))
	view.Warnings = in.Warnings
	return web.Answer(w, http.StatusOK, view)
}

func tryText(scanner *secrets.Scanner, text []byte) *DetectionTry {
	v := &DetectionTry{Object: "detection_try", Matches: []TryMatch{}}
	line, from := 1, 0
	scanner.Scan(text, func(m secrets.Match) bool {
		if v.Total++; v.Total > maxTryMatches {
			return true
		}
		for _, c := range text[from:m.Start] {
			if c == '\n' {
				line++
			}
		}
		from = m.Start
		v.Matches = append(v.Matches, TryMatch{Rule: m.Rule.ID, Name: m.Rule.Name,
			Severity: severityInLogs(m.Rule), Masked: m.Rule.Mask(text[m.Start:m.End]), Line: line})
		return true
	})
	masked, _ := scanner.MaskAll(nil, text)
	v.Masked = string(masked)
	return v
}

// severityInLogs returns the severity of a rule's hits in a log line.
func severityInLogs(rule *secrets.Rule) string {
	c := finding.ContextOf(rule)
	c.Source = finding.Drain
	return finding.SeverityOf(c).String()
}
