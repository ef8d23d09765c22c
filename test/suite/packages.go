package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"path"
	"slices"
	"strings"
)

// goPackage is what go list says of a package of the module.
type goPackage struct {
	ImportPath, Dir                    string
	Imports, TestImports, XTestImports []string
	TestGoFiles, XTestGoFiles          []string

	dir string // from the top of the module
}

func (p *goPackage) hasTests() bool { return len(p.TestGoFiles)+len(p.XTestGoFiles) > 0 }

// selected is a package that a change concerns. distance is 0 if its own files changed, 1 if it or its tests import a
// package whose files changed, and so on.
type selected struct {
	*goPackage
	distance int
}

// listPackages returns the packages of the module in dir.
func listPackages(ctx context.Context, dir string) (packages []*goPackage, err error) {
	out, err := output(ctx, dir, "go", "list",
		"-json=ImportPath,Dir,Imports,TestImports,XTestImports,TestGoFiles,XTestGoFiles", "./...")
	if err != nil {
		return nil, err
	}
	top, err := output(ctx, dir, "go", "list", "-m", "-f", "{{.Dir}}")
	if err != nil {
		return nil, err
	}
	decoder := json.NewDecoder(bytes.NewReader(out))
	for {
		var p goPackage
		if err := decoder.Decode(&p); errors.Is(err, io.EOF) {
			return packages, nil
		} else if err != nil {
			return nil, err
		}
		p.dir = path.Clean(strings.TrimPrefix(strings.TrimPrefix(p.Dir, strings.TrimSpace(string(top))), "/"))
		packages = append(packages, &p)
	}
}

// selectPackages returns the packages that changed files belong to, and those that import them or whose tests do: the
// nearest first. A file that belongs to no package, such as a document or a script, belongs to the one at the top,
// whose tests are about the whole module: any change concerns them.
func selectPackages(packages []*goPackage, files []string) []selected {
	byDir, importers := map[string]*goPackage{}, map[string][]string{}
	for _, p := range packages {
		byDir[p.dir] = p
		for _, imported := range p.Imports {
			importers[imported] = append(importers[imported], p.ImportPath)
		}
	}
	var layer []string // the packages of one distance
	for _, file := range files {
		if file == "go.mod" || file == "go.sum" {
			return withDistance(packages, 0)
		}
		for _, p := range []*goPackage{owner(byDir, file), byDir["."]} {
			if p != nil {
				layer = append(layer, p.ImportPath)
			}
		}
	}
	distances := map[string]int{}
	for distance := 0; len(layer) > 0; distance++ {
		var next []string
		for _, path := range layer {
			if _, known := distances[path]; !known {
				distances[path] = distance
				next = append(next, importers[path]...)
			}
		}
		layer = next
	}
	return withTestImporters(packages, distances)
}

func withDistance(packages []*goPackage, distance int) (out []selected) {
	for _, p := range packages {
		out = append(out, selected{p, distance})
	}
	return out
}

// owner is the package whose directory has the file, or the nearest one above it.
func owner(byDir map[string]*goPackage, file string) *goPackage {
	for dir := path.Dir(file); ; dir = path.Dir(dir) {
		if p := byDir[dir]; p != nil || dir == "." {
			return p
		}
	}
}

// withTestImporters adds the packages whose tests alone import one that is concerned, and sorts all. Nobody imports a
// test, so that they concern no other package.
func withTestImporters(packages []*goPackage, distances map[string]int) (out []selected) {
	for _, p := range packages {
		distance, known := distances[p.ImportPath]
		for _, imported := range slices.Concat(p.TestImports, p.XTestImports) {
			if d, ok := distances[imported]; ok && (!known || d+1 < distance) {
				distance, known = d+1, true
			}
		}
		if known {
			out = append(out, selected{p, distance})
		}
	}
	slices.SortStableFunc(out, func(a, b selected) int { return cmp.Compare(a.distance, b.distance) })
	return out
}

// changedFiles are the files, from the top of the module, that differ from the commit where this branch left
// origin/main or main, and those that git does not know yet.
func changedFiles(ctx context.Context, dir string) (files []string, base string, err error) {
	base = "HEAD"
	for _, branch := range []string{"origin/main", "main"} {
		if out, err := output(ctx, dir, "git", "merge-base", "HEAD", branch); err == nil {
			base = strings.TrimSpace(string(out))
			break
		}
	}
	for _, args := range [][]string{
		{"diff", "--name-only", "-z", base}, {"ls-files", "--others", "--exclude-standard", "-z"},
	} {
		out, err := output(ctx, dir, "git", args...)
		if err != nil {
			return nil, "", err
		}
		for file := range strings.SplitSeq(strings.TrimSuffix(string(out), "\x00"), "\x00") {
			if file != "" {
				files = append(files, file)
			}
		}
	}
	return files, base, nil
}

// output runs a command in dir. An error has what the command wrote to stderr.
func output(ctx context.Context, dir, name string, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = dir
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("%s %s: %w: %s", name, strings.Join(args, " "), err, stderr.Bytes())
	}
	return out, nil
}
