package rules

import (
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/eventrelay/relay/test/must"
)

// The relay compiles for the machines on which no test runs. Only types are checked, without the function bodies of
// dependencies: that takes 5 s of CPU time for a machine, compiling everything 4 minutes. What go vet says beyond types
// is the same on all machines.
func TestCompilesForOtherMachines(t *testing.T) {
	if testing.Short() {
		t.Skip("takes 15 s of CPU time")
	}
	for _, machine := range [][2]string{{"linux", "arm64"}, {"darwin", "arm64"}, {"darwin", "amd64"}} {
		t.Run(machine[0]+"/"+machine[1], func(t *testing.T) {
			t.Parallel()
			cmd := exec.CommandContext(t.Context(), "go", "list", "-deps",
				"-json=ImportPath,Dir,GoFiles,ImportMap,Module", "./...")
			cmd.Env = append(os.Environ(), "GOOS="+machine[0], "GOARCH="+machine[1], "CGO_ENABLED=0")
			out := must.Get(cmd.StdoutPipe())(t)
			must.Do(t, cmd.Start())
			checked := map[string]*types.Package{"unsafe": types.Unsafe}
			for list := json.NewDecoder(out); ; {
				var p listedPackage
				if err := list.Decode(&p); errors.Is(err, io.EOF) {
					break
				} else if err != nil {
					t.Fatal(err)
				}
				if p.ImportPath != "unsafe" {
					checked[p.ImportPath] = p.check(t, machine[1], checked)
				}
			}
			must.Do(t, cmd.Wait())
		})
	}
}

// listedPackage is what go list -deps says of a package, after those that it imports.
type listedPackage struct {
	ImportPath, Dir string
	GoFiles         []string
	ImportMap       map[string]string
	Module          struct{ Main bool }
}

// check reports type errors in packages of this module.
func (p listedPackage) check(t *testing.T, arch string, checked map[string]*types.Package) *types.Package {
	files, fset := make([]*ast.File, len(p.GoFiles)), token.NewFileSet()
	for i, name := range p.GoFiles {
		file := must.Get(parser.ParseFile(fset, filepath.Join(p.Dir, name), nil, parser.SkipObjectResolution))(t)
		files[i] = file
	}
	config := types.Config{IgnoreFuncBodies: !p.Module.Main, Sizes: types.SizesFor("gc", arch), Error: func(err error) {
		if p.Module.Main {
			t.Error(err)
		}
	}}
	config.Importer = importFunc(func(path string) (*types.Package, error) {
		if vendored := p.ImportMap[path]; vendored != "" {
			path = vendored
		}
		if imported := checked[path]; imported != nil {
			return imported, nil
		}
		return nil, fmt.Errorf("%s is not listed before %s", path, p.ImportPath)
	})
	pkg, _ := config.Check(p.ImportPath, fset, files, nil) // errors went to config.Error
	return pkg
}

type importFunc func(path string) (*types.Package, error)

func (f importFunc) Import(path string) (*types.Package, error) { return f(path) }
