// Package expr evaluates conditions and values over an event, written in the Common Expression Language
// (https://cel.dev): total, without I/O, bounded in time and memory.
//
// An expression sees these variables:
//
//	body     the JSON body; null for a body that is none
//	headers  map(string, string) by lower-case name; lines with one name are joined with ", " (RFC 9110, 5.2)
//	query    map(string, string) of the ingest URL, the first value of each name
//	type     string; "" for an event without a type
//	event    map: id, source, received_at (timestamp), tenant ("" = the account), verified (bool)
//
// and the functions of the standard, of optional values (body.?amount.orValue(0)), and of the extensions strings,
// math and encoders of cel-go. It differs from the standard in numbers, as JSON has one kind of them: an operand of the
// event may be compared and calculated with any other, and a division is that of real numbers. A number that no
// operator touches keeps its text: 1.0, 1e400, integers of any length.
//
// Begin reading at Compile.
package expr

import (
	"fmt"
	"strings"
	"sync"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
	"cel.dev/cel-go/ext"
)

// Bounds of an expression, and of one evaluation.
const (
	MaxText  = 4 << 10 // bytes
	maxNodes = 500
	maxDepth = 32
	// maxCost bounds the steps of one evaluation as cel-go counts them: one for each operation, and one for ten bytes of a
	// text. All take some 50 ms.
	maxCost = 150_000
	// maxScan bounds the bytes of the body that one evaluation reads: each object and array once, within those that it is
	// in.
	// To look at an element counts as comparison bytes.
	maxScan    = 64 << 20
	comparison = 512
	// MaxResult bounds a result as JSON, in bytes. The last value of the event in it may exceed that.
	MaxResult = 256 << 10
)

// Error says what is wrong with an expression, or why it has no value for an event.
type Error struct {
	Line, Column int // from 1; 0: unknown
	Message      string
}

func (e *Error) Error() string {
	if e.Line == 0 {
		return e.Message
	}
	return fmt.Sprintf("line %d, column %d: %s", e.Line, e.Column, e.Message)
}

// Missing reports whether the expression reads a member that the event does not have.
func (e *Error) Missing() bool {
	return strings.HasPrefix(e.Message, noKey) || strings.HasPrefix(e.Message, noIndex)
}

// What cel-go calls a member that is missing.
const (
	noKey   = "no such key"
	noIndex = "index out of bounds"
)

const tooLong = "takes too many steps"

// Program is a compiled expression. Many may evaluate it at once.
type Program struct {
	run  cel.Program
	tree *cel.Ast
	text string
}

// environment declares what an expression may use.
var environment = sync.OnceValues(func() (*cel.Env, error) {
	stringMap := cel.MapType(cel.StringType, cel.StringType)
	options := []cel.EnvOption{
		cel.Variable("body", cel.DynType),
		cel.Variable("headers", stringMap),
		cel.Variable("query", stringMap),
		cel.Variable("type", cel.StringType),
		cel.Variable("event", cel.MapType(cel.StringType, cel.DynType)),
		cel.OptionalTypes(), ext.Strings(), ext.Math(), ext.Encoders(),
		cel.CrossTypeNumericComparisons(true),
		cel.ParserExpressionSizeLimit(MaxText), cel.ParserRecursionLimit(maxDepth),
	}
	return cel.NewEnv(append(options, mixedOverloads()...)...)
})

// Compile compiles an expression whose value is of the type want: [Bool], [Text] or [Any]. Its error is an [*Error].
func Compile(text string, want Type) (*Program, error) {
	env, err := environment()
	if err != nil {
		return nil, err
	}
	if text == "" {
		return nil, &Error{Message: "is empty"}
	}
	if len(text) > MaxText {
		return nil, &Error{Message: fmt.Sprintf("is longer than %d bytes", MaxText)}
	}
	tree, issues := env.Compile(text)
	if err := firstOf(issues); err != nil {
		return nil, err
	}
	if out := tree.OutputType(); want.cel != nil && !out.IsExactType(cel.DynType) && !out.IsExactType(want.cel) {
		return nil, &Error{1, 1, fmt.Sprintf("is %s, but must be %s", cel.FormatCELType(out), want.name)}
	}
	n := newNumbers(tree)
	if n.nodes > maxNodes {
		return nil, &Error{Message: fmt.Sprintf("has more than %d parts", maxNodes)}
	}
	if n.fault != "" {
		return nil, &Error{Message: n.fault}
	}
	run, err := env.Program(tree, cel.EvalOptions(cel.OptOptimize), cel.CostLimit(maxCost),
		cel.CustomDecoratorV2(n.decorate))
	if err != nil {
		return nil, &Error{Message: err.Error()}
	}
	return &Program{run, tree, text}, nil
}

// Type is what an expression must evaluate to.
type Type struct {
	cel  *cel.Type
	name string
}

// Types of results.
var (
	Bool = Type{cel.BoolType, "bool"}
	Text = Type{cel.StringType, "string"}
	Any  = Type{}
)

// firstOf is the first fault that the compiler found.
func firstOf(issues *cel.Issues) error {
	if issues.Err() == nil {
		return nil
	}
	first := issues.Errors()[0]
	message := strings.NewReplacer("undeclared reference", "unknown name", " (in container '')", "").Replace(first.Message)
	return &Error{first.Location.Line(), first.Location.Column() + 1, message}
}

// evaluate returns the value of the expression for an event. Its error is an [*Error].
func (p *Program) evaluate(in *Input) (value ref.Val, err error) {
	in.spent = 0
	value, _, err = p.run.Eval(in)
	if in.spent > maxScan {
		return nil, &Error{Message: tooLong}
	}
	if err == nil {
		return value, nil
	}
	fault := &Error{Message: err.Error()}
	if failed, ok := value.(*types.Err); ok {
		if at := p.tree.NativeRep().SourceInfo().GetStartLocation(failed.NodeID()); at.Line() > 0 {
			fault.Line, fault.Column = at.Line(), at.Column()+1
		}
	}
	if strings.Contains(fault.Message, "cost limit exceeded") {
		fault.Message = tooLong
	}
	return nil, fault
}

// Bool returns the value of an expression compiled as [Bool].
func (p *Program) Bool(in *Input) (bool, error) {
	value, err := p.evaluate(in)
	if err != nil {
		return false, err
	}
	if b, ok := value.(types.Bool); ok {
		return bool(b), nil
	}
	return false, wrongType(value, Bool)
}

// Text returns the value of an expression compiled as [Text].
func (p *Program) Text(in *Input) (string, error) {
	value, err := p.evaluate(in)
	if err != nil {
		return "", err
	}
	if s, ok := value.(types.String); ok {
		return string(s), nil
	}
	return "", wrongType(value, Text)
}

func wrongType(value ref.Val, want Type) error {
	return &Error{1, 1, fmt.Sprintf("is %s, but must be %s", plain(value).Type().TypeName(), want.name)}
}
