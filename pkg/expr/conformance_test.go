package expr

import (
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
	celtest "cel.dev/expr/conformance/test"
	"google.golang.org/protobuf/encoding/prototext"

	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/test/must"

	_ "cel.dev/expr/conformance/proto2" // message types that the files name
	_ "cel.dev/expr/conformance/proto3"
)

// suites are the files of CEL's own conformance tests about what an expression may use. Left out are those about
// protocol buffers, enumerations and variables of other types, which events do not have, and extensions that are not
// offered, format among them.
var suites = []string{"basic", "comparisons", "conversions", "encoders_ext", "fp_math", "integer_math", "lists",
	"logic", "macros", "math_ext", "optionals", "parse", "string", "string_ext", "timestamps"}

// differs are the tests whose answer is another here, and why.
var differs = map[string]string{
	"conversions/type/type_denotation":                  "type is that of the event",
	"conversions/type/type_type":                        "type is that of the event",
	"parse/nest/parens":                                 "32 levels are the bound",
	"optionals/optionals/map_null_entry_no_such_key":    "cel-go has a value",
	"optionals/optionals/map_present_key_invalid_field": "cel-go has a value",
	"string_ext/value_errors/indexof_out_of_range":      "cel-go has a value",
	"string_ext/value_errors/lastindexof_out_of_range":  "cel-go has a value",
}

// What the standard says of an expression without variables holds, apart from the bounds.
func TestConformance(t *testing.T) {
	out, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "cel.dev/expr").Output()
	must.Do(t, err)
	dir := filepath.Join(strings.TrimSpace(string(out)), "tests", "simple", "testdata")
	ran := 0
	for _, name := range suites {
		var file celtest.SimpleTestFile
		must.Do(t, prototext.Unmarshal(must.Get(os.ReadFile(filepath.Join(dir, name+".textproto")))(t), &file), name)
		for _, section := range file.GetSection() {
			for _, c := range section.GetTest() {
				if !applies(c) {
					continue
				}
				ran++
				at := name + "/" + section.GetName() + "/" + c.GetName()
				if fault := conforms(c); (fault == "") == (differs[at] != "") {
					t.Errorf("%s: %s: %s", at, c.GetExpr(), fault)
				}
			}
		}
	}
	if ran < 1200 {
		t.Errorf("only %d tests", ran)
	}
	t.Logf("%d tests", ran)
}

// applies reports whether a test is about expressions without variables and protocol buffers.
func applies(c *celtest.SimpleTest) bool {
	for _, part := range []string{".format(", "TestAllTypes", "google.protobuf", "GlobalEnum", "NestedEnum", "proto2.",
		"proto3."} {
		if strings.Contains(c.GetExpr(), part) {
			return false
		}
	}
	return len(c.GetTypeEnv()) == 0 && len(c.GetBindings()) == 0 && !c.GetDisableMacros() && !c.GetDisableCheck() &&
		!c.GetCheckOnly() &&
		c.GetContainer() == "" && c.GetTypedResult() == nil && c.GetUnknown() == nil && c.GetAnyUnknowns() == nil
}

// conforms says how the value of a test's expression is wrong; empty: it is right.
func conforms(c *celtest.SimpleTest) string {
	p, err := Compile(c.GetExpr(), Any)
	var got ref.Val
	if err == nil {
		got, err = p.evaluate(NewInput(&event.Event{}, ""))
	}
	if c.GetEvalError() != nil || c.GetAnyEvalErrors() != nil {
		if err == nil {
			return "a value, wanted is an error"
		}
		return ""
	}
	if err != nil {
		return err.Error()
	}
	var want ref.Val = types.True // the default of a test
	if c.GetValue() != nil {
		if want, err = cel.ProtoAsValue(types.DefaultTypeAdapter, c.GetValue()); err != nil {
			return err.Error()
		}
	}
	if w, ok := want.(types.Double); ok && math.IsNaN(float64(w)) {
		if g, ok := got.(types.Double); ok && math.IsNaN(float64(g)) {
			return ""
		}
	}
	if got.Equal(want) != types.True || got.Type() != want.Type() {
		return "another value"
	}
	return ""
}
