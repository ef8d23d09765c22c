package expr

import (
	"strings"
	"unicode/utf8"

	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
	"cel.dev/cel-go/common/types/traits"
	"cel.dev/cel-go/interpreter"
)

// cel-go counts the steps of standard functions by the length of their operands, those of extensions as one. So the
// length of each text that an operator or function gets counts here, and what makes longer texts than it gets is ours.

const (
	inputName  = "@input"  // resolves to the Input; no expression can name it
	shortText  = 256       // texts up to here count as one step of cel-go
	textWeight = 4         // a byte of a text counts as so many that are read
	maxText    = 256 << 10 // bytes of a text that an expression makes
)

// charged counts the length of a long text. It returns an error if the evaluation has read too much.
func charged(vars interpreter.Activation, v ref.Val) ref.Val {
	n := 0
	switch v := v.(type) {
	case types.String:
		n = len(v)
	case types.Bytes:
		n = len(v)
	}
	if n <= shortText {
		return v
	}
	in, _ := vars.ResolveName(inputName)
	if input, ok := in.(*Input); !ok || !input.spend(textWeight*n) {
		return types.NewErr(tooLong)
	}
	return v
}

// longer is replace or join, whose result may be much longer than their operands.
type longer struct{ interpreter.InterpretableCall }

func (l longer) Exec(f *interpreter.ExecutionFrame) ref.Val {
	args := make([]ref.Val, len(l.Args()))
	for i, arg := range l.Args() {
		args[i] = arg.Exec(f)
	}
	return charged(f, l.value(args))
}

func (l longer) Eval(vars interpreter.Activation) ref.Val {
	args := make([]ref.Val, len(l.Args()))
	for i, arg := range l.Args() {
		args[i] = arg.Eval(vars)
	}
	return charged(vars, l.value(args))
}

func (l longer) value(args []ref.Val) ref.Val {
	for _, arg := range args {
		if types.IsUnknownOrError(arg) {
			return arg
		}
	}
	result, ok := replaced(args)
	if l.Function() == "join" {
		result, ok = joined(args)
	}
	if !ok {
		return types.LabelErrNode(l.ID(), types.NewErr("%s gets a value of another type, or makes more than %d bytes",
			l.Function(), maxText))
	}
	return types.String(result)
}

// replaced is text.replace(old, new) or text.replace(old, new, most), a negative number for all.
func replaced(args []ref.Val) (result string, ok bool) {
	if len(args) < 3 {
		return "", false
	}
	text, ok1 := args[0].(types.String)
	before, ok2 := args[1].(types.String)
	after, ok3 := args[2].(types.String)
	most := -1
	if len(args) == 4 {
		n, isInt := plain(args[3]).(types.Int)
		if !isInt {
			return "", false
		}
		most = int(n)
	}
	found := strings.Count(string(text), string(before))
	if before == "" {
		found = utf8.RuneCountInString(string(text)) + 1
	}
	if most >= 0 {
		found = min(found, most)
	}
	if !ok1 || !ok2 || !ok3 || len(text)+found*(len(after)-len(before)) > max(maxText, len(text)) {
		return "", false
	}
	return strings.Replace(string(text), string(before), string(after), most), true
}

// joined is list.join() or list.join(separator).
func joined(args []ref.Val) (result string, ok bool) {
	list, ok := args[0].(traits.Lister)
	if !ok {
		return "", false
	}
	var separator types.String
	if len(args) == 2 {
		if separator, ok = args[1].(types.String); !ok {
			return "", false
		}
	}
	var to strings.Builder
	for it, n := list.Iterator(), 0; it.HasNext() == types.True; n++ {
		text, ok := it.Next().(types.String)
		if !ok || to.Len()+len(separator)+len(text) > maxText {
			return "", false
		}
		if n > 0 {
			to.WriteString(string(separator))
		}
		to.WriteString(string(text))
	}
	return to.String(), true
}
