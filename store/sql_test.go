package store_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// What a statement is made of is constant: the type sql takes no string that was made while the program runs, unless it
// is turned into one, and ClickHouse is asked nothing that did not pass through it. This test holds the places where
// that could be undone.
func TestStatementsAreConstant(t *testing.T) {
	var files []string
	for _, dir := range []string{"schema", "write", "read", "internal/ch", "internal/column"} {
		found, err := filepath.Glob(dir + "/*.go")
		if err != nil || len(found) == 0 {
			t.Fatalf("no Go files in %s: %v", dir, err)
		}
		files = append(files, found...)
	}
	// conversions to sql, and statements that are not the text of a query, with why they hold nothing of a caller.
	allowed := map[string]string{
		"Literal":     "hexadecimal digits alone",
		"write":       "names of tables and columns, constants of the package",
		"probe":       "the same",
		"Merge":       "names of tables",
		"CheckShard":  "names of tables",
		"exec":        "migrations: files of this program, the database's name that parseURL has judged",
		"applied":     "the same",
		"note":        "the same",
		"claim":       "the same",
		"DropExpired": "names of tables, the database's name that parseURL has judged",
	}
	used, calls := map[string]bool{}, 0
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		fset := token.NewFileSet()
		f, err := parser.ParseFile(fset, file, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
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
				if statement := statementOf(call); statement != nil {
					calls++
					if !constant(statement) {
						used[fn.Name.Name] = true
						if allowed[fn.Name.Name] == "" {
							t.Errorf("%s: a statement that is neither constant nor the text of a query", fset.Position(call.Pos()))
						}
					}
				}
				return true
			})
		}
	}
	for name, why := range allowed {
		if !used[name] {
			t.Errorf("%s is allowed a statement of its own (%s) and has none", name, why)
		}
	}
	if calls < 8 {
		t.Errorf("found %d statements: the rule looks in the wrong place", calls)
	}
}

// statementOf is the part of a call that becomes SQL; nil when the call has none.
func statementOf(call *ast.CallExpr) ast.Expr {
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

// constant is true of texts in quotes, of sums of them, and of q.Text().
func constant(e ast.Expr) bool {
	switch x := e.(type) {
	case *ast.BasicLit:
		return x.Kind == token.STRING
	case *ast.BinaryExpr:
		return constant(x.X) && constant(x.Y)
	case *ast.CallExpr:
		f, ok := x.Fun.(*ast.SelectorExpr)
		return ok && f.Sel.Name == "Text" && len(x.Args) == 0
	}
	return false
}
