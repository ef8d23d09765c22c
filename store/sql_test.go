package store_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/eventrelay/relay/test/must"
)

// TestStatementsAreConstant checks that no text made at run time becomes part of a SQL statement. The compiler already
// keeps strings out of the type SQL unless they are converted to it. This test finds the conversions and the statements
// that bypass ch.Query, and compares them with a list of exceptions.
func TestStatementsAreConstant(t *testing.T) {
	var files []string
	features := must.Get(filepath.Glob("../features/*/*"))(t)
	features = slices.DeleteFunc(features, func(dir string) bool {
		found, err := filepath.Glob(dir + "/*.go")
		return err != nil || len(found) == 0
	})
	for _, dir := range append([]string{"schema", "write", "read", "ch", "column"}, features...) {
		found, err := filepath.Glob(dir + "/*.go")
		if err != nil || len(found) == 0 {
			t.Fatalf("no Go files in %s: %v", dir, err)
		}
		files = append(files, found...)
	}
	// functions that convert to SQL or run a statement that is not the text of a ch.Query, with the reason why no user
	// input reaches it
	allowed := map[string]string{
		"Literal":       "hexadecimal digits only",
		"write":         "names of tables and columns, which are constants of the package",
		"probe":         "the same",
		"CheckShard":    "names of tables",
		"exec":          "migrations: files of this program, the database's name that parseURL has validated",
		"appliedSteps":  "the same",
		"recordStep":    "the same",
		"recordShard":   "the same",
		"MissingRights": "rights that this program lists, the database's name that parseURL has validated",
		"DropExpired":   "names of tables, the database's name that parseURL has validated",
	}
	used, calls := map[string]bool{}, 0
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		fset := token.NewFileSet()
		f := must.Get(parser.ParseFile(fset, file, nil, 0))(t)
		for _, d := range f.Decls {
			fn, ok := d.(*ast.FuncDecl)
			if !ok {
				continue
			}
			ast.Inspect(fn, func(n ast.Node) bool {
				call, ok := n.(*ast.CallExpr)
				if !ok {
					return true
				}
				if statement := statementArgument(call); statement != nil {
					calls++
					if !isConstant(statement) {
						used[fn.Name.Name] = true
						if allowed[fn.Name.Name] == "" {
							t.Errorf("%s: the statement is neither a constant nor the text of a ch.Query", fset.Position(call.Pos()))
						}
					}
				}
				return true
			})
		}
	}
	for name, why := range allowed {
		if !used[name] {
			t.Errorf("%s is on the list of exceptions (%s) and runs no such statement: remove it", name, why)
		}
	}
	if calls < 8 {
		t.Errorf("found %d statements: the test searches the wrong directories", calls)
	}
}

// statementArgument returns the argument of a call that becomes SQL; nil if there is none.
func statementArgument(call *ast.CallExpr) ast.Expr {
	switch f := call.Fun.(type) {
	case *ast.Ident:
		if f.Name == "SQL" {
			return call.Args[0]
		}
	case *ast.SelectorExpr:
		if of, ok := f.X.(*ast.Ident); ok && of.Name == "ch" && f.Sel.Name == "SQL" {
			return call.Args[0]
		}
		if on, ok := f.X.(*ast.SelectorExpr); ok && on.Sel.Name != "conn" && on.Sel.Name != "searchConn" {
			return nil
		}
		if on, ok := f.X.(*ast.Ident); ok && on.Name != "conn" {
			return nil
		}
		if slices.Contains([]string{"Exec", "Query", "QueryRow", "PrepareBatch", "Select", "AsyncInsert"}, f.Sel.Name) {
			return call.Args[1]
		}
	}
	return nil
}

// isConstant reports whether an expression is a string literal, a sum of them, or q.Text().
func isConstant(e ast.Expr) bool {
	switch x := e.(type) {
	case *ast.BasicLit:
		return x.Kind == token.STRING
	case *ast.BinaryExpr:
		return isConstant(x.X) && isConstant(x.Y)
	case *ast.CallExpr:
		f, ok := x.Fun.(*ast.SelectorExpr)
		return ok && f.Sel.Name == "Text" && len(x.Args) == 0
	}
	return false
}
