package dashboard

import (
	"encoding/json"
	"net/url"
	"strings"

	"github.com/eventrelay/relay/pkg/config"
	"github.com/eventrelay/relay/pkg/notify"
	"github.com/eventrelay/relay/pkg/verify"
)

// modeOff is the choice not to verify signatures, beside the modes of the API.
const modeOff = "off"

// settingsFields are the settings of an endpoint.
var settingsFields = fieldTable{
	{textField, "name provider response.content_type response.body"},
	{optionalText, "description type_source alerts.muted_until"},
	{checkbox, "enabled paused scan_payloads keep_method alerts.enabled"},
	{numberField, "response.status"},
	{optionalNumber, "ingest_limit.events_per_second ingest_limit.bytes_per_second alerts.consecutive_failures " +
		"alerts.failure_rate_percent"},
}

// dedupFields are the settings of the search for duplicates.
var dedupFields = fieldTable{{textField, "dedup.key"}, {numberField, "dedup.window_seconds"}}

// signatureTexts are the settings of a configurable signature.
var signatureTexts = fieldTable{{textField, "verification.header verification.algorithm verification.encoding " +
	"verification.prefix verification.signed_content"}}

// otherSettings are the fields that settingsBody reads one by one. The secret and the box beside it are shown empty.
var otherSettings = fieldTable{
	{textField, "verification.mode verification.secret verification.keep"},
	{numberField, "verification.tolerance_seconds"}, {jsonField, "metadata"},
}

// settingsValues returns what the fields of an endpoint's settings show. Their names are the API's parameters.
func settingsValues(e *endpointData) url.Values {
	shown := *e
	if shown.Verification == nil {
		shown.Verification = &verificationData{Mode: modeOff, ToleranceSeconds: int(verify.DefaultTolerance.Seconds())}
	}
	if shown.Dedup == nil {
		shown.Dedup = &config.Dedup{WindowSeconds: 86400}
	}
	values := url.Values{}
	for _, t := range []fieldTable{settingsFields, dedupFields, signatureTexts, otherSettings} {
		for name, value := range t.values(&shown) {
			values[name] = value
		}
	}
	if values["alerts.channels"] = e.Alerts.Channels; e.Alerts.Channels == nil {
		values["alerts.channels"] = notify.KindNames()
	}
	return values
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
	x.set(settingsFields)
	if limit, ok := x.body["ingest_limit"]; ok && limit != nil && x.value("ingest_limit.events_per_second") == "" &&
		x.value("ingest_limit.bytes_per_second") == "" {
		x.body["ingest_limit"] = nil
	}
	switch is, was := x.value("dedup.key") != "", stored.Get("dedup.key") != ""; {
	case is && was:
		x.set(dedupFields)
	case is:
		x.body["dedup"] = dedupFields.all(f)["dedup"]
	case was:
		x.body["dedup"] = nil
	}
	if x.changed("metadata") {
		x.body["metadata"] = withNulls(asJSONOrNull(x.value("metadata")), e.Metadata)
	}
	if x.changed("alerts.channels") {
		chosen := []string{}
		for _, name := range notify.KindNames() {
			if f.Has("alerts.channels", name) {
				chosen = append(chosen, name)
			}
		}
		if x.put("alerts.channels", chosen); len(chosen) == len(notify.KindNames()) {
			x.put("alerts.channels", nil) // also those that come later
		}
	}
	x.verification(e)
	return x.body
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
	texts := map[string]any{}
	if verify.ByName(provider).Configurable() {
		texts, _ = signatureTexts.changes(x.f, x.stored)[name].(map[string]any)
	}
	if len(texts) == 0 && secret == "" && !x.changed("provider", name+".mode", name+".tolerance_seconds") {
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
	for text, value := range texts {
		v[text] = value
	}
	x.body[name] = v
}

// mask stands before the last characters of a secret that the API does not show.
const mask = "****"

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

// choices are the options of the selects of an endpoint's forms. The choice not to verify signatures is the last of its
// field: off says it in other words, or leaves it out if it is the zero option.
func settingsChoices(off option) map[string][]option {
	modes := []option{
		{Value: "enforce", Text: "Enforce", Hint: "A request without a valid signature gets 401. It is stored as rejected " +
			"and not delivered."},
		{Value: "observe", Text: "Observe", Hint: "Every request is delivered, marked with what its signature came to."},
	}
	if off.Value != "" {
		modes = append(modes, off)
	}
	providers := make([]option, len(presets))
	for i, p := range presets {
		providers[i] = option{Value: p.Provider, Text: p.Name}
	}
	return map[string][]option{
		"provider":          providers,
		"verification.mode": modes,
		"verification.algorithm": append([]option{{Value: "", Text: "sha256 (default)"}},
			plainOptions(verify.Algorithms()...)...),
		"verification.encoding": append([]option{{Value: "", Text: "hex (default)"}},
			plainOptions(verify.Encodings()...)...),
		"response.content_type": plainOptions("application/json", "text/plain", "text/xml", "application/xml"),
		"alerts.channels":       channelOptions(),
		"retry_policy.strategy": plainOptions(config.RetryStrategyNames()...),
	}
}

// channelOptions are the kinds of channels with their names on pages.
func channelOptions() (options []option) {
	for _, k := range notify.Kinds() {
		options = append(options, option{Value: string(k.Kind), Text: channelTexts[k.Kind].Title})
	}
	return options
}

// retryFields are the members of every retry policy, strategyFields those of one strategy.
var retryFields = fieldTable{
	{textField, "retry_policy.strategy"}, {checkbox, "retry_policy.respect_retry_after"},
	{numberField, "retry_policy.max_attempts retry_policy.jitter retry_policy.max_retry_after_seconds"},
	{wordField, "retry_policy.retry_on"},
}

func strategyFields(s config.RetryStrategy) (t fieldTable) {
	for _, m := range s.Members {
		read := numberField
		if _, isList := m.Field(&config.RetryPolicy{}).(*[]int); isList {
			read = numbersField
		}
		t = append(t, fieldTable{{read, "retry_policy." + m.Name}}...)
	}
	return t
}

// retryValues returns what the fields of a retry policy show.
func retryValues(e *endpointData) url.Values {
	t := retryFields
	for _, s := range config.RetryStrategies() {
		t = append(t[:len(t):len(t)], strategyFields(s)...)
	}
	return t.values(e)
}

// retryBody returns the members of a retry policy that a form changes. An empty field of another strategy is not sent:
// the strategy then begins with its defaults.
func retryBody(f *form, stored url.Values, _ *endpointData) map[string]any {
	x := newEdit(f, stored)
	x.set(retryFields)
	chosen := x.value("retry_policy.strategy")
	for _, s := range config.RetryStrategies() {
		for _, row := range strategyFields(s) {
			kept := s.Name == chosen && s.Name == stored.Get("retry_policy.strategy")
			if strings.TrimSpace(x.value(row.names)) != "" || kept {
				x.set(fieldTable{row})
			}
		}
	}
	return x.body
}
