package endpoints

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/eventrelay/relay/api/wire"
	"github.com/eventrelay/relay/dashboard/model"
	"github.com/eventrelay/relay/dashboard/ui"
	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/transform"
	"github.com/eventrelay/relay/pkg/verify"
	"github.com/eventrelay/relay/pkg/web"
)

// The workbench edits the transformation of an endpoint, or of one destination (the parameter of), and shows, step by
// step, what it does to a sample. A preview stores nothing and sends nothing, so a read person may use it.

const workbenchPath = ui.EndpointPath + "/workbench"

// maxSamples is how many events of the endpoint are offered as samples.
const maxSamples = 20

// maxSampleType bounds the type of an event in the list of samples, in bytes: the list must fit into a narrow window.
const maxSampleType = 16

// maxShownOutput is how much of a result the page shows, in bytes.
const maxShownOutput = 64 << 10

// workbenchPage is the page of the transformation of an endpoint or a destination.
type workbenchPage struct {
	*endpointPage
	Of          *model.Destination // nil: the endpoint
	Version     int                // the newest
	Samples     []ui.Option
	Unavailable string // why no events are offered; empty: they are
	Versions    []wire.KeptTransformationVersion
	Loaded      int // the earlier version whose operations are in the form; 0: none
	Preview     *previewData
	Saved       bool        // the previewed operations are those in use
	Bodies      []shownBody // of the preview: before and after, or the result alone
	Confirm     string      // what a save must repeat, because the sample fails; empty: nothing
}

// inUse is the transformation that the page edits; nil: there is none, or that of the endpoint is in use.
func (p *workbenchPage) inUse() *wire.Transformation {
	if p.Of != nil {
		return p.Of.Transformation
	}
	return p.Transformation
}

// InUse says what is in use.
func (p *workbenchPage) InUse() string {
	switch x := p.inUse(); {
	case x != nil && len(x.Ops) > 0:
		return fmt.Sprintf("version %d is in use", p.Version)
	case x == nil && p.Of != nil:
		return "that of the endpoint is in use"
	}
	return "none: deliveries are as they are stored"
}

// values are the stored values of the form: one operation a line.
func (p *workbenchPage) values() url.Values {
	return url.Values{"transformation": {operationLines(p.inUse())}}
}

// Self is the path of the page.
func (p *workbenchPage) Self() string {
	if p.Of == nil {
		return p.Path() + "/workbench"
	}
	return ui.WithQuery(p.Path()+"/workbench", nil, "of", p.Of.ID)
}

// PathOf is the page with the operations of an earlier version.
func (p *workbenchPage) PathOf(version int) string {
	query := url.Values{}
	if p.Of != nil {
		query.Set("of", p.Of.ID)
	}
	return ui.WithQuery(p.Path()+"/workbench", query, "version", strconv.Itoa(version))
}

// Others are the pages of the endpoint and its destinations.
func (p *workbenchPage) Others() []ui.MenuItem {
	all := []ui.MenuItem{{Path: p.Path() + "/workbench", Name: "All destinations"}}
	for i := range p.Destinations {
		d := &p.Destinations[i]
		all = append(all, ui.MenuItem{Path: ui.WithQuery(p.Path()+"/workbench", nil, "of", d.ID), Name: d.Title()})
	}
	return all
}

// operationLines is a transformation as the form shows it.
func operationLines(x *wire.Transformation) string {
	switch {
	case x == nil:
		return ""
	case len(x.Ops) == 0:
		return "[]"
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
	return ui.Fault("transformation", "the text is no JSON: line %d: %s", 1+strings.Count(before, "\n"), at.Error())
}

// exampleText is what the provider of an endpoint sends, as the text of a sample.
func exampleText(provider string) string {
	scheme := verify.ByName(provider)
	values := verify.SampleValues{Type: scheme.Sample.Type, ID: strings.Repeat("0", 26), At: time.Unix(exampleTime, 0)}
	body := []byte(values.Fill(string(scheme.Sample.Body)))
	if !json.Valid(body) {
		return exampleText(verify.Generic) // the provider sends no JSON
	}
	return ui.Indented(body)
}

// exampleTime is the time in an example, in Unix seconds: 2026-01-01.
const exampleTime = 1_767_225_600

// newWorkbenchPage returns the page with the newest events as samples. Without a form it has the saved operations. In a
// new form the newest event is chosen, or an example of the provider if there is none.
func newWorkbenchPage(v *ui.Visit, e *model.Endpoint, f *ui.Form) (*workbenchPage, error) {
	p := &workbenchPage{endpointPage: newEndpointPage(e)}
	p.Tab = e.Path() + "/workbench"
	of := v.R.URL.Query().Get("of")
	if f != nil {
		of = f.Value("of")
	}
	var query url.Values
	if p.Of = e.Destination(of); p.Of != nil {
		query = url.Values{"destination_id": {of}}
	}
	if f == nil {
		f = ui.EditForm(p.values())
		f.Values.Set("of", of)
	}
	p.Form = f
	if e.TransformationVersion > 0 || p.Of != nil {
		list, err := ui.ReadRows[wire.KeptTransformationVersion](v, endpointAPI+"/transformation/versions", query)
		if err != nil {
			return nil, err
		}
		if p.Versions = list.Data; len(p.Versions) > 0 {
			p.Version = p.Versions[0].Version
		}
	}
	if !f.Values.Has("sample_text") {
		f.Values.Set("sample_text", exampleText(e.Provider))
	}
	p.Samples = []ui.Option{{Value: "", Text: "the text below"}}
	return p, p.offerEvents(v)
}

// offerEvents offers the last events of the endpoint as samples.
func (p *workbenchPage) offerEvents(v *ui.Visit) error {
	f := p.Form
	var list wire.List[*model.EventRow]
	var err error
	query := url.Values{"endpoint_id": {p.ID}, "limit": {fmt.Sprint(maxSamples)}}
	if p.Unavailable, err = v.TryGet("/v1/events", query, &list); err != nil {
		return err
	}
	for _, ev := range list.Data {
		text := ui.ShortID(ev.ID)
		if ev.Type != nil {
			text = ui.Truncate(*ev.Type, maxSampleType)
		}
		text = v.Moment(ev.ReceivedAt).Clock + ", " + text
		p.Samples = append(p.Samples, ui.Option{Value: ev.ID, Text: text})
	}
	if sample := v.R.URL.Query().Get("sample"); sample != "" && !f.Values.Has("sample") {
		f.Values.Set("sample", sample)
	}
	if !f.Values.Has("sample") && len(list.Data) > 0 {
		f.Values.Set("sample", list.Data[0].ID)
	}
	chosen := f.Value("sample")
	if chosen != "" && !slices.ContainsFunc(p.Samples, func(o ui.Option) bool { return o.Value == chosen }) {
		p.Samples = append(p.Samples, ui.Option{Value: chosen, Text: ui.ShortID(chosen)})
	}
	return nil
}

// load puts the operations of an earlier version into the form: saving them makes a new version.
func (p *workbenchPage) load(version string) {
	for _, x := range p.Versions {
		if strconv.Itoa(x.Version) == version && x.Version != p.Version && x.Restorable {
			p.Loaded = x.Version
			p.Form.Values.Set("transformation", operationLines(x.Transformation))
		}
	}
}

// operationAt matches a parameter of one operation.
var operationAt = regexp.MustCompile(`^transformation(?:\.ops)?\[(\d+)\]\.?(.*)$`)

// atOperation makes an error of the API about one operation one of the field with all of them. Operations are counted
// from 1, as on the page.
func atOperation(err error) error {
	x, ok := errors.AsType[*ui.APIError](err)
	if !ok {
		return err
	}
	if rest, ok := strings.CutPrefix(x.Param, "ops"); ok {
		x.Param = "transformation" + rest
	}
	if m := operationAt.FindStringSubmatch(x.Param); m != nil {
		x.Param, x.Message = "transformation", "operation "+ui.LineNumber(m[1])+": "+strings.TrimSpace(m[2]+" "+x.Message)
	}
	return err
}

// showWorkbench shows the saved operations, or with ?version= those of an earlier version. With ?sample= it previews
// them with that event, such as one whose delivery has failed.
func showWorkbench(v *ui.Visit, e *model.Endpoint) error {
	sample := v.R.URL.Query().Get("sample")
	p, err := newWorkbenchPage(v, e, nil)
	if err != nil {
		return err
	}
	p.load(v.R.URL.Query().Get("version"))
	if sample != "" {
		if err := p.preview(v); err != nil {
			return err
		}
	} else if len(p.Rows()) > 0 { // what it does is seen at once; without an answer it can be asked for
		if preview, err := p.requestPreview(v, p.Form.Value("transformation")); err == nil {
			p.show(v, preview)
		}
	}
	return v.Page("endpoint-workbench", p)
}

// previewWorkbench previews what is entered and keeps it in the form.
func previewWorkbench(v *ui.Visit, f *ui.Form, e *model.Endpoint) error {
	applyRow(f)
	p, err := newWorkbenchPage(v, e, f)
	if err != nil {
		return err
	}
	p.Open = f.Value(rowButton) == "" // whoever edits the JSON goes on there
	if err := p.preview(v); err != nil {
		return err
	}
	return v.Page("endpoint-workbench", p)
}

// preview asks the API for a preview of the form and shows its errors at their field.
func (p *workbenchPage) preview(v *ui.Visit) error {
	p.Form.ReadOnly = true
	var preview *previewData
	err := syntaxFault(p.Form.Value("transformation"))
	if err == nil {
		preview, err = p.requestPreview(v, p.Form.Value("transformation"))
	}
	nothing := func() error { return nil }
	return v.Answer(p.Form, atOperation(err), nothing, func() error {
		p.show(v, preview)
		return nil
	})
}

// requestPreview asks the API what operations make of the sample of the form.
func (p *workbenchPage) requestPreview(v *ui.Visit, text string) (*previewData, error) {
	text = strings.TrimSpace(text)
	body := map[string]any{"ops": operations(text)}
	switch {
	case (text == "" || text == "null") && p.Of != nil && p.Transformation != nil:
		body["ops"] = p.Transformation.Ops // of the endpoint
	case text == "" || text == "null":
		body["ops"] = []any{}
	}
	if sample := p.Form.Value("sample"); sample != "" {
		body["sample"] = sample
	} else {
		body["sample_text"] = ui.UnixLines(p.Form.Value("sample_text"))
	}
	preview := &previewData{}
	return preview, v.Send("POST", endpointAPI+"/transformation/preview", body, "", preview)
}

// asksAgain reports whether the operations fail on the sample, and nobody has confirmed that they are to be saved all
// the same. It shows the failure. A preview that cannot be made stops nobody from saving.
func (p *workbenchPage) asksAgain(v *ui.Visit) bool {
	f := p.Form
	text := strings.TrimSpace(f.Value("transformation"))
	noSample := f.Value("sample") == "" && strings.TrimSpace(f.Value("sample_text")) == ""
	if noSample || text == "" || text == "null" || text == "[]" {
		return false
	}
	preview, err := p.requestPreview(v, p.Form.Value("transformation"))
	if err != nil || preview.Error == nil {
		return false
	}
	confirm := ui.Fingerprint(url.Values{"transformation": {ui.UnixLines(f.Value("transformation"))},
		"sample": {f.Value("sample")}, "sample_text": {ui.UnixLines(f.Value("sample_text"))}})
	if f.Value("confirmed") == confirm {
		return false
	}
	p.show(v, preview)
	p.Confirm = confirm
	return true
}

// show puts a preview on the page: a failure at its operation, and the body before and after.
func (p *workbenchPage) show(v *ui.Visit, preview *previewData) {
	p.Preview = preview
	p.Saved = ui.UnixLines(p.Form.Value("transformation")) == operationLines(p.inUse())
	if f := preview.Error; f != nil && f.Index != nil && *f.Index < len(preview.Steps) {
		preview.Steps[*f.Index].Failure = f
	}
	p.Bodies = nil
	if preview.OutputText == nil {
		return
	}
	if before := p.before(v); before != "" && len(preview.Steps) > 0 {
		p.Bodies = append(p.Bodies, newShownBody("Before", before))
	}
	p.Bodies = append(p.Bodies, newShownBody("Result", *preview.OutputText))
}

// before is the sample as the operations get it. That of an event is what no operation makes of it: the API masks its
// credentials.
func (p *workbenchPage) before(v *ui.Visit) string {
	if p.Form.Value("sample") == "" {
		return ui.UnixLines(p.Form.Value("sample_text"))
	}
	x, err := p.requestPreview(v, "[]")
	if err != nil || x.OutputText == nil {
		return ""
	}
	return *x.OutputText
}

// ChangesNothing reports whether there are operations, and none changes the sample.
func (p *workbenchPage) ChangesNothing() bool {
	x := p.Preview
	return len(x.Steps) > 0 && len(x.Headers) == 0 && x.Path+x.Method == "" && !x.Cancelled &&
		!slices.ContainsFunc(x.Steps, func(s stepData) bool { return s.ChangedTotal > 0 })
}

// shownBody is a body as the page shows it, indented.
type shownBody struct {
	Name, Text string
	Cut        bool // only the beginning is shown
}

func newShownBody(name, body string) shownBody {
	text := ui.Indented([]byte(body))
	return shownBody{name, ui.Truncate(text, maxShownOutput), len(text) > maxShownOutput}
}

// saveWorkbench saves the operations as a new version.
func saveWorkbench(v *ui.Visit, f *ui.Form, e *model.Endpoint) error {
	p, err := newWorkbenchPage(v, e, f)
	if err != nil {
		return err
	}
	again := func() error { return v.Page("endpoint-workbench", p) }
	stored := p.values()
	text := ui.UnixLines(f.Value("transformation"))
	if text == stored.Get("transformation") {
		return v.Redirect(p.Self(), f.Unchanged(stored))
	}
	if f.IsStale(v, stored) {
		return again()
	}
	after, call := &model.Endpoint{}, "PATCH "+endpointAPI
	var answer any = after
	if p.Of != nil {
		call, answer = call+"/destinations/"+p.Of.ID, &struct {
			Warnings *[]wire.Warning `json:"warnings"`
		}{&after.Warnings}
	}
	if err = syntaxFault(text); err == nil {
		if p.asksAgain(v) {
			return again()
		}
		err = atOperation(v.Do(call, f, ui.Object{"transformation": operations(text)}, answer))
	}
	return v.Answer(f, err, again, func() error {
		if len(after.Warnings) == 0 {
			return v.Redirect(p.Self(), fmt.Sprintf("Version %d is saved. It applies to every attempt from now on.",
				p.Version+1))
		}
		warnings := after.Warnings
		if e, err = readEndpoint(v); err != nil {
			return err
		}
		if p, err = newWorkbenchPage(v, e, nil); err != nil {
			return err
		}
		p.Warnings = warnings
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

// The operations of the workbench are a JSON array in a text field. The rows above it are the same operations in words:
// one is added from three fields, removed or moved up by a button, and each of these previews.

// rowButton is the name of those buttons: add, or an action and the number of an operation.
const (
	rowButton = "row"
	addRow    = "add"
	removeRow = "remove "
	raiseRow  = "raise "
)

// Bounds of the paths of the sample that the form offers: their number, the bytes of each, and how deep it looks.
const (
	maxOfferedPaths = 100
	maxOfferedPath  = 200
	maxOfferedDepth = 32
)

// operationRow is one operation as a sentence.
type operationRow struct {
	Index int
	Text  string
}

// applyRow does what a button of the rows asks for. A text that is no array of objects is left as it is: the preview
// says what is wrong with it.
func applyRow(f *ui.Form) {
	var ops []json.RawMessage
	if json.Unmarshal(operations(f.Value("transformation")), &ops) != nil {
		return
	}
	button := f.Value(rowButton)
	if button == addRow {
		ops = append(ops, newOperation(f))
		for _, name := range []string{"row_path", "row_to"} {
			f.Values.Del(name)
		}
	}
	for _, action := range []string{removeRow, raiseRow} {
		text, found := strings.CutPrefix(button, action)
		i, err := strconv.Atoi(text)
		if !found || err != nil || i < 0 || i >= len(ops) {
			continue
		}
		op := ops[i]
		if ops = slices.Delete(ops, i, i+1); action == raiseRow {
			ops = slices.Insert(ops, max(i-1, 0), op)
		}
	}
	lines := make([]string, len(ops))
	for i, op := range ops {
		lines[i] = "  " + string(op)
	}
	if f.Values.Set("transformation", "[\n"+strings.Join(lines, ",\n")+"\n]"); len(ops) == 0 {
		f.Values.Set("transformation", "")
	}
}

// newOperation is the operation of the three fields. The API says what is missing.
func newOperation(f *ui.Form) json.RawMessage {
	op, place, to := f.Value("row_op"), strings.TrimSpace(f.Value("row_path")), strings.TrimSpace(f.Value("row_to"))
	x := map[string]any{"op": op}
	set := func(name string, value any) {
		if value != "" {
			x[name] = value
		}
	}
	switch op {
	case transform.Rename:
		set("from", place)
		set("to", to)
	case transform.Wrap:
		set("key", to)
		set("at", place)
	case transform.Add:
		set("path", place)
		x["value"] = ui.AsJSONOrNull(to)
	case transform.Set:
		set("path", place)
		set("expr", to)
	case transform.Header:
		set("name", place)
		set("expr", to)
	case transform.Path, transform.Method:
		set("expr", to)
	case transform.Cancel:
		set("when", to)
	default: // pick and drop
		paths := strings.Split(place, ",")
		for i := range paths {
			paths[i] = strings.TrimSpace(paths[i])
		}
		x["paths"] = paths
	}
	return json.RawMessage(strings.TrimSpace(string(web.Encode(x))))
}

// Rows are the operations of the form in words; none if the text is no array of operations.
func (p *workbenchPage) Rows() (rows []operationRow) {
	var ops []transform.Op
	if json.Unmarshal(operations(p.Form.Value("transformation")), &ops) != nil {
		return nil
	}
	for i, op := range ops {
		text := op.Op
		switch op.Op {
		case transform.Rename:
			text += " " + op.From + " to " + op.To
		case transform.Wrap:
			text += " " + op.At + " in " + op.Key
		case transform.Add:
			text += " " + op.Path
		case transform.Set, transform.Header, transform.Path, transform.Method, transform.Cancel:
			text = strings.TrimRight(text+" "+op.Name+op.Path, " ") + ": " + op.Expr + op.When
		default:
			text += " " + strings.Join(op.Paths, ", ")
		}
		rows = append(rows, operationRow{i, text})
	}
	return rows
}

// Paths are paths of the result, or of the text of the sample, as JSON Pointers; * stands for every element of an
// array.
func (p *workbenchPage) Paths() (paths []string) {
	texts := []string{p.Form.Value("sample_text")}
	if n := len(p.Bodies); n > 0 && !p.Bodies[n-1].Cut {
		texts = append([]string{p.Bodies[n-1].Text}, texts...)
	}
	for _, text := range texts {
		var value any
		if text != "" && event.JSONDepth([]byte(text)) <= web.MaxDepth && json.Unmarshal([]byte(text), &value) == nil {
			return addPaths(nil, value, "", 0)
		}
	}
	return nil
}

// pointerText escapes a member in a JSON Pointer (RFC 6901, 3).
var pointerText = strings.NewReplacer("~", "~0", "/", "~1")

func addPaths(paths []string, value any, at string, depth int) []string {
	if len(paths) >= maxOfferedPaths || len(at) > maxOfferedPath || depth > maxOfferedDepth {
		return paths
	}
	if at != "" && !slices.Contains(paths, at) {
		paths = append(paths, at)
	}
	switch value := value.(type) {
	case map[string]any:
		for _, name := range slices.Sorted(maps.Keys(value)) {
			if len(name) <= maxOfferedPath {
				paths = addPaths(paths, value[name], at+"/"+pointerText.Replace(name), depth+1)
			}
		}
	case []any:
		if len(value) > 0 {
			paths = addPaths(paths, value[0], at+"/*", depth+1)
		}
	}
	return paths
}
