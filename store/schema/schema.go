// Package schema has the tables of the store, and brings databases up to them.
package schema

import (
	"cmp"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"fmt"
	"io/fs"
	"slices"
	"strconv"
	"strings"

	"github.com/eventrelay/relay/store/internal/ch"
)

// The schema is a row of numbered files. A file that has run anywhere never changes: what comes later is another file,
// and adds columns with defaults, or tables, so that a node of the version before goes on writing and reading. There
// are no transactions: a file counts as run when its row is in schema_version, and every statement may run twice.
//
// A file whose name ends in .final takes away what only versions before need. It runs when none of them does any more, and
// those after it do not wait for it.
//
// A server's database in which nothing is yet, and that no version before uses, gets what the files up to a number come to at
// once, from the baseline: less than half of the statements, and one sync instead of one for each file. The files after that
// number run as everywhere.

//go:embed sql/*.sql
var schemaFiles embed.FS

const (
	baselineFile = "sql/baseline_0014.sql"
	// baselineLast is the number of the last file that the baseline stands for.
	baselineLast = 14
)

// DDL returns the statements of all files in their order, as they run on an empty server, or on a cluster, where a version before
// may be running. Of a cluster's those without ON CLUSTER run on one server of every shard.
func DDL(cfg MigrateConfig) ([]string, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	all, err := ch.ParseURLs(cfg.URL)
	if err != nil {
		return nil, err
	}
	steps, err := schemaSteps()
	if err != nil {
		return nil, err
	}
	d := dialect{all[0].Auth.Database, cfg.RetentionDays, cfg.Cluster}
	statements := d.own()
	for _, s := range steps {
		rendered, err := s.render(d)
		if err != nil {
			return nil, err
		}
		statements = append(statements, rendered...)
	}
	if cfg.SearchIndex {
		statements = append(statements, d.searchIndex()...)
	}
	return statements, nil
}

// step is one file of the schema.
type step struct {
	number     uint32
	name       string // without .sql
	final      bool   // it takes away what versions before need
	checksum   string // of its text
	statements []string
}

// Steps are the files in the order of their numbers.
func schemaSteps() ([]step, error) {
	files, err := fs.Glob(schemaFiles, "sql/*.sql")
	if err != nil {
		return nil, fmt.Errorf("list schema files: %w", err)
	}
	var steps []step
	for _, file := range files {
		if file == baselineFile {
			continue
		}
		s, err := readStep(file)
		if err != nil {
			return nil, err
		}
		digits, _, _ := strings.Cut(s.name, "_")
		number, err := strconv.ParseUint(digits, 10, 32)
		if err != nil {
			return nil, fmt.Errorf("read the number of %s: %w", file, err)
		}
		s.number, s.final = uint32(number), strings.HasSuffix(s.name, ".final")
		steps = append(steps, s)
	}
	slices.SortFunc(steps, func(a, b step) int { return cmp.Compare(a.number, b.number) })
	return steps, nil
}

// Needed is the number of the last file without which this version cannot work.
func Needed() (needed uint32, err error) {
	steps, err := schemaSteps()
	for _, s := range steps {
		if !s.final {
			needed = s.number
		}
	}
	return needed, err
}

// readStep reads a file, all but its number.
func readStep(file string) (step, error) {
	text, err := schemaFiles.ReadFile(file)
	if err != nil {
		return step{}, fmt.Errorf("read %s: %w", file, err)
	}
	sum := sha256.Sum256(text)
	s := step{name: strings.TrimSuffix(strings.TrimPrefix(file, "sql/"), ".sql"), checksum: hex.EncodeToString(sum[:8])}
	for statement := range strings.SplitSeq(string(text), ";\n") {
		if strings.TrimSpace(uncommented(statement)) != "" {
			s.statements = append(s.statements, statement)
		}
	}
	return s, nil
}

// baseline is what an empty database gets instead of the files up to its number.
type baseline struct{ step }

func readBaseline() (baseline, error) {
	s, err := readStep(baselineFile)
	s.number = baselineLast
	return baseline{s}, err
}

// covers says whether the baseline stands for a file.
func (b baseline) covers(s step) bool { return s.number <= b.number }

func (s step) render(d dialect) (out []string, err error) {
	for _, statement := range s.statements {
		rendered, err := d.render(statement)
		if err != nil {
			return nil, fmt.Errorf("render %s: %w", s.name, err)
		}
		out = append(out, rendered...)
	}
	return out, nil
}
