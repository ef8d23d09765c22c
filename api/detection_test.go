package api_test

import (
	"strings"
	"testing"

	"github.com/eventrelay/relay/pkg/config/leak"
	"github.com/eventrelay/relay/test/is"
)

const detectionPath = "/v1/settings/detection"

// noRules removes the account's own rules. Tests that make some defer it: all share one account.
func (c *client) noRules() { c.do("PATCH", detectionPath, `{"rules":[]}`).want(200) }

func TestDetectionRules(t *testing.T) {
	c := newClient(t)
	defer c.noRules()
	before := int(c.do("GET", detectionPath, nil).want(200).get("version").(float64))
	a := c.do("PATCH", detectionPath, map[string]any{"version": before, "rules": []any{map[string]any{
		"id": "custom:inv", "name": "Key of inventory", "prefixes": []string{"inv_live_"}}}}).want(200)
	if a.text("rules.0.id") != "custom:inv" || a.text("rules.0.charset") != "alnum" || a.get("rules.0.min") != 16.0 ||
		a.get("rules.0.max") != 128.0 || a.text("rules.0.left") != "word" || a.text("rules.0.right") != "word" ||
		a.text("rules.0.severity") != "medium" || a.get("rules.0.docs_url") != nil || a.get("rules.0.entropy") != 0.0 ||
		a.get("version") != float64(before+1) || a.text("updated_by") == "" || a.text("updated_at") == "" {
		t.Errorf("answer %s", a.raw)
	}
	if again := c.do("GET", detectionPath, nil).want(200); string(again.raw) != string(a.raw) {
		t.Errorf("read %s, want %s", again.raw, a.raw)
	}
	// what was read can be sent back and changes nothing
	if again := c.do("PATCH", detectionPath, string(a.raw)).want(200); again.get("version") != a.get("version") {
		t.Errorf("sent back: %s", again.raw)
	}
	c.do("PATCH", detectionPath, map[string]any{"version": before, "rules": []any{}}).wantError(400, "conflict", "version")
	c.as(readKey).do("PATCH", detectionPath, `{}`).wantError(403, "insufficient_scope", "")
	c.as(readKey).do("GET", detectionPath, nil).want(200)
	a = c.do("PATCH", detectionPath, `{"rulse":1}`).want(200)
	is.Has(t, a.text("warnings.0.message"), "rules", "warnings of %s", a.raw)
}

// Errors name the member of the rule.
func TestDetectionRulesAreValidated(t *testing.T) {
	c := newClient(t)
	defer c.noRules()
	key := "gh" + "p_" + strings.Repeat("Q7w8E9r0t", 4)
	for rule, param := range map[string]string{
		`{"name":"x","prefixes":["inv_"]}`:                                                    "rules[0].id",
		`{"id":"custom:x","prefixes":["inv_"]}`:                                               "rules[0].name",
		`{"id":"custom:x","name":"x"}`:                                                        "rules[0].prefixes",
		`{"id":"custom:x","name":"x","prefixes":[]}`:                                          "rules[0].prefixes",
		`{"id":"inv","name":"x","prefixes":["inv_"]}`:                                         "rules[0].id",
		`{"id":"custom:x","name":"x","prefixes":["inv_",7]}`:                                  "rules[0].prefixes[1]",
		`{"id":"custom:x","name":"x","prefixes":["inv_","i"]}`:                                "rules[0].prefixes[1]",
		`{"id":"custom:x","name":"x","prefixes":["` + key + `"]}`:                             "rules[0].prefixes[0]",
		`{"id":"custom:x","name":"x","prefixes":["req_"],"min":8}`:                            "rules[0].prefixes",
		`{"id":"custom:x","name":"x","prefixes":["inv_"],"charset":"alphanum"}`:               "rules[0].charset",
		`{"id":"custom:x","name":"x","prefixes":["inv_"],"min":4}`:                            "rules[0].min",
		`{"id":"custom:x","name":"x","prefixes":["inv_"],"max":12}`:                           "rules[0].max",
		`{"id":"custom:x","name":"x","prefixes":["inv_"],"left":"any"}`:                       "rules[0].left",
		`{"id":"custom:x","name":"x","prefixes":["inv_"],"entropy":7}`:                        "rules[0].entropy",
		`{"id":"custom:x","name":"x","prefixes":["inv_"],"severity":"urgent"}`:                "rules[0].severity",
		`{"id":"custom:x","name":"x","prefixes":["inv_"],"docs_url":"http://a.b"}`:            "rules[0].docs_url",
		`{"id":"custom:x","name":"x","prefixes":["inv_"]},"custom:y"`:                         "rules[1]",
		`{"id":"custom:x","name":"x","prefixes":["inv_"],"docs_url":"https://a/` + key + `"}`: "rules[0].docs_url",
	} {
		c.do("PATCH", detectionPath, `{"rules":[`+rule+`]}`).wantError(400, "invalid_request", param)
	}
	a := c.do("PATCH", detectionPath, `{"rules":[{"id":"custom:x","name":"x `+key+`","prefixes":["inv_"]}]}`).want(200)
	if strings.Contains(string(a.raw), key) || a.text("warnings.0.param") != "rules[0].name" {
		t.Errorf("a secret in a name: %s", a.raw)
	}
}

// A text is tried with the saved rules, or with those of the request. The answer has no secret. A reader may not ask.
func TestTryDetectionRules(t *testing.T) {
	c := newClient(t)
	defer c.noRules()
	own, known := "inv_live_"+strings.Repeat("a1B2c3d4", 4), "gh"+"p_"+strings.Repeat("Q7w8E9r0", 5)
	text := map[string]any{"text": "first\n" + own + "\n" + known}
	try := func() *answer { return c.do("POST", detectionPath+"/try", text).want(200) }
	c.as(readKey).do("POST", detectionPath+"/try", "{").wantError(403, "insufficient_scope", "")
	if a := try(); a.get("total") != 1.0 || a.text("matches.0.rule") != "github-token" || a.get("matches.0.line") != 3.0 {
		t.Errorf("before there is a rule: %s", a.raw)
	}
	rules := []any{map[string]any{"id": "custom:inv", "name": "Key of inventory", "prefixes": []string{"inv_live_"},
		"severity": "low"}}
	text["rules"] = rules
	a := try()
	delete(text, "rules")
	c.do("PATCH", detectionPath, map[string]any{"rules": rules}).want(200)
	if saved := try(); string(saved.raw) != string(a.raw) {
		t.Errorf("with saved rules %s, with rules of the request %s", saved.raw, a.raw)
	}
	if a.get("total") != 2.0 || a.text("matches.0.rule") != "custom:inv" ||
		a.text("matches.0.name") != "Key of inventory" || a.text("matches.0.severity") != "low" ||
		a.get("matches.0.line") != 2.0 || a.text("matches.1.severity") != "high" ||
		!strings.HasPrefix(a.text("masked"), "first\ninv_live***") || strings.Contains(string(a.raw), own[10:20]) ||
		strings.Contains(string(a.raw), known[5:15]) {
		t.Errorf("answer %s", a.raw)
	}
	many := c.do("POST", detectionPath+"/try", map[string]any{"text": strings.Repeat(known+" ", 60)}).want(200)
	if many.get("total") != 60.0 || len(many.get("matches").([]any)) != 50 {
		t.Errorf("60 secrets: %.200s", many.raw)
	}
	c.do("POST", detectionPath+"/try", `{"text":"x","rules":[{}]}`).wantError(400, "invalid_request", "rules[0].id")
	c.do("POST", detectionPath+"/try", `{}`).wantError(400, "invalid_request", "text")
	c.do("POST", detectionPath+"/try", map[string]any{"text": strings.Repeat("a", 17000)}).
		wantError(400, "invalid_request", "text")
	c.do("POST", detectionPath+"/try", text, "Idempotency-Key", "once").want(200)
	if a := c.do("POST", detectionPath+"/try", text, "Idempotency-Key", "once").want(200); a.Header.Get(
		"Idempotent-Replayed") == "true" {
		t.Error("the answer was remembered")
	}
}

// A finding has the present name of its rule, and the last known one when the rule is deleted.
func TestFindingsKeepTheNameOfADeletedRule(t *testing.T) {
	c := newClient(t)
	defer c.noRules()
	name := c.finding(func(f *leak.Finding) { f.Rule, f.RuleName, f.Fingerprint = "custom:inv", "Old name", "" })
	c.do("PATCH", detectionPath, map[string]any{"rules": []any{map[string]any{"id": "custom:inv", "name": "New name",
		"prefixes": []string{"inv_live_"}, "docs_url": "https://wiki.example.com/keys"}}}).want(200)
	if a := c.do("GET", "/v1/findings/"+name, nil).want(200); a.text("name") != "New name" ||
		a.text("docs_url") != "https://wiki.example.com/keys" {
		t.Errorf("finding %s", a.raw)
	}
	c.do("PATCH", detectionPath, `{"rules":null}`).want(200)
	if a := c.do("GET", "/v1/findings/"+name, nil).want(200); a.text("name") != "Old name" || a.get("docs_url") != nil {
		t.Errorf("after the rule was deleted: %s", a.raw)
	}
}
