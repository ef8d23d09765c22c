package secrets

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/eventrelay/relay/test/must"
)

// packages are npm packages with large bundles, sources and documentation, at fixed versions.
var packages = []string{
	"axe-core@4.10.3", "axios@1.7.9", "chart.js@4.4.7", "d3@7.9.0", "dayjs@1.11.13", "express@5.0.1", "htmx.org@2.0.4",
	"jquery@3.7.1", "lodash@4.17.21", "monaco-editor@0.52.2", "pino@9.6.0", "preact@10.25.4", "react-dom@18.3.1",
	"terser@5.37.0", "three@0.172.0", "typescript@5.7.3", "undici@7.3.0", "vue@3.5.13", "webpack@5.97.1", "winston@3.17.0",
	"zod@3.24.1",
}

// This project's programs and documents, and lines of logs, contain nothing that the rules find.
func TestNothingIsFoundInSources(t *testing.T) {
	s := newLeaks(t)
	for _, text := range [][]byte{sources(t), logLines(1 << 20)} {
		s.Scan(text, func(m Match) bool {
			t.Errorf("%s: %s", m.Rule.ID, text[max(0, m.Start-40):m.End])
			return true
		})
	}
}

// Nothing is found in packages from npm. Of credentials that stand in them, all are found, and nothing else is.
func TestPackagesOfNPM(t *testing.T) {
	if os.Getenv("RELAY_TORTURE") == "" {
		t.Skip("fetches packages from npm: make torture PART=secrets")
	}
	s := newLeaks(t)
	g := newGenerator(11)
	size, files, planted, right, wrong := 0, 0, 0, 0, 0
	for _, name := range fetchPackages(t) {
		eachFile(t, name, func(file string, b []byte) {
			size, files = size+len(b), files+1
			s.Scan(b, func(m Match) bool {
				t.Errorf("%s %s: %s", file, m.Rule.ID, b[max(0, m.Start-40):m.End])
				return true
			})
			text, want := plant(s, g, b)
			planted += len(want)
			s.Scan(text, func(m Match) bool {
				if id := want[m.Start]; id == m.Rule.ID {
					right++
				} else {
					wrong++
					t.Logf("%s instead of %q: %s", m.Rule.ID, id, text[max(0, m.Start-40):m.End])
				}
				return true
			})
		})
	}
	t.Logf("%d MB in %d files: %d credentials planted, %d found, %d wrong", size>>20, files, planted, right, wrong)
	if right*100 < planted*99 || right*100 < (right+wrong)*98 {
		t.Error("want recall of 99 % and precision of 98 %")
	}
}

// plant puts a credential behind about one line in a thousand, and returns the rules by position.
func plant(s *Scanner, g generator, b []byte) (text []byte, want map[int]string) {
	want = map[int]string{}
	for line := range bytes.Lines(b) {
		if text = append(text, line...); !bytes.HasSuffix(line, []byte("\n")) || g.IntN(1000) > 0 {
			continue
		}
		r := &s.rules[g.IntN(len(s.rules))]
		name := "note"
		if r.Kind == KindAssign {
			name = g.name(r, g.IntN(4))
		}
		c, w := g.IntN(len(contexts)), g.IntN(len(wrappers))
		if fits(c, w) {
			p := place(c, w, name, g.secret(r, false))
			want[len(text)+len(p.before)] = r.ID
			text = append(append(text, p.text()...), '\n')
		}
	}
	return text, want
}

// fetchPackages returns the names of the packages' archives.
func fetchPackages(t *testing.T) []string {
	t.Helper()
	dir := t.TempDir()
	npm := exec.CommandContext(
		t.Context(), "npm", append([]string{"pack", "--silent", "--ignore-scripts"}, packages...)...)
	npm.Dir = dir
	if out, err := npm.CombinedOutput(); err != nil {
		t.Fatalf("npm pack: %v: %s", err, out)
	}
	names := must.Get(filepath.Glob(filepath.Join(dir, "*.tgz")))(t)
	must.Equal(t, len(names), len(packages), "archives of %d packages", len(packages))
	return names
}

func eachFile(t *testing.T, archive string, do func(name string, b []byte)) {
	t.Helper()
	f := must.Get(os.Open(archive))(t)
	defer f.Close()
	unzipped := must.Get(gzip.NewReader(f))(t)
	for files := tar.NewReader(unzipped); ; {
		header, err := files.Next()
		if errors.Is(err, io.EOF) {
			return
		}
		must.Do(t, err)
		b := must.Get(io.ReadAll(files))(t)
		do(strings.TrimSuffix(filepath.Base(archive), ".tgz")+"/"+header.Name, b)
	}
}

// TestWriteVectors writes credentials in contexts for the comparison with another scanner: test/oracle/run.sh.
func TestWriteVectors(t *testing.T) {
	name := os.Getenv("RELAY_VECTORS")
	if name == "" {
		t.Skip("test/oracle/run.sh sets RELAY_VECTORS")
	}
	s := newLeaks(t)
	var lines strings.Builder
	for i, p := range wrapped(s, newGenerator(13), 40*len(s.rules)) {
		fmt.Fprintf(&lines, "%s\t%q\t%q\t%q\n", s.rules[i%len(s.rules)].ID, p.before, p.secret, p.after)
	}
	must.Do(t, os.WriteFile(name, []byte(lines.String()), 0o600))
}
