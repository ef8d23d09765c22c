package endpoints

import (
	"cmp"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/eventrelay/relay/api/wire"
	"github.com/eventrelay/relay/dashboard/model"
	"github.com/eventrelay/relay/dashboard/ui"
	"github.com/eventrelay/relay/pkg/config"
	"github.com/eventrelay/relay/pkg/config/retry"
	"github.com/eventrelay/relay/pkg/notify"
	"github.com/eventrelay/relay/pkg/verify"
	"github.com/eventrelay/relay/pkg/web"
)

// endpointForm is a form of an endpoint that is saved on its own page.
type endpointForm struct {
	page, tab string // name of the template, and path of the page below that of the endpoint
	values    func(*model.Endpoint) url.Values
	body      func(*ui.Form, url.Values, *model.Endpoint) map[string]any
}

var (
	settingsForm = endpointForm{"endpoint-settings", "/settings", settingsValues, settingsBody}
	retriesForm  = endpointForm{"endpoint-retries", "/retries", retryValues, retryBody}
)

// show shows the page with the stored values.
func (x endpointForm) show(v *ui.Visit, e *model.Endpoint) error {
	return x.draw(v, e, ui.EditForm(x.values(e)))
}

// draw shows the page with a form.
func (x endpointForm) draw(v *ui.Visit, e *model.Endpoint, f *ui.Form) error {
	p := newEndpointPage(e)
	p.Tab, p.Form, p.Choices = e.Path()+x.tab, f, settingsChoices(verifyNothing)
	p.Open, p.Warnings = f.Param == "confirm", e.Warnings
	return v.Page(x.page, p)
}

// save saves the form and shows its page again if it is stale, rejected, or saved with warnings.
func (x endpointForm) save(v *ui.Visit, f *ui.Form, e *model.Endpoint) error {
	stored, after, back := x.values(e), &model.Endpoint{}, e.Path()+x.tab
	e.Warnings = nil
	return v.Save(ui.Saving{Form: f, Stored: stored, Body: x.body(f, stored, e), Call: "PATCH " + endpointAPI,
		Out: after, Back: back, Again: func() error { return x.draw(v, e, f) }, Then: func() error {
			if len(after.Warnings) > 0 {
				return x.show(v, after)
			}
			return v.Redirect(back, "Saved")
		}})
}

// verifyNothing is the choice not to verify signatures.
var verifyNothing = ui.Option{Value: modeOff, Text: "Do not verify",
	Hint: "Anyone who knows the ingest URL can send events."}

// rotateURL gives the endpoint another ingest URL.
func rotateURL(v *ui.Visit, f *ui.Form, e *model.Endpoint) error {
	body := ui.Object{"overlap_seconds": ui.AsNumber(f.Value("overlap_seconds"))}
	if err := v.Do("POST "+endpointAPI+"/rotate-token", f, body, nil); err != nil {
		return err
	}
	message := "The ingest URL is new. The old one has ended."
	if n, err := strconv.ParseFloat(f.Value("overlap_seconds"), 64); err == nil && n > 0 {
		message = "The ingest URL is new. The old one works for " + ui.DurationText(n) + " more."
	}
	return v.Redirect(e.Path(), message)
}

// deleteEndpoint deletes the endpoint in the path if its name was typed.
func deleteEndpoint(v *ui.Visit, f *ui.Form, e *model.Endpoint) error {
	if strings.TrimSpace(f.Value("confirm")) != strings.TrimSpace(ui.Plain(e.Name)) {
		shown := ui.EditForm(settingsValues(e))
		v.Refused(shown, ui.Fault("confirm", "The endpoint was not deleted: the name differs from %s",
			ui.Plain(e.Name)))
		return settingsForm.draw(v, e, shown)
	}
	if err := v.Do("DELETE "+endpointAPI, f, nil, nil); err != nil {
		return err
	}
	return v.Redirect(ui.EndpointsPath, "Endpoint deleted. Its events stay listed until their retention ends.")
}

// ProviderSigns reports whether the provider signs its requests.
func (p *endpointPage) ProviderSigns() bool {
	preset := presetOf(p.Provider)
	return preset != nil && preset.Signs()
}

// Confirm is the form that deletes the endpoint.
func (p *endpointPage) Confirm() *ui.Form {
	if p.Form != nil && p.Form.Param == "confirm" {
		return p.Form
	}
	return nil
}

// newEndpoint is the data of the pages that create an endpoint.
type newEndpoint struct {
	*endpointPage
	Presets []*verify.Scheme
	Preset  *verify.Scheme // the chosen one; nil: first choose one
}

// newEndpointForm shows the providers, and when one is chosen its form.
func newEndpointForm(v *ui.Visit) error {
	p := newEndpoint{Presets: verify.Listed(), endpointPage: &endpointPage{}}
	provider := v.R.URL.Query().Get("provider")
	if provider == "" {
		return v.Page("endpoint-new", p)
	}
	if p.Preset = presetOf(provider); p.Preset == nil {
		return web.Missing("There is no such provider. Choose one of the list, or the one for another signature.")
	}
	values := createValues(p.Preset)
	if p.Preset.SecretIsOurs {
		values.Set(useGenerated, "true")
	}
	p.show(ui.NewForm(values, ""))
	return v.Page("endpoint-new", p)
}

// show makes the page show a form.
func (p *newEndpoint) show(f *ui.Form) {
	offerSecret(f, p.Preset)
	p.Endpoint, p.Form = newSettings(p.Preset), f
	p.Choices = settingsChoices(ui.Option{Value: modeOff, Text: "Do not verify yet", Hint: "For a provider " +
		"that shows its secret only once it has the URL: the next page asks for it. Until then anyone who knows the ingest " +
		"URL can send events."})
	inFront := strings.Fields("name destinations store_only verification.secret verification.mode " +
		signatureTexts[0].Names)
	p.Open = f.Param != "" && !slices.Contains(inFront, f.Param)
}

// createValues returns the defaults of a new endpoint's form.
func createValues(p *verify.Scheme) url.Values {
	values := settingsValues(newSettings(p))
	values.Set("destinations", "")
	if p.SecretLater {
		values.Set("verification.mode", modeOff)
	}
	return values
}

// A form for a secret that people choose themselves holds a random one, which is used if they ask for that: a form that
// is sent twice then sends the same.
const (
	generatedSecret = "generated"
	useGenerated    = "generate"
)

// newProviderSecret returns a random secret of 256 bits in hexadecimal digits.
func newProviderSecret() string {
	secret := make([]byte, 32)
	rand.Read(secret)
	return hex.EncodeToString(secret)
}

// offerSecret puts a random secret into a form that has none: a page that was left has lost it.
func offerSecret(f *ui.Form, p *verify.Scheme) {
	if p.SecretIsOurs && f.Value(generatedSecret) == "" {
		f.Values.Set(generatedSecret, newProviderSecret())
	}
}

// takeGenerated puts the random secret into a form that asks for it, and returns it. A secret that was entered is used
// instead, and none is needed where signatures are not verified.
func takeGenerated(f *ui.Form) string {
	secret := f.Value(generatedSecret)
	if f.Value(useGenerated) != "true" || secret == "" || f.Value("verification.secret") != "" ||
		f.Value("verification.mode") == modeOff {
		return ""
	}
	f.Values.Set("verification.secret", secret)
	return secret
}

// created is the data of the page that shows secrets: after an endpoint or a destination was created, or a secret
// rotated.
type created struct {
	*endpointPage
	Title   string
	Preset  *verify.Scheme
	Secrets []model.Destination // with Signing.Secret
	// ProviderSecret is the one to enter at the provider, if it was generated.
	ProviderSecret string
	// Repeated says that the form was sent before, so its secrets have been shown.
	Repeated bool
	Next     string // path of the page to go on with
	NextText string
}

// createEndpoint creates an endpoint and shows the signing secrets of its destinations, once.
func createEndpoint(v *ui.Visit, f *ui.Form) error {
	p := newEndpoint{Presets: verify.Listed(), Preset: presetOf(f.Value("provider")), endpointPage: &endpointPage{}}
	if p.Preset == nil {
		return web.Invalid("", "The form names no provider. Open the page again and choose one.")
	}
	e := &model.Endpoint{}
	generated := takeGenerated(f)
	err := unusableSecret(f, p.Preset)
	if err == nil {
		body := settingsBody(f, createValues(p.Preset), newSettings(p.Preset))
		body["provider"], body["destinations"] = p.Preset.Name, newDestinations(f)
		err = nameLine(v.Do("POST /v1/endpoints", f, body, e))
	}
	return v.Answer(f, err, func() error {
		p.show(f)
		return v.Page("endpoint-new", p)
	}, func() error {
		page := newEndpointPage(e)
		page.Warnings = e.Warnings
		return v.Page("endpoint-created", created{endpointPage: page, Title: "Created " + e.Name, Preset: p.Preset,
			Secrets: e.Destinations, ProviderSecret: generated, Repeated: v.Replayed, Next: e.Path() + "/wait",
			NextText: "Next: connect the provider"})
	})
}

// unusableSecret says why a new endpoint would not verify signatures although nobody has chosen that, nil if it would:
// a page that is shown again has lost the secret that was entered.
func unusableSecret(f *ui.Form, p *verify.Scheme) error {
	given, off := f.Value("verification.secret") != "", f.Value("verification.mode") == modeOff
	switch {
	case !p.Signs() || given != off:
		return nil
	case off:
		return ui.Fault("verification.mode", "With a secret choose enforce or observe, or leave the secret empty")
	}
	return ui.Fault("verification.secret", "The secret is missing. Enter it, or choose Do not verify yet")
}

// newDestinations are the destinations of a new endpoint, one a line, disabled if it only stores events.
func newDestinations(f *ui.Form) []any {
	all := []any{}
	for _, address := range ui.AsLines(f.Value("destinations")) {
		if f.Value("store_only") == "true" {
			all = append(all, map[string]any{"url": address, "enabled": false})
		} else {
			all = append(all, address)
		}
	}
	return all
}

// nameLine makes an error at a destination name the line of the field that holds all of them.
func nameLine(err error) error {
	const list = "destinations["
	if e, ok := errors.AsType[*ui.APIError](err); ok && strings.HasPrefix(e.Param, list) {
		index, _, _ := strings.Cut(e.Param[len(list):], "]")
		e.Param, e.Message = "destinations", "line "+ui.LineNumber(index)+": "+e.Message
	}
	return err
}

// presetOf returns the provider of that name, nil if there is none.
func presetOf(provider string) *verify.Scheme {
	if s := verify.ByName(provider); s.Name == provider {
		return s
	}
	return nil
}

// modeOff is the choice not to verify signatures, beside the modes of the API, and not to validate events.
const modeOff = "off"

// settingsFields are the settings of an endpoint.
var settingsFields = append(ui.FieldTable{
	{ui.TextField, "name provider validate response.content_type response.body"},
	{ui.OptionalText, "description type_source alerts.muted_until"},
	{ui.Checkbox, "scan_payloads alerts.enabled"},
	{ui.NumberField, "response.status"},
	{ui.OptionalNumber, "ingest_limit.events_per_second ingest_limit.bytes_per_second alerts.consecutive_failures " +
		"alerts.failure_rate_percent"},
}, stateGroup.table()...)

// stateGroup is the fields that the page shows as config.EndpointSettings has them.
var stateGroup = groupOf[config.EndpointSettings]("")

// StateFields is that group with a form.
func (p *endpointPage) StateFields() settingGroup { return stateGroup.in(p.Form, false) }

// dedupFields are the settings of the search for duplicates.
var dedupFields = ui.FieldTable{{ui.TextField, "dedup.key"}, {ui.NumberField, "dedup.window_seconds"}}

// signatureTexts are the settings of a configurable signature.
var signatureTexts = ui.FieldTable{{ui.TextField,
	"verification.header verification.algorithm verification.encoding " +
		"verification.prefix verification.signed_content"}}

// otherSettings are the fields that settingsBody reads one by one. The secret and the box beside it are shown empty.
var otherSettings = ui.FieldTable{
	{ui.TextField, "verification.mode verification.secret verification.keep"},
	{ui.NumberField, "verification.tolerance_seconds"}, {ui.JSONField, "metadata"},
}

// settingsValues returns what the fields of an endpoint's settings show. Their names are the API's parameters.
func settingsValues(e *model.Endpoint) url.Values {
	shown := *e
	shown.Validate = cmp.Or(shown.Validate, modeOff) // a new one has none yet
	if shown.Verification == nil {
		shown.Verification = &wire.Verification{Mode: modeOff, ToleranceSeconds: int(verify.DefaultTolerance.Seconds())}
	}
	if shown.Dedup == nil {
		shown.Dedup = &config.Dedup{WindowSeconds: 86400}
	}
	values := url.Values{}
	for _, t := range []ui.FieldTable{settingsFields, dedupFields, signatureTexts, otherSettings,
		sourceGroup.table(), reconcileGroup.table()} {
		for name, value := range t.Values(&shown) {
			values[name] = value
		}
	}
	if values["alerts.channels"] = e.Alerts.Channels; e.Alerts.Channels == nil {
		values["alerts.channels"] = notify.KindNames()
	}
	return values
}

// newSettings are the defaults of an endpoint of that provider.
func newSettings(p *verify.Scheme) *model.Endpoint {
	e := &model.Endpoint{Endpoint: wire.Endpoint{Provider: p.Name, ScanPayloads: true,
		Alerts: wire.EndpointAlerts{Enabled: true}, EndpointSettings: config.NewEndpointSettings(p.Name)}}
	if p.TypeSource != "" {
		e.TypeSource = &p.TypeSource
	}
	if p.Dedup != "" {
		e.Dedup = &config.Dedup{Key: p.Dedup, WindowSeconds: 86400}
	}
	if p.Signs() {
		e.Verification = &wire.Verification{Mode: "enforce", ToleranceSeconds: int(verify.DefaultTolerance.Seconds())}
		if p.Configurable() {
			e.Verification.Mode = "observe"
		}
	}
	return e
}

// settingsBody returns the members of an endpoint that a form changes.
func settingsBody(f *ui.Form, stored url.Values, e *model.Endpoint) map[string]any {
	x := ui.NewEdit(f, stored)
	x.Set(settingsFields)
	if limit, ok := x.Body["ingest_limit"]; ok && limit != nil && x.Value("ingest_limit.events_per_second") == "" &&
		x.Value("ingest_limit.bytes_per_second") == "" {
		x.Body["ingest_limit"] = nil
	}
	setSource(x)
	switch is, was := x.Value("dedup.key") != "", stored.Get("dedup.key") != ""; {
	case is && was:
		x.Set(dedupFields)
	case is:
		x.Body["dedup"] = dedupFields.All(f)["dedup"]
	case was:
		x.Body["dedup"] = nil
	}
	if x.Changed("metadata") {
		x.Body["metadata"] = withNulls(ui.AsJSONOrNull(x.Value("metadata")), e.Metadata)
	}
	if x.Changed("alerts.channels") {
		chosen := []string{}
		for _, name := range notify.KindNames() {
			if f.Has("alerts.channels", name) {
				chosen = append(chosen, name)
			}
		}
		if x.Put("alerts.channels", chosen); len(chosen) == len(notify.KindNames()) {
			x.Put("alerts.channels", nil) // also those that come later
		}
	}
	setVerification(x, e)
	return x.Body
}

// setVerification sets how signatures are verified. A stored secret stays unless the form has another. The API refuses
// a secret beside "do not verify", which would be lost.
func setVerification(x *ui.Edit, e *model.Endpoint) {
	const name = "verification"
	provider, mode, secret := x.Value("provider"), x.Value(name+".mode"), x.Value(name+".secret")
	if mode == modeOff && secret == "" || !verify.ByName(provider).Signs() {
		if e.Verification != nil && e.ID != "" {
			x.Body[name] = nil
		}
		return
	}
	texts := map[string]any{}
	if verify.ByName(provider).Configurable() {
		texts, _ = signatureTexts.Changes(x.F, x.Stored)[name].(map[string]any)
	}
	if len(texts) == 0 && secret == "" && !x.Changed("provider", name+".mode", name+".tolerance_seconds") {
		return
	}
	v := map[string]any{"type": provider, "mode": mode,
		"tolerance_seconds": ui.AsNumber(ui.SecondsOf(x.Value(name + ".tolerance_seconds")))}
	switch {
	case secret == "":
	case x.Value(name+".keep") == "true" && e.Verification != nil:
		v["secrets"] = []string{secret, mask + e.Verification.SecretLast4}
	default:
		v["secret"] = secret
	}
	for text, value := range texts {
		v[text] = value
	}
	x.Body[name] = v
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
func settingsChoices(off ui.Option) map[string][]ui.Option {
	modes := []ui.Option{
		{Value: "enforce", Text: "Enforce", Hint: "A request without a valid signature gets 401. It is stored as rejected " +
			"and not delivered."},
		{Value: "observe", Text: "Observe", Hint: "Every request is delivered, marked with what its signature came to."},
	}
	if off.Value != "" {
		modes = append(modes, off)
	}
	var providers []ui.Option
	for _, p := range verify.Listed() {
		providers = append(providers, ui.Option{Value: p.Name, Text: p.Label})
	}
	return map[string][]ui.Option{
		"provider":          providers,
		"verification.mode": modes,
		"verification.algorithm": append([]ui.Option{{Value: "", Text: "sha256 (default)"}},
			ui.PlainOptions(verify.Algorithms()...)...),
		"verification.encoding": append([]ui.Option{{Value: "", Text: "hex (default)"}},
			ui.PlainOptions(verify.Encodings()...)...),
		"response.content_type": ui.PlainOptions("application/json", "text/plain", "text/xml", "application/xml"),
		"alerts.channels":       channelOptions(),
		"validate": {{Value: modeOff, Text: "Off"}, {Value: "warn", Text: "Warn: accept and mark"},
			{Value: "reject", Text: "Reject: refuse what is sent, mark what is received"}},
		"retry_policy.strategy": ui.PlainOptions(retry.StrategyNames()...),
	}
}

// channelOptions are the kinds of channels with their names on pages.
func channelOptions() (options []ui.Option) {
	for _, k := range notify.Kinds() {
		options = append(options, ui.Option{Value: string(k.Kind), Text: model.ChannelTexts[k.Kind].Title})
	}
	return options
}

// retryFields are the members of every retry policy, strategyFields those of one strategy.
var retryFields = append(ui.FieldTable{{ui.TextField, "retry_policy.strategy"}}, retryGroup.table()...)

// retryGroup is the fields of every retry policy.
var retryGroup = groupOf[retry.Policy]("retry_policy")

// RetryFields is that group with a form.
func (p *endpointPage) RetryFields() settingGroup { return retryGroup.in(p.Form, false) }

func strategyFields(s retry.Strategy) (t ui.FieldTable) {
	for _, m := range s.Members {
		read := ui.NumberField
		if _, isList := m.Field(&retry.Policy{}).(*[]int); isList {
			read = ui.NumbersField
		}
		t = append(t, ui.FieldTable{{read, "retry_policy." + m.Name}}...)
	}
	return t
}

// retryValues returns what the fields of a retry policy show.
func retryValues(e *model.Endpoint) url.Values {
	t := retryFields
	for _, s := range retry.Strategies() {
		t = append(t[:len(t):len(t)], strategyFields(s)...)
	}
	return t.Values(e)
}

// retryBody returns the members of a retry policy that a form changes. An empty field of another strategy is not sent:
// the strategy then begins with its defaults.
func retryBody(f *ui.Form, stored url.Values, _ *model.Endpoint) map[string]any {
	x := ui.NewEdit(f, stored)
	x.Set(retryFields)
	chosen := x.Value("retry_policy.strategy")
	for _, s := range retry.Strategies() {
		for _, row := range strategyFields(s) {
			kept := s.Name == chosen && s.Name == stored.Get("retry_policy.strategy")
			if strings.TrimSpace(x.Value(row.Names)) != "" || kept {
				x.Set(ui.FieldTable{row})
			}
		}
	}
	return x.Body
}
