package endpoints

import (
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/eventrelay/relay/dashboard/frame"
	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/transform"
	"github.com/eventrelay/relay/pkg/web"
)

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
func applyRow(f *frame.Form) {
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
func newOperation(f *frame.Form) json.RawMessage {
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
		x["value"] = frame.AsJSONOrNull(to)
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
