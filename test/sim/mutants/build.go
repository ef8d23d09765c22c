package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// build makes a program of the simulation with all mutants. A function with a mutant has a second body, which runs if
// that mutant is chosen. The files take the place of the originals (go build -overlay).
func build(ctx context.Context, all []mutant) (program string, err error) {
	dir, err := filepath.Abs("bin/sim/_mutants")
	if err != nil {
		return "", err
	}
	if out, err := exec.CommandContext(ctx, "go", "run", "./test/sim/overlay", dir).CombinedOutput(); err != nil {
		return "", fmt.Errorf("%w: %s", err, out)
	}
	list := filepath.Join(dir, "overlay.json")
	raw, err := os.ReadFile(list)
	if err != nil {
		return "", err
	}
	var overlay struct{ Replace map[string]string }
	if err := json.Unmarshal(raw, &overlay); err != nil {
		return "", err
	}
	texts, err := plant(all)
	if err != nil {
		return "", err
	}
	for file, text := range texts {
		original, err := filepath.Abs(file)
		if err != nil {
			return "", err
		}
		by := filepath.Join(dir, flat(file))
		overlay.Replace[original] = by
		if err := os.WriteFile(by, text, 0o644); err != nil {
			return "", err
		}
	}
	if raw, err = json.Marshal(overlay); err != nil {
		return "", err
	}
	if err := os.WriteFile(list, raw, 0o644); err != nil {
		return "", err
	}
	program = filepath.Join(dir, "relay-sim")
	c := exec.CommandContext(ctx, "go", "test", "-tags", "sim", "-overlay", list, "-vet=off", "-c",
		"-o", program, "./test/sim")
	c.Env = append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=-trimpath")
	if out, err := c.CombinedOutput(); err != nil {
		return "", fmt.Errorf("%w: %s%s", err, out, culprits(texts, string(out)))
	}
	return program, nil
}

// flat is the name of a file among those of all packages.
func flat(file string) string { return strings.ReplaceAll(file, "/", "_") }

// plant returns the texts of all files with mutants, and of one more in each package, which says what is chosen.
func plant(all []mutant) (map[string][]byte, error) {
	texts := make(map[string][]byte)
	numbers := make(map[string][]int)
	for i, m := range all {
		if slices.IndexFunc(all, func(other mutant) bool { return other.name == m.name }) != i {
			return nil, fmt.Errorf("two mutants are named %q", m.name)
		}
		numbers[m.file] = append(numbers[m.file], i)
	}
	for file, of := range numbers {
		text, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), file, text, parser.SkipObjectResolution)
		if err != nil {
			return nil, err
		}
		bodies := make(map[int]string) // what is inserted at offsets
		for _, i := range of {
			at, second, err := secondBody(parsed, text, all[i])
			if err != nil {
				return nil, fmt.Errorf("%s: %s: %w", all[i].name, file, err)
			}
			bodies[at] += fmt.Sprintf("\nif simMutant == %d { // mutant: %s\n%s\n}\n", i+1, all[i].name, second)
		}
		var out bytes.Buffer
		for at := range len(text) {
			out.WriteString(bodies[at])
			out.WriteByte(text[at])
		}
		texts[file] = out.Bytes()
		texts[filepath.Join(filepath.Dir(file), "zz_mutant.go")] = fmt.Appendf(nil, "package %s\n\nimport (\n\t\"os\"\n"+
			"\t\"strconv\"\n)\n\nvar simMutant, _ = strconv.Atoi(os.Getenv(%q))\n", parsed.Name.Name, chosen)
	}
	return texts, nil
}

// secondBody returns the changed body of the function that has the text of a mutant, and the offset of its body.
func secondBody(parsed *ast.File, text []byte, m mutant) (at int, body string, err error) {
	if n := bytes.Count(text, []byte(m.from)); n != 1 {
		return 0, "", fmt.Errorf("it has %d times what is to be replaced, not once", n)
	}
	begin := bytes.Index(text, []byte(m.from))
	end := begin + len(m.from)
	for _, d := range parsed.Decls {
		f, ok := d.(*ast.FuncDecl)
		if !ok || f.Body == nil {
			continue
		}
		from, to := int(f.Body.Lbrace), int(f.Body.Rbrace)-1 // positions begin at 1
		if begin < from || end > to {
			continue
		}
		body = string(text[from:begin]) + m.to + string(text[end:to])
		if f.Type.Results == nil {
			body += "\nreturn"
		}
		return from, body, nil
	}
	return 0, "", fmt.Errorf("what is to be replaced is not within one function")
}

var position = regexp.MustCompile(`(?m)^(\S+\.go):(\d+):`)

// culprits names the mutants that do not compile.
func culprits(texts map[string][]byte, out string) (names string) {
	for _, at := range position.FindAllStringSubmatch(out, -1) {
		line, _ := strconv.Atoi(at[2])
		for file, text := range texts {
			if filepath.Base(at[1]) != flat(file) {
				continue
			}
			before := bytes.Split(text, []byte{'\n'})
			for i := min(line, len(before)) - 1; i >= 0; i-- {
				if _, name, found := strings.Cut(string(before[i]), "// mutant: "); found {
					names += "in the mutant " + name + "\n"
					break
				}
			}
		}
	}
	return names
}
