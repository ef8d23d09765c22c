package expr

import (
	"math"
	"strconv"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/ast"
	"cel.dev/cel-go/common/operators"
	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
	"cel.dev/cel-go/common/types/traits"
	"cel.dev/cel-go/interpreter"
)

// number is a JSON number as the event has it. Operators and functions get its value, and what is only passed on keeps
// the text.
type number struct {
	types.Double
	text string
}

// plain returns the value of a number: an integer if it is one of 64 bits, else a double.
func plain(v ref.Val) ref.Val {
	n, ok := v.(number)
	if !ok {
		return v
	}
	if i, err := strconv.ParseInt(n.text, 10, 64); err == nil {
		return types.Int(i)
	}
	if u, err := strconv.ParseUint(n.text, 10, 64); err == nil {
		return types.Uint(u)
	}
	return n.Double
}

var arithmetic = []string{operators.Add, operators.Subtract, operators.Multiply, operators.Divide, operators.Modulo}

// mixedOverloads lets the compiler accept operands of different kinds of numbers. The decorator calculates with them.
func mixedOverloads() (options []cel.EnvOption) {
	kinds := []*cel.Type{cel.IntType, cel.UintType, cel.DoubleType}
	for _, operator := range arithmetic {
		for _, x := range kinds {
			for _, y := range kinds {
				if x != y {
					id := "mixed_" + operator + x.String() + y.String()
					options = append(options, cel.Function(operator,
						cel.Overload(id, []*cel.Type{x, y}, cel.DynType)))
				}
			}
		}
	}
	return options
}

// numbers says which nodes of an expression concern numbers of the event.
type numbers struct {
	nodes int
	fault string         // what the expression may not do
	plain map[int64]bool // they are operands, so their value counts, not their text
	mixed map[int64]bool // calculations whose operands are not of one type that is known
}

func newNumbers(tree *cel.Ast) *numbers {
	n := &numbers{plain: map[int64]bool{}, mixed: map[int64]bool{}}
	native := tree.NativeRep()
	ast.PostOrderVisit(native.Expr(), ast.NewExprVisitor(func(e ast.Expr) {
		n.nodes++
		if e.Kind() != ast.CallKind {
			return
		}
		call := e.AsCall()
		operands := call.Args()
		if call.IsMemberFunction() {
			operands = append(operands[:len(operands):len(operands)], call.Target())
		}
		switch call.FunctionName() {
		case "format":
			n.fault = "format is not available: join texts with +"
		case "matches":
			if pattern := operands[0]; call.IsMemberFunction() && pattern.Kind() != ast.LiteralKind {
				n.fault = "the pattern of matches must be a text"
			} else if !call.IsMemberFunction() && operands[1].Kind() != ast.LiteralKind {
				n.fault = "the pattern of matches must be a text"
			}
		case operators.Conditional: // passes one of them on
			return
		case operators.Index, operators.OptIndex, operators.OptSelect:
			operands = operands[1:]
		case operators.Add, operators.Subtract, operators.Multiply, operators.Divide, operators.Modulo:
			x, y := native.GetType(operands[0].ID()), native.GetType(operands[1].ID())
			n.mixed[e.ID()] = x.IsExactType(cel.DynType) || !x.IsExactType(y)
		}
		for _, operand := range operands {
			n.plain[operand.ID()] = true
		}
	}))
	return n
}

func (n *numbers) decorate(i interpreter.InterpretableV2) (interpreter.InterpretableV2, error) {
	switch inst := i.(type) {
	case interpreter.InterpretableAttribute:
		if n.plain[i.ID()] {
			return plainAttribute{inst}, nil
		}
	case interpreter.InterpretableCall:
		if n.mixed[i.ID()] {
			return binary{inst, calculate}, nil
		}
		switch inst.Function() {
		case operators.Equals, operators.NotEquals:
			return binary{inst, equality}, nil
		case "replace", "join":
			return longer{inst}, nil
		case operators.Less, operators.LessEquals, operators.Greater, operators.GreaterEquals:
			return binary{inst, compare}, nil
		}
	}
	return i, nil
}

// plainAttribute is an operand.
type plainAttribute struct {
	interpreter.InterpretableAttribute
}

func (a plainAttribute) Exec(f *interpreter.ExecutionFrame) ref.Val {
	return charged(f, plain(a.InterpretableAttribute.Exec(f)))
}

func (a plainAttribute) Eval(vars interpreter.Activation) ref.Val {
	return charged(vars, plain(a.InterpretableAttribute.Eval(vars)))
}

// binary is an operator with two operands, of which parts may be of the event.
type binary struct {
	interpreter.InterpretableCall
	of func(operator string, x, y ref.Val) ref.Val
}

func (b binary) Exec(f *interpreter.ExecutionFrame) ref.Val {
	return charged(f, b.value(b.Args()[0].Exec(f), b.Args()[1].Exec(f)))
}

func (b binary) Eval(vars interpreter.Activation) ref.Val {
	return charged(vars, b.value(b.Args()[0].Eval(vars), b.Args()[1].Eval(vars)))
}

func (b binary) value(x, y ref.Val) ref.Val {
	if types.IsUnknownOrError(x) {
		return x
	}
	if types.IsUnknownOrError(y) {
		return y
	}
	return types.LabelErrNode(b.ID(), b.of(b.Function(), plain(x), plain(y)))
}

func equality(operator string, x, y ref.Val) ref.Val {
	return types.Bool(equal(x, y) == (operator == operators.Equals))
}

func compare(operator string, x, y ref.Val) ref.Val {
	comparer, ok := x.(traits.Comparer)
	if !ok {
		return noOverload(operator, x, y)
	}
	result := comparer.Compare(y)
	order, ok := result.(types.Int)
	switch {
	case types.IsError(result) && x.Type() != y.Type():
		return noOverload(operator, x, y)
	case !ok:
		return result
	case operator == operators.Less:
		return types.Bool(order < 0)
	case operator == operators.LessEquals:
		return types.Bool(order <= 0)
	case operator == operators.Greater:
		return types.Bool(order > 0)
	}
	return types.Bool(order >= 0)
}

// calculate calculates with numbers of any kinds, and with other operands as the standard has it.
func calculate(operator string, x, y ref.Val) ref.Val {
	a, xIsNumber := float(x)
	b, yIsNumber := float(y)
	if !xIsNumber || !yIsNumber {
		return standard(operator, x, y)
	}
	i, xIsInt := x.(types.Int)
	j, yIsInt := y.(types.Int)
	whole := xIsInt && yIsInt
	if whole && (operator != operators.Divide || j != 0 && i%j == 0) {
		return standard(operator, x, y)
	}
	switch operator {
	case operators.Add:
		return types.Double(a + b)
	case operators.Subtract:
		return types.Double(a - b)
	case operators.Multiply:
		return types.Double(a * b)
	case operators.Modulo:
		if b == 0 {
			return types.NewErr("modulus by zero")
		}
		return types.Double(math.Mod(a, b))
	}
	if b == 0 {
		return types.NewErr("division by zero")
	}
	return types.Double(a / b)
}

func float(v ref.Val) (value float64, ok bool) {
	switch n := v.(type) {
	case types.Int:
		return float64(n), true
	case types.Uint:
		return float64(n), true
	case types.Double:
		return float64(n), true
	}
	return 0, false
}

// standard calculates as the standard does with operands of one type.
func standard(operator string, x, y ref.Val) ref.Val {
	switch operator {
	case operators.Add:
		if a, ok := x.(traits.Adder); ok {
			return a.Add(y)
		}
	case operators.Subtract:
		if a, ok := x.(traits.Subtractor); ok {
			return a.Subtract(y)
		}
	case operators.Multiply:
		if a, ok := x.(traits.Multiplier); ok {
			return a.Multiply(y)
		}
	case operators.Divide:
		if a, ok := x.(traits.Divider); ok {
			return a.Divide(y)
		}
	case operators.Modulo:
		if a, ok := x.(traits.Modder); ok {
			return a.Modulo(y)
		}
	}
	return noOverload(operator, x, y)
}

func noOverload(operator string, x, y ref.Val) ref.Val {
	symbol, _ := operators.FindReverse(operator)
	return types.NewErr("%s cannot be used with %s and %s", symbol, x.Type().TypeName(), y.Type().TypeName())
}
