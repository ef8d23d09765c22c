package dashboard

import (
	"encoding/json"
	"net/url"
	"strconv"
	"strings"

	"github.com/eventrelay/relay/pkg/config"
	"github.com/eventrelay/relay/pkg/notify"
	"github.com/eventrelay/relay/pkg/verify"
)

// modeOff is the choice not to verify signatures, beside the modes of the API.
const modeOff = "off"

// settingsValues returns what the fields of an endpoint's settings show. Their names are the API's parameters.
func settingsValues(e *endpointData) url.Values {
	values := url.Values{}
	set := func(name, value string) { values[name] = []string{value} }
	set("name", e.Name)
	set("description", textOf(e.Description))
	set("provider", e.Provider)
	set("type_source", textOf(e.TypeSource))
	set("enabled", boolText(e.Enabled))
	set("paused", boolText(e.Paused))
	set("scan_payloads", boolText(e.ScanPayloads))
	set("keep_method", boolText(e.KeepMethod))
	set("response.status", strconv.Itoa(e.Response.Status))
	set("response.content_type", e.Response.ContentType)
	set("response.body", e.Response.Body)
	set("dedup.key", "")
	set("dedup.window_seconds", "86400")
	if d := e.Dedup; d != nil {
		set("dedup.key", d.Key)
		set("dedup.window_seconds", strconv.Itoa(d.WindowSeconds))
	}
	set("ingest_limit.events_per_second", "")
	set("ingest_limit.bytes_per_second", "")
	if l := e.IngestLimit; l != nil {
		set("ingest_limit.events_per_second", intText(l.EventsPerSecond))
		set("ingest_limit.bytes_per_second", intText(l.BytesPerSecond))
	}
	set("metadata", "")
	if len(e.Metadata) > 0 {
		set("metadata", jsonText(e.Metadata))
	}
	set("alerts.enabled", boolText(e.Alerts.Enabled))
	values["alerts.channels"] = e.Alerts.Channels
	if e.Alerts.Channels == nil {
		values["alerts.channels"] = notify.KindNames()
	}
	set("alerts.consecutive_failures", intText(e.Alerts.ConsecutiveFailures))
	set("alerts.failure_rate_percent", intText(e.Alerts.FailureRatePercent))
	set("alerts.muted_until", textOf(e.Alerts.MutedUntil))
	setVerification(set, e.Verification)
	return values
}

func setVerification(set func(name, value string), v *verificationData) {
	if v == nil {
		v = &verificationData{Mode: modeOff, ToleranceSeconds: int(verify.DefaultTolerance.Seconds())}
	}
	set("verification.mode", v.Mode)
	set("verification.tolerance_seconds", strconv.Itoa(v.ToleranceSeconds))
	set("verification.header", v.Header)
	set("verification.algorithm", v.Algorithm)
	set("verification.encoding", v.Encoding)
	set("verification.prefix", v.Prefix)
	set("verification.signed_content", v.SignedContent)
	set("verification.secret", "") // write-only
	set("verification.keep", "")
}

// newSettings are the defaults of an endpoint of that provider.
func newSettings(p *preset) *endpointData {
	scheme := verify.ByName(p.Provider)
	e := &endpointData{Provider: p.Provider, Enabled: true, ScanPayloads: true, Alerts: alertsData{Enabled: true},
		Response: config.Response{Status: 200, ContentType: "application/json", Body: `{"received":true}`}}
	if scheme.TypeSource != "" {
		e.TypeSource = &scheme.TypeSource
	}
	if a := scheme.Answer; a != nil {
		e.Response.ContentType, e.Response.Body = a.ContentType, a.Body
	}
	if p.Signs() {
		e.Verification = &verificationData{Mode: "enforce", ToleranceSeconds: int(verify.DefaultTolerance.Seconds())}
		if p.Configurable() {
			e.Verification.Mode = "observe"
		}
	}
	return e
}

// settingsBody returns the members of an endpoint that a form changes.
func settingsBody(f *form, stored url.Values, e *endpointData) map[string]any {
	x := newEdit(f, stored)
	x.set("name", asText)
	x.set("description", asTextOrNull)
	x.set("provider", asText)
	x.set("type_source", asTextOrNull)
	x.set("enabled", asBool)
	x.set("paused", asBool)
	x.set("scan_payloads", asBool)
	x.set("keep_method", asBool)
	x.verification(e)
	x.group("response", map[string]func(string) any{"status": asNumber, "content_type": asText, "body": asText})
	x.groupOrNull("dedup", "key", map[string]func(string) any{"key": asText, "window_seconds": asNumber})
	limit := map[string]func(string) any{"events_per_second": asNumberOrNull, "bytes_per_second": asNumberOrNull}
	if x.group("ingest_limit", limit); x.value("ingest_limit.events_per_second") == "" &&
		x.value("ingest_limit.bytes_per_second") == "" && x.body["ingest_limit"] != nil {
		x.body["ingest_limit"] = nil
	}
	if x.changed("metadata") {
		x.body["metadata"] = withNulls(asJSONOrNull(x.value("metadata")), e.Metadata)
	}
	x.alerts()
	return x.body
}

// group sets an object to those of its members that differ from what is stored.
func (x *edit) group(name string, members map[string]func(string) any) {
	changes := map[string]any{}
	for member, encode := range members {
		if field := name + "." + member; x.changed(field) {
			changes[member] = encode(x.value(field))
		}
	}
	if len(changes) > 0 {
		x.body[name] = changes
	}
}

// groupOrNull is group for an object that is null without its member main.
func (x *edit) groupOrNull(name, main string, members map[string]func(string) any) {
	if x.value(name+"."+main) != "" {
		if x.stored.Get(name+"."+main) != "" {
			x.group(name, members)
			return
		}
		all := map[string]any{}
		for member, encode := range members {
			all[member] = encode(x.value(name + "." + member))
		}
		x.body[name] = all
	} else if x.stored.Get(name+"."+main) != "" {
		x.body[name] = nil
	}
}

// verification sets how signatures are verified. A stored secret stays unless the form has another. The API refuses a
// secret beside "do not verify", which would be lost.
func (x *edit) verification(e *endpointData) {
	const name = "verification"
	provider, mode, secret := x.value("provider"), x.value(name+".mode"), x.value(name+".secret")
	if mode == modeOff && secret == "" || !verify.ByName(provider).Signs() {
		if e.Verification != nil && e.ID != "" {
			x.body[name] = nil
		}
		return
	}
	texts := []string{"header", "algorithm", "encoding", "prefix", "signed_content"}
	custom := verify.ByName(provider).Configurable()
	unchanged := !x.changed("provider", name+".mode", name+".tolerance_seconds")
	for _, text := range texts {
		unchanged = unchanged && (!custom || !x.changed(name+"."+text))
	}
	if unchanged && secret == "" {
		return
	}
	v := map[string]any{"type": provider, "mode": mode,
		"tolerance_seconds": asNumber(x.value(name + ".tolerance_seconds"))}
	switch {
	case secret == "":
	case x.value(name+".keep") == "true" && e.Verification != nil:
		v["secrets"] = []string{secret, mask + e.Verification.SecretLast4}
	default:
		v["secret"] = secret
	}
	for _, text := range texts {
		if custom && x.changed(name+"."+text) {
			v[text] = x.value(name + "." + text)
		}
	}
	x.body[name] = v
}

// mask stands before the last characters of a secret that the API does not show.
const mask = "****"

func (x *edit) alerts() {
	x.group("alerts", map[string]func(string) any{
		"enabled": asBool, "consecutive_failures": asNumberOrNull, "failure_rate_percent": asNumberOrNull,
		"muted_until": asTextOrNull,
	})
	if !x.changed("alerts.channels") {
		return
	}
	changes, _ := x.body["alerts"].(map[string]any)
	if changes == nil {
		changes = map[string]any{}
	}
	chosen := []string{}
	for _, name := range notify.KindNames() {
		if x.f.Has("alerts.channels", name) {
			chosen = append(chosen, name)
		}
	}
	if changes["channels"] = chosen; len(chosen) == len(notify.KindNames()) {
		changes["channels"] = nil // also those that come later
	}
	x.body["alerts"] = changes
}

// withNulls adds null for every stored key that an object does not have: a merge removes it.
func withNulls[T any](object any, stored map[string]T) any {
	raw, _ := object.(json.RawMessage)
	members := map[string]json.RawMessage{}
	if json.Unmarshal(raw, &members) != nil || members == nil {
		return object
	}
	for name := range stored {
		if _, kept := members[name]; !kept {
			members[name] = json.RawMessage("null")
		}
	}
	return members
}

// settingsChoices are the options of the selects.
func settingsChoices() map[string][]option {
	choices := map[string][]option{
		"verification.mode": {
			{Value: "enforce", Text: "Enforce", Hint: "A request without a valid signature gets 401. It is stored as rejected " +
				"and not delivered."},
			{Value: "observe", Text: "Observe", Hint: "Every request is delivered, marked with what its signature came to."},
			{Value: modeOff, Text: "Do not verify", Hint: "Whoever knows the ingest URL can send events."},
		},
		"verification.algorithm": {{Value: "", Text: "sha256 (default)"}},
		"verification.encoding":  {{Value: "", Text: "hex (default)"}},
		"response.content_type":  plainOptions("application/json", "text/plain", "text/xml", "application/xml"),
		"alerts.channels":        channelOptions(),
		"retry_policy.strategy":  plainOptions(config.RetryStrategyNames()...),
	}
	for _, p := range presets {
		choices["provider"] = append(choices["provider"], option{Value: p.Provider, Text: p.Name})
	}
	choices["verification.algorithm"] = append(choices["verification.algorithm"], plainOptions(verify.Algorithms()...)...)
	choices["verification.encoding"] = append(choices["verification.encoding"], plainOptions(verify.Encodings()...)...)
	return choices
}

// channelOptions are the kinds of channels with their names on pages.
func channelOptions() (options []option) {
	for _, k := range notify.Kinds() {
		options = append(options, option{Value: string(k.Kind), Text: channelTexts[k.Kind].Title})
	}
	return options
}

func plainOptions(values ...string) []option {
	options := make([]option, len(values))
	for i, value := range values {
		options[i] = option{Value: value, Text: value}
	}
	return options
}

func textOf(text *string) string {
	if text == nil {
		return ""
	}
	return *text
}

func intText(n *int) string {
	if n == nil {
		return ""
	}
	return strconv.Itoa(*n)
}

func boolText(b bool) string {
	if b {
		return "true"
	}
	return ""
}

// jsonText returns a value as indented JSON.
func jsonText(value any) string {
	var b strings.Builder
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	if err := enc.Encode(value); err != nil {
		return "" // cannot happen: it was decoded from JSON
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// retryValues returns what the fields of a retry policy show.
func retryValues(p *config.RetryPolicy) url.Values {
	const name = "retry_policy."
	values := url.Values{}
	set := func(member, value string) { values[name+member] = []string{value} }
	set("strategy", p.Strategy)
	set("max_attempts", strconv.Itoa(p.MaxAttempts))
	for _, strategy := range config.RetryStrategies() {
		for _, m := range strategy.Members {
			set(m.Name, memberText(m.Field(p)))
		}
	}
	set("jitter", strconv.FormatFloat(p.Jitter, 'f', -1, 64))
	set("respect_retry_after", boolText(p.RespectRetryAfter))
	set("max_retry_after_seconds", strconv.Itoa(p.MaxRetryAfterSeconds))
	set("retry_on", strings.Join(p.RetryOn, ", "))
	return values
}

// memberText returns a member of a retry policy as its field shows it; empty if the policy does not have it.
func memberText(member any) string {
	switch at := member.(type) {
	case *int:
		if *at != 0 {
			return strconv.Itoa(*at)
		}
	case *float64:
		if *at != 0 {
			return strconv.FormatFloat(*at, 'f', -1, 64)
		}
	case *[]int:
		texts := make([]string, len(*at))
		for i, n := range *at {
			texts[i] = strconv.Itoa(n)
		}
		return strings.Join(texts, ", ")
	}
	return ""
}

// retryBody returns the members of a retry policy that a form changes, nil if there are none. An empty field of another
// strategy is not sent: the strategy then begins with its defaults.
func retryBody(f *form, stored url.Values) map[string]any {
	x := newEdit(f, stored)
	x.group("retry_policy", map[string]func(string) any{
		"strategy": asText, "max_attempts": asNumber, "jitter": asNumber, "respect_retry_after": asBool,
		"max_retry_after_seconds": asNumber, "retry_on": func(text string) any { return asWords(text) },
	})
	policy, _ := x.body["retry_policy"].(map[string]any)
	if policy == nil {
		policy = map[string]any{}
	}
	for _, s := range config.RetryStrategies() {
		for _, m := range s.Members {
			field := "retry_policy." + m.Name
			if text := strings.TrimSpace(x.value(field)); x.changed(field) && (text != "" || s.Name == x.value(
				"retry_policy.strategy") && s.Name == stored.Get("retry_policy.strategy")) {
				if policy[m.Name] = asNumber(text); isList(m) {
					policy[m.Name] = asNumbers(text)
				}
			}
		}
	}
	if len(policy) == 0 {
		return nil
	}
	return map[string]any{"retry_policy": policy}
}

// isList reports whether a member of a retry policy is a list of numbers.
func isList(m config.RetryMember) bool {
	_, list := m.Field(&config.RetryPolicy{}).(*[]int)
	return list
}

func asWords(text string) []string { return append([]string{}, asList(text)...) }

func asNumbers(text string) []any {
	numbers := []any{}
	for _, word := range asList(text) {
		numbers = append(numbers, asNumber(word))
	}
	return numbers
}
