package endpoints

import (
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/eventrelay/relay/api/frame"
	"github.com/eventrelay/relay/api/wire"
	"github.com/eventrelay/relay/pkg/audit"
	"github.com/eventrelay/relay/pkg/config"
	"github.com/eventrelay/relay/pkg/expr"
	"github.com/eventrelay/relay/pkg/transform"
	"github.com/eventrelay/relay/pkg/web"
)

func transformationOf(t *config.Transformation) *wire.Transformation {
	if !t.Transforms() {
		return nil
	}
	return &wire.Transformation{Ops: t.Ops}
}

// ownTransformationOf is what a destination has in place of the endpoint's; nil: nothing.
func ownTransformationOf(d *config.Destination) *wire.Transformation {
	own := d.OwnTransformation()
	if own == nil || own.Transforms() {
		return transformationOf(own)
	}
	return &wire.Transformation{Ops: []transform.Op{}}
}

// maxVersionsInEndpoint is how many versions an endpoint shows; listTransformationVersions has all.
const maxVersionsInEndpoint = 20

func transformationVersions(e *config.Endpoint) []wire.TransformationVersion {
	out := []wire.TransformationVersion{}
	if e.Transformation == nil {
		return out
	}
	for i := range e.Transformation.Versions {
		if len(out) == maxVersionsInEndpoint {
			break
		}
		out = append(out, transformationVersionOf(&e.Transformation.Versions[i]))
	}
	return out
}

func transformationVersionOf(v *config.TransformationVersion) wire.TransformationVersion {
	by := audit.ActorOf(v.By, v.Name)
	return wire.TransformationVersion{Version: v.Version, CreatedAt: web.Time(v.At),
		CreatedBy:  wire.AuditActor{Type: by.Type, ID: frame.OrNull(by.ID), Name: frame.OrNull(by.Name)},
		Operations: v.Operations, Inherits: v.Inherits}
}

// listTransformationVersions returns all versions that the endpoint, or a destination of it, keeps, newest first: at
// most 50 on one page.
func (a *endpoints) listTransformationVersions(w http.ResponseWriter, r *http.Request, key *config.Key) error {
	a.CatchUp(r.Context())
	e, err := a.EndpointInPath(r, key)
	if err != nil {
		return err
	}
	q := frame.NewQuery(r, "transformation versions "+frame.ScopeOf(key))
	q.Names = append(q.Names, "destination_id")
	t := e.Transformation
	if name := q.Single("destination_id"); name != "" {
		d := e.Destination(name)
		if d == nil {
			return web.Invalid("destination_id", "is not a destination of this endpoint")
		}
		t = d.Transformation
	}
	if q.RefuseUnknown(); q.Err != nil {
		return q.Err
	}
	out := frame.List[wire.KeptTransformationVersion]{Data: []wire.KeptTransformationVersion{}}
	if t != nil {
		for i := range t.Versions {
			v := wire.KeptTransformationVersion{TransformationVersion: transformationVersionOf(&t.Versions[i])}
			ops, kept := t.OpsOf(v.Version)
			if v.Restorable = kept; len(ops) > 0 && kept {
				v.Transformation = &wire.Transformation{Ops: ops}
			}
			out.Data = append(out.Data, v)
		}
	}
	return web.Answer(w, http.StatusOK, out)
}

// transformation reads the member of an endpoint: {"ops": […]}, the array alone, or null for none. It replaces the
// operations as a whole.
func (in *endpointInput) transformation(o *frame.Object, e *config.Endpoint) {
	raw, ok := o.Raw("transformation")
	if !ok || in.Err != nil {
		return
	}
	ops, _ := transformationOps(&in.Input, o.Param("transformation"), raw)
	if in.Err == nil {
		e.SetTransformation(ops, in.endpoints.Now(), in.by.ID, in.by.Name)
	}
}

// ownTransformation reads the member of a destination, as transformation does. null: it has that of the endpoint; no
// operations: bodies are delivered as they are stored.
func (in *endpointInput) ownTransformation(o *frame.Object, d *config.Destination) {
	path := o.Param("transformation")
	if raw, ok := o.Raw("transformation"); ok && in.Err == nil {
		ops, _ := transformationOps(&in.Input, path, raw)
		if in.Err == nil {
			d.SetTransformation(ops, frame.KindOf(raw) == frame.KindNull, in.endpoints.Now(), in.by.ID, in.by.Name)
		}
	}
	own, kind := d.OwnTransformation(), ""
	if kind, _ = d.Kind(); own == nil || kind == "" && d.HTTPBatch == nil {
		return
	}
	for i, op := range own.Ops {
		if op.Op == transform.Path || op.Op == transform.Method {
			in.Fail(frame.Indexed(path, i), "has no effect: only a webhook without http_batch has a %s", op.Op)
		}
	}
}

// transformationOps reads and compiles the operations in a member of a request.
func transformationOps(in *frame.Input, path string, raw []byte) ([]transform.Op, *transform.Program) {
	switch frame.KindOf(raw) {
	case frame.KindNull:
		return nil, nil
	case frame.KindObject:
		o := in.NewObject(path, raw)
		list, ok := o.RawOfKind("ops", frame.KindArray)
		if !ok {
			o.Fail("ops", "is required: an array of operations")
			return nil, nil
		}
		o.WarnUnknown()
		return readOps(in, o.Param("ops"), list)
	case frame.KindArray:
		return readOps(in, path, raw)
	}
	in.Fail(path, "must be null, an object with ops, or an array of operations")
	return nil, nil
}

// readOps reads an array of operations.
func readOps(in *frame.Input, path string, raw []byte) ([]transform.Op, *transform.Program) {
	elements, err := web.ParseArray(raw, transform.MaxOps)
	if err != nil {
		in.Fail(path, "must have at most %d operations", transform.MaxOps)
		return nil, nil
	}
	ops := make([]transform.Op, len(elements))
	for i, element := range elements {
		readOp(in, frame.Indexed(path, i), element, &ops[i])
	}
	if in.Err != nil {
		return nil, nil
	}
	program, err := transform.Compile(ops)
	if spec, ok := errors.AsType[*transform.SpecError](err); ok {
		in.Fail(path+strings.TrimPrefix(spec.Param, "ops"), "%s", spec.Message)
	}
	return ops, program
}

// isReadable reports whether a common JSON parser can read a value: valid JSON may have numbers beyond a double.
func isReadable(value []byte) bool {
	var v any
	return json.Unmarshal(value, &v) == nil
}

// readOp reads one operation. What it lacks, and what does not belong to its kind, is found by transform.Compile.
func readOp(in *frame.Input, path string, raw []byte, op *transform.Op) {
	o := in.NewObject(path, raw)
	o.Enum("op", &op.Op, transform.Kinds()...)
	o.Text("from", 1, transform.MaxPath, &op.From)
	o.Text("to", 1, transform.MaxPath, &op.To)
	o.Text("at", 1, transform.MaxPath, &op.At)
	o.Text("path", 1, transform.MaxPath, &op.Path)
	o.Text("key", 1, transform.MaxName, &op.Key)
	o.Text("expr", 1, expr.MaxText, &op.Expr)
	o.Text("when", 1, expr.MaxText, &op.When)
	o.Text("name", 1, maxHeaderName, &op.Name)
	o.Enum("on_conflict", &op.OnConflict, transform.ConflictError, transform.ConflictReplace)
	o.Boolean("required", &op.Required)
	for i, path := range o.Array("paths", transform.MaxPaths) {
		name := "paths[" + strconv.Itoa(i) + "]"
		if frame.KindOf(path) != frame.KindString {
			o.Fail(name, "must be %s", frame.KindString)
			return
		}
		text, problem := frame.TextOf(path, 1, transform.MaxPath)
		if problem != "" {
			o.Fail(name, "%s", problem)
		}
		op.Paths = append(op.Paths, text)
	}
	if value, ok := o.Raw("value"); ok {
		op.Value = slices.Clone(value)
		if !isReadable(value) {
			o.Fail("value", "has a number that is larger than JSON parsers can read")
		}
	}
	o.WarnUnknown()
}
