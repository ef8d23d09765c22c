package transform

import (
	"errors"
	"net/http"
	"net/textproto"
	"net/url"
	"slices"
	"strings"

	"golang.org/x/net/http/httpguts"

	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/expr"
	"github.com/eventrelay/relay/pkg/web"
)

// Operations with an expression: set, those that change the request, and cancel.

// Bounds of what they make, in bytes.
const (
	maxHeaderName  = 128
	maxHeaderValue = 1 << 10
	maxPathBytes   = 1 << 10
)

// methods are those that a request may have.
var methods = []string{http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete}

// credentials are headers whose values belong where they are sealed.
var credentials = []string{"Authorization", "Proxy-Authorization", "Cookie"}

// expression compiles the expression of a member.
func (c *compiler) expression(member, text string, want expr.Type) *expr.Program {
	p, err := expr.Compile(text, want)
	switch {
	case text == "":
		c.fail(member, "is required: an expression, such as body.amount > 100")
	case err != nil:
		c.fail(member, "%v", err)
	}
	return p
}

func (c *compiler) set(op *Op, o *operation) {
	o.replace, o.again, o.growth = true, true, MaxValue
	if op.Path != "" {
		c.place(op, o)
	}
	o.expr = c.expression("expr", op.Expr, expr.Any)
}

func (c *compiler) header(op *Op, o *operation) {
	o.name = textproto.CanonicalMIMEHeaderKey(op.Name)
	switch why := web.ReservedHeader(o.name); {
	case !httpguts.ValidHeaderFieldName(op.Name) || len(op.Name) > maxHeaderName:
		c.fail("name", "must be the name of a header: 1 to %d letters, digits and hyphens", maxHeaderName)
	case why != "":
		c.fail("name", "%s", why)
	case slices.Contains(credentials, o.name):
		c.fail("name", "carries a credential: set it in headers of the destination, where it is stored encrypted")
	}
	o.expr = c.expression("expr", op.Expr, expr.Any)
}

// input returns the event as expressions see it. What one of them has read, the next ones find read.
func (r *run) input() *expr.Input {
	if r.event == nil {
		r.event = expr.NewInput(r.in.Event, r.in.Tenant)
	}
	return r.event
}

// without returns the failure of an expression, or nil if the event only lacks what it reads and nothing requires it.
func (r *run) without(err error) error {
	if failure := (*expr.Error)(nil); errors.As(err, &failure) && failure.Missing() && !r.op.required {
		r.warn(func() string { return "nothing is done, because the event lacks what is read: " + failure.Message })
		return nil
	}
	return r.fail(nil, "the expression has no value: %v", err)
}

// setValue places the value of the expression, in place of what is there. Without a path it is the document.
func (r *run) setValue() error {
	text, err := r.op.expr.JSON(r.input())
	if err != nil {
		return r.without(err)
	}
	if most := len(r.in.Event.Body) + MaxValue; len(text) > most {
		return r.fail(nil, "the value has %d bytes, and may have %d: those of the body and %d", len(text), most, MaxValue)
	}
	v := value{text: string(text)}
	if len(r.op.paths) > 0 {
		return r.placeValue(v)
	}
	if err := r.grow(len(text)); err != nil {
		return err
	}
	r.record(Change{Kind: Replaced, Pointer: ""}, &r.root, &v)
	r.root = v
	return nil
}

// cancel ends the delivery if its condition holds. A condition on what the event does not have does not.
func (r *run) cancel() error {
	holds, err := r.op.expr.Bool(r.input())
	if err != nil {
		return r.without(err)
	}
	r.result.Cancelled = holds
	return nil
}

// changeRequest sets a header, the end of the path or the method. A value null sets nothing.
func (r *run) changeRequest() error {
	text, ok, err := r.op.expr.Plain(r.input())
	switch {
	case err != nil:
		return r.without(err)
	case !ok:
		return nil
	}
	switch r.op.kind {
	case Header:
		if !httpguts.ValidHeaderFieldValue(text) || strings.Trim(text, " \t") != text || len(text) > maxHeaderValue ||
			strings.ContainsFunc(text, func(c rune) bool { return c >= 0x80 }) {
			return r.fail(nil, "the value of the header %s must be at most %d printable ASCII characters without spaces at "+
				"the ends", r.op.name, maxHeaderValue)
		}
		field := event.Field{Name: r.op.name, Value: text}
		same := func(f event.Field) bool { return f.Name == field.Name }
		r.result.Header = append(slices.DeleteFunc(r.result.Header, same), field)
	case Path:
		if r.result.Path, ok = escapePath(text); !ok {
			return r.fail(nil, "the path must be names between slashes, such as /orders/7: at most %d bytes, none empty, "+
				"none . or .., no control characters", maxPathBytes)
		}
	case Method:
		if !slices.Contains(methods, text) {
			return r.fail(nil, "the method must be one of %s", strings.Join(methods, ", "))
		}
		r.result.Method = text
	}
	return nil
}

// escapePath returns a path with a slash before and each name escaped, so that it can change neither host nor query. A
// slash at the end stays.
func escapePath(text string) (string, bool) {
	if len(text) > maxPathBytes {
		return "", false
	}
	names := strings.Split(strings.TrimPrefix(text, "/"), "/")
	for i, name := range names {
		last := i == len(names)-1
		if name == "." || name == ".." || name == "" && (!last || i == 0) ||
			strings.ContainsFunc(name, func(c rune) bool { return c < ' ' || c == 0x7f || c == '\\' }) {
			return "", false
		}
		names[i] = url.PathEscape(name)
	}
	return "/" + strings.Join(names, "/"), true
}
