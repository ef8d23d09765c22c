package dashboard

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
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

// transformationData is the transformation of an endpoint as the API returns it.
type transformationData struct {
	Ops []json.RawMessage `json:"ops"`
}

// transformationVersionData says when and by whom a version was made.
type transformationVersionData struct {
	Version   int    `json:"version"`
	CreatedAt string `json:"created_at"`
	CreatedBy struct {
		Type string  `json:"type"`
		ID   *string `json:"id"`
		Name *string `json:"name"`
	} `json:"created_by"`
	Operations int `json:"operations"`
}

// Who names the person or key that made a version.
func (x *transformationVersionData) Who() string {
	by := &x.CreatedBy
	switch {
	case by.Name != nil && *by.Name != "":
		return *by.Name
	case by.ID != nil:
		return *by.ID
	}
	return by.Type
}

// OperationsText says how many operations a version has.
func (x *transformationVersionData) OperationsText() string {
	if x.Operations == 0 {
		return "none: bodies are delivered as they are stored"
	}
	return plural(x.Operations, "operation", "operations")
}

// previewData is a preview as the API returns it.
type previewData struct {
	OK         bool          `json:"ok"`
	OutputText *string       `json:"output_text"`
	Steps      []stepData    `json:"steps"`
	Error      *failureData  `json:"error"`
	BytesIn    int           `json:"bytes_in"`
	BytesOut   int           `json:"bytes_out"`
	Masked     int           `json:"masked"`
	Warnings   []warningData `json:"warnings"`
}

// stepData is what one operation did.
type stepData struct {
	Index        int          `json:"index"`
	Op           string       `json:"op"`
	Changed      []changeData `json:"changed"`
	ChangedTotal int          `json:"changed_total"`
	Warnings     []string     `json:"warnings"`
	Failure      *failureData `json:"-"` // of this operation
}

// changeData is one place that an operation changed.
type changeData struct {
	Change  string  `json:"change"`
	Pointer string  `json:"pointer"`
	From    *string `json:"from"`
	Before  *string `json:"before"`
	After   *string `json:"after"`
}

type failureData struct {
	Index   *int   `json:"index"`
	Pointer string `json:"pointer"`
	Message string `json:"message"`
}

// Number counts operations from 1, as the page does.
func (s *stepData) Number() int { return s.Index + 1 }

// Text says how much an operation changed.
func (s *stepData) Text() string {
	switch {
	case s.Failure != nil:
		return "failed"
	case s.ChangedTotal == 0:
		return "no change"
	case s.ChangedTotal > len(s.Changed):
		return fmt.Sprintf("%d changes, the first %d below", s.ChangedTotal, len(s.Changed))
	}
	return plural(s.ChangedTotal, "change", "changes")
}

// Place is the pointer to the place that changed, with the one where it was if it moved.
func (c *changeData) Place() string {
	if c.From != nil {
		return placeText(*c.From) + " → " + placeText(c.Pointer)
	}
	return placeText(c.Pointer)
}

// Where is the place of a failure.
func (f *failureData) Where() string { return placeText(f.Pointer) }

func placeText(pointer string) string {
	if pointer == "" {
		return "the whole document"
	}
	return pointer
}

// workbenchPage is the page of an endpoint's transformation.
type workbenchPage struct {
	*endpointPage
	Samples     []option
	Unavailable string // why no events are offered; empty: they are
	Preview     *previewData
	Output      string // of the preview, indented
	OutputCut   bool
}

// workbenchValues are the stored values of the form: one operation a line.
func workbenchValues(e *endpointData) url.Values {
	text := ""
	if e.Transformation != nil {
		lines := make([]string, len(e.Transformation.Ops))
		for i, op := range e.Transformation.Ops {
			lines[i] = "  " + string(op)
		}
		text = "[\n" + strings.Join(lines, ",\n") + "\n]"
	}
	return url.Values{"transformation": {text}}
}

// workbenchBody are the members that the form changes.
func workbenchBody(f *form, stored url.Values, _ *endpointData) map[string]any {
	text := f.Value("transformation")
	if unixLines(text) == stored.Get("transformation") {
		return nil
	}
	return map[string]any{"transformation": operations(text)}
}

// operations is the entered text as JSON; null without text.
func operations(text string) json.RawMessage {
	if text = strings.TrimSpace(text); text == "" {
		return json.RawMessage("null")
	}
	return json.RawMessage(text)
}

// syntaxProblem says where a text is no JSON; empty if it is.
func syntaxProblem(text string) string {
	var v any
	err := json.Unmarshal(operations(text), &v)
	at, ok := errors.AsType[*json.SyntaxError](err)
	if !ok {
		return ""
	}
	before := strings.TrimSpace(text)
	before = before[:min(int(at.Offset), len(before))]
	return fmt.Sprintf("the text is no JSON: line %d: %s", 1+strings.Count(before, "\n"), at.Error())
}

// NextVersion is the version that saving makes.
func (p *workbenchPage) NextVersion() int { return p.TransformationVersion + 1 }

// OperationCount is how many operations the endpoint has now.
func (p *workbenchPage) OperationCount() int {
	if p.Transformation == nil {
		return 0
	}
	return len(p.Transformation.Ops)
}

// newWorkbenchPage returns the page with the newest events as samples.
func newWorkbenchPage(v *visit, e *endpointData, f *form) (*workbenchPage, error) {
	p := &workbenchPage{endpointPage: newEndpointPage(e)}
	p.Tab, p.Form = e.Path()+"/workbench", f
	p.Samples = []option{{Value: "", Text: "the text below"}}
	var list struct {
		Data []struct {
			ID         string  `json:"id"`
			Type       *string `json:"type"`
			ReceivedAt string  `json:"received_at"`
		} `json:"data"`
	}
	err := v.get("/v1/events", url.Values{"endpoint_id": {e.ID}, "limit": {fmt.Sprint(maxSamples)}}, &list)
	if x, ok := errors.AsType[*apiError](err); ok && x.isUnavailable() {
		p.Unavailable = sentence(x.Message)
	} else if err != nil {
		return nil, err
	}
	for _, ev := range list.Data {
		text := shortID(ev.ID)
		if ev.Type != nil {
			text = truncate(*ev.Type, maxSampleType)
		}
		if at, err := v.moment(ev.ReceivedAt); err == nil {
			text = at.Clock + ", " + text
		}
		p.Samples = append(p.Samples, option{Value: ev.ID, Text: text})
	}
	chosen := f.Value("sample")
	if chosen != "" && !slices.ContainsFunc(p.Samples, func(o option) bool { return o.Value == chosen }) {
		p.Samples = append(p.Samples, option{Value: chosen, Text: shortID(chosen)})
	}
	return p, nil
}

// shortID is the end of an id, by which people tell events of one list apart.
func shortID(id string) string { return "…" + id[max(len(id)-8, 0):] }

// operationAt matches a parameter of one operation.
var operationAt = regexp.MustCompile(`^transformation(?:\.ops)?\[(\d+)\]\.?(.*)$`)

// reject shows an error of the API at its field. Operations are counted from 1, as on the page.
func (p *workbenchPage) reject(x *apiError) (status int) {
	if m := operationAt.FindStringSubmatch(x.Param); m != nil {
		if n, err := strconv.Atoi(m[1]); err == nil {
			x.Param, x.Message = "transformation", fmt.Sprintf("operation %d: %s", n+1, strings.TrimSpace(m[2]+" "+x.Message))
		}
	}
	return p.Form.reject(x, url.Values{"transformation": nil, "sample": nil, "sample_text": nil})
}

// showWorkbench shows the saved operations. With ?sample= it previews them with that event, such as one whose delivery
// has failed.
func showWorkbench(v *visit) error {
	e, err := readEndpoint(v)
	if err != nil {
		return err
	}
	values := workbenchValues(e)
	f := editForm(values)
	if sample := v.r.URL.Query().Get("sample"); sample != "" {
		f.values.Set("sample", sample)
	}
	p, err := newWorkbenchPage(v, e, f)
	if err != nil {
		return err
	}
	if f.Value("sample") != "" {
		if err := p.preview(v); err != nil {
			return err
		}
	}
	return v.page("endpoint-workbench", p)
}

// previewWorkbench previews what is entered and keeps it in the form.
func previewWorkbench(v *visit) error {
	f, err := v.form()
	if err != nil {
		return err
	}
	e, err := readEndpoint(v)
	if err != nil {
		return err
	}
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
	text := p.Form.Value("transformation")
	if problem := syntaxProblem(text); problem != "" {
		v.status = p.Form.setError(&apiError{Status: http.StatusBadRequest, Param: "transformation", Message: problem})
		return nil
	}
	body := map[string]any{"ops": operations(text)}
	if text := strings.TrimSpace(text); text == "" || text == "null" {
		body["ops"] = []any{}
	}
	if sample := p.Form.Value("sample"); sample != "" {
		body["sample"] = sample
	} else {
		body["sample_text"] = unixLines(p.Form.Value("sample_text"))
	}
	preview := &previewData{}
	err := v.send("POST", p.api()+"/transformation/preview", body, "", preview)
	if x, ok := errors.AsType[*apiError](err); ok && x.Status != http.StatusForbidden && x.Status != http.StatusNotFound {
		if rest, ok := strings.CutPrefix(x.Param, "ops"); ok {
			x.Param = "transformation" + rest
		}
		v.status = p.reject(x)
		return nil
	} else if err != nil {
		return err
	}
	p.show(preview)
	return nil
}

// show puts a preview on the page: a failure at its operation.
func (p *workbenchPage) show(preview *previewData) {
	p.Preview = preview
	if f := preview.Error; f != nil && f.Index != nil && *f.Index < len(preview.Steps) {
		preview.Steps[*f.Index].Failure = f
	}
	if preview.OutputText != nil {
		var indented bytes.Buffer
		if err := json.Indent(&indented, []byte(*preview.OutputText), "", "  "); err != nil {
			indented.WriteString(*preview.OutputText)
		}
		p.OutputCut = indented.Len() > maxShownOutput
		p.Output = truncate(indented.String(), maxShownOutput)
	}
}

// saveWorkbench saves the operations as a new version.
func saveWorkbench(v *visit) error {
	f, err := v.form()
	if err != nil {
		return err
	}
	e, err := readEndpoint(v)
	if err != nil {
		return err
	}
	p, err := newWorkbenchPage(v, e, f)
	if err != nil {
		return err
	}
	stored := workbenchValues(e)
	members := workbenchBody(f, stored, e)
	switch status, stale := f.isStale(stored); {
	case len(members) == 0:
		return v.redirect(p.Tab, f.unchanged(stored))
	case stale:
		v.status = status
		return v.page("endpoint-workbench", p)
	}
	if problem := syntaxProblem(f.Value("transformation")); problem != "" {
		v.status = f.setError(&apiError{Status: http.StatusBadRequest, Param: "transformation", Message: problem})
		return v.page("endpoint-workbench", p)
	}
	after := &endpointData{}
	err = v.send("PATCH", e.api(), members, "", after)
	if x, ok := errors.AsType[*apiError](err); ok && x.Status != http.StatusForbidden && x.Status != http.StatusNotFound {
		v.status = p.reject(x)
		return v.page("endpoint-workbench", p)
	} else if err != nil {
		return err
	}
	if len(after.Warnings) > 0 {
		if p, err = newWorkbenchPage(v, after, editForm(workbenchValues(after))); err != nil {
			return err
		}
		p.Warnings = after.Warnings
		return v.page("endpoint-workbench", p)
	}
	return v.redirect(p.Tab, fmt.Sprintf("Version %d is saved. It applies to every attempt from now on.",
		after.TransformationVersion))
}
