package dashboard

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/eventrelay/relay/api/wire"
	"github.com/eventrelay/relay/pkg/verify"
	"github.com/eventrelay/relay/pkg/web"
)

// The workbench edits the transformation of an endpoint and shows, step by step, what it does to a sample. A preview
// stores nothing and sends nothing, so a read person may use it.

const workbenchPath = endpointPath + "/workbench"

// maxSamples is how many events of the endpoint are offered as samples.
const maxSamples = 20

// maxSampleType bounds the type of an event in the list of samples, in bytes: the list must fit into a narrow window.
const maxSampleType = 16

// maxShownOutput is how much of a result the page shows, in bytes.
const maxShownOutput = 64 << 10

// workbenchPage is the page of an endpoint's transformation.
type workbenchPage struct {
	*endpointPage
	Samples     []option
	Unavailable string // why no events are offered; empty: they are
	Versions    []wire.KeptTransformationVersion
	Loaded      int // the earlier version whose operations are in the form; 0: none
	Preview     *previewData
	Saved       bool   // the previewed operations are those in use
	Output      string // of the preview, indented
	OutputCut   bool
	Confirm     string // what a save must repeat, because the sample fails; empty: nothing
}

// workbenchValues are the stored values of the form: one operation a line.
func workbenchValues(e *endpointData) url.Values {
	return url.Values{"transformation": {operationLines(e.Transformation)}}
}

// operationLines is a transformation as the form shows it.
func operationLines(x *wire.Transformation) string {
	if x == nil {
		return ""
	}
	lines := make([]string, len(x.Ops))
	for i, op := range x.Ops {
		lines[i] = "  " + strings.TrimSuffix(string(web.Encode(op)), "\n")
	}
	return "[\n" + strings.Join(lines, ",\n") + "\n]"
}

// operations is the entered text as JSON; null without text.
func operations(text string) json.RawMessage {
	if text = strings.TrimSpace(text); text == "" {
		return json.RawMessage("null")
	}
	return json.RawMessage(text)
}

// syntaxFault says where a text is no JSON.
func syntaxFault(text string) error {
	var v any
	err := json.Unmarshal(operations(text), &v)
	at, ok := errors.AsType[*json.SyntaxError](err)
	if !ok {
		return nil
	}
	before := strings.TrimSpace(text)
	before = before[:min(int(at.Offset), len(before))]
	return fault("transformation", "the text is no JSON: line %d: %s", 1+strings.Count(before, "\n"), at.Error())
}

// exampleText is what the provider of an endpoint sends, as the text of a sample.
func exampleText(provider string) string {
	scheme := verify.ByName(provider)
	values := verify.SampleValues{Type: scheme.Sample.Type, ID: strings.Repeat("0", 26), At: time.Unix(exampleTime, 0)}
	body := []byte(values.Fill(scheme.Sample.Body))
	if !json.Valid(body) {
		return exampleText(verify.Generic) // the provider sends no JSON
	}
	return indented(body)
}

// exampleTime is the time in an example, in Unix seconds: 2026-01-01.
const exampleTime = 1_767_225_600

// newWorkbenchPage returns the page with the newest events as samples. In a new form the newest is chosen, or an
// example of the provider if there is none.
func newWorkbenchPage(v *visit, e *endpointData, f *form) (*workbenchPage, error) {
	p := &workbenchPage{endpointPage: newEndpointPage(e)}
	p.Tab, p.Form = e.Path()+"/workbench", f
	if e.TransformationVersion > 0 {
		list, err := readRows[wire.KeptTransformationVersion](v, endpointAPI+"/transformation/versions", nil)
		if err != nil {
			return nil, err
		}
		p.Versions = list.Data
	}
	if !f.values.Has("sample_text") {
		f.values.Set("sample_text", exampleText(e.Provider))
	}
	p.Samples = []option{{Value: "", Text: "the text below"}}
	return p, p.offerEvents(v)
}

// offerEvents offers the last events of the endpoint as samples.
func (p *workbenchPage) offerEvents(v *visit) error {
	f := p.Form
	var list wire.List[*eventRow]
	var err error
	query := url.Values{"endpoint_id": {p.ID}, "limit": {fmt.Sprint(maxSamples)}}
	if p.Unavailable, err = v.tryGet("/v1/events", query, &list); err != nil {
		return err
	}
	for _, ev := range list.Data {
		text := shortID(ev.ID)
		if ev.Type != nil {
			text = truncate(*ev.Type, maxSampleType)
		}
		text = v.moment(ev.ReceivedAt).Clock + ", " + text
		p.Samples = append(p.Samples, option{Value: ev.ID, Text: text})
	}
	if !f.values.Has("sample") && len(list.Data) > 0 {
		f.values.Set("sample", list.Data[0].ID)
	}
	chosen := f.Value("sample")
	if chosen != "" && !slices.ContainsFunc(p.Samples, func(o option) bool { return o.Value == chosen }) {
		p.Samples = append(p.Samples, option{Value: chosen, Text: shortID(chosen)})
	}
	return nil
}

// load puts the operations of an earlier version into the form: saving them makes a new version.
func (p *workbenchPage) load(version string) {
	for _, x := range p.Versions {
		if strconv.Itoa(x.Version) == version && x.Version != p.TransformationVersion && x.Restorable {
			p.Loaded = x.Version
			p.Form.values.Set("transformation", operationLines(x.Transformation))
		}
	}
}

// shortID is the end of an id, by which people tell events of one list apart.
func shortID(id string) string { return "…" + id[max(len(id)-8, 0):] }

// operationAt matches a parameter of one operation.
var operationAt = regexp.MustCompile(`^transformation(?:\.ops)?\[(\d+)\]\.?(.*)$`)

// atOperation makes an error of the API about one operation one of the field with all of them. Operations are counted
// from 1, as on the page.
func atOperation(err error) error {
	x, ok := errors.AsType[*apiError](err)
	if !ok {
		return err
	}
	if rest, ok := strings.CutPrefix(x.Param, "ops"); ok {
		x.Param = "transformation" + rest
	}
	if m := operationAt.FindStringSubmatch(x.Param); m != nil {
		x.Param, x.Message = "transformation", "operation "+lineNumber(m[1])+": "+strings.TrimSpace(m[2]+" "+x.Message)
	}
	return err
}

// showWorkbench shows the saved operations, or with ?version= those of an earlier version. With ?sample= it previews
// them with that event, such as one whose delivery has failed.
func showWorkbench(v *visit, e *endpointData) error {
	values := workbenchValues(e)
	f := editForm(values)
	sample := v.r.URL.Query().Get("sample")
	if sample != "" {
		f.values.Set("sample", sample)
	}
	p, err := newWorkbenchPage(v, e, f)
	if err != nil {
		return err
	}
	p.load(v.r.URL.Query().Get("version"))
	if sample != "" {
		if err := p.preview(v); err != nil {
			return err
		}
	}
	return v.page("endpoint-workbench", p)
}

// previewWorkbench previews what is entered and keeps it in the form.
func previewWorkbench(v *visit, f *form, e *endpointData) error {
	p, err := newWorkbenchPage(v, e, f)
	if err != nil {
		return err
	}
	if err := p.preview(v); err != nil {
		return err
	}
	return v.page("endpoint-workbench", p)
}

// preview asks the API for a preview of the form and shows its errors at their field.
func (p *workbenchPage) preview(v *visit) error {
	p.Form.ReadOnly = true
	var preview *previewData
	err := syntaxFault(p.Form.Value("transformation"))
	if err == nil {
		preview, err = p.requestPreview(v)
	}
	nothing := func() error { return nil }
	return v.answer(p.Form, atOperation(err), nothing, func() error {
		p.show(preview)
		return nil
	})
}

// requestPreview asks the API for a preview of the form.
func (p *workbenchPage) requestPreview(v *visit) (*previewData, error) {
	text := strings.TrimSpace(p.Form.Value("transformation"))
	body := map[string]any{"ops": operations(text)}
	if text == "" || text == "null" {
		body["ops"] = []any{}
	}
	if sample := p.Form.Value("sample"); sample != "" {
		body["sample"] = sample
	} else {
		body["sample_text"] = unixLines(p.Form.Value("sample_text"))
	}
	preview := &previewData{}
	return preview, v.send("POST", endpointAPI+"/transformation/preview", body, "", preview)
}

// asksAgain reports whether the operations fail on the sample, and nobody has confirmed that they are to be saved all
// the same. It shows the failure. A preview that cannot be made stops nobody from saving.
func (p *workbenchPage) asksAgain(v *visit) bool {
	f := p.Form
	text := strings.TrimSpace(f.Value("transformation"))
	noSample := f.Value("sample") == "" && strings.TrimSpace(f.Value("sample_text")) == ""
	if noSample || text == "" || text == "null" || text == "[]" {
		return false
	}
	preview, err := p.requestPreview(v)
	if err != nil || preview.Error == nil {
		return false
	}
	confirm := fingerprint(url.Values{"transformation": {unixLines(f.Value("transformation"))},
		"sample": {f.Value("sample")}, "sample_text": {unixLines(f.Value("sample_text"))}})
	if f.Value("confirmed") == confirm {
		return false
	}
	p.show(preview)
	p.Confirm = confirm
	return true
}

// show puts a preview on the page: a failure at its operation.
func (p *workbenchPage) show(preview *previewData) {
	p.Preview = preview
	p.Saved = unixLines(p.Form.Value("transformation")) == operationLines(p.Transformation)
	if f := preview.Error; f != nil && f.Index != nil && *f.Index < len(preview.Steps) {
		preview.Steps[*f.Index].Failure = f
	}
	if preview.OutputText != nil {
		text := indented([]byte(*preview.OutputText))
		p.Output, p.OutputCut = truncate(text, maxShownOutput), len(text) > maxShownOutput
	}
}

// saveWorkbench saves the operations as a new version.
func saveWorkbench(v *visit, f *form, e *endpointData) error {
	p, err := newWorkbenchPage(v, e, f)
	if err != nil {
		return err
	}
	again := func() error { return v.page("endpoint-workbench", p) }
	stored := workbenchValues(e)
	text := unixLines(f.Value("transformation"))
	if text == stored.Get("transformation") {
		return v.redirect(p.Tab, f.unchanged(stored))
	}
	if status, stale := f.isStale(stored); stale {
		v.status = status
		return again()
	}
	after := &endpointData{}
	if err = syntaxFault(text); err == nil {
		if p.asksAgain(v) {
			return again()
		}
		err = atOperation(v.do("PATCH "+endpointAPI, f, members{"transformation": operations(text)}, after))
	}
	return v.answer(f, err, again, func() error {
		if len(after.Warnings) == 0 {
			return v.redirect(p.Tab, fmt.Sprintf("Version %d is saved. It applies to every attempt from now on.",
				after.TransformationVersion))
		}
		if p, err = newWorkbenchPage(v, after, editForm(workbenchValues(after))); err != nil {
			return err
		}
		p.Warnings = after.Warnings
		return again()
	})
}

// previewData is a preview.
type previewData struct {
	wire.TransformationPreview
	Steps []stepData `json:"steps"`
}

// stepData is what one operation did.
type stepData struct {
	wire.TransformationStep
	Failure *wire.Failure `json:"-"` // of this operation
}

// placeText is a place in a document.
func placeText(pointer string) string {
	if pointer == "" {
		return "the whole document"
	}
	return pointer
}
