// Package schema holds the tables of the store and migrates databases to them. Begin with Migrate.
//
// The baseline, step 1, creates all tables; baseline/ has one file for each, with its reason. Every change after a
// release is a numbered file in migrations/, whose README says how to write one. A step is identified by the checksum
// of its statements without their comments, so comments may change and statements may not.
//
// Files are written for one server; ddl.go renders them for a cluster. Rows of an event expire with the retention, a
// whole day at a time, see retention.go.
package schema

import (
	"cmp"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/eventrelay/relay/pkg/certfile"
	"github.com/eventrelay/relay/store/ch"
)

//go:embed baseline migrations
var files embed.FS

// baselineNumber is the number of the step that creates the tables; the files of migrations/ have greater numbers.
const baselineNumber = 1

// DDL returns the statements of all steps in order, as they run on an empty server or cluster. On a cluster all of them
// say ON CLUSTER, so they run on any one server.
func DDL(cfg Config) ([]string, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	all, err := ch.ParseURLs(cfg.URL)
	if err != nil {
		return nil, err
	}
	steps, err := readSteps(files)
	if err != nil {
		return nil, err
	}
	d := target{all[0].Auth.Database, cfg.RetentionDays, cfg.Cluster}
	statements := d.bookkeepingTables()
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

// step is the baseline, or one file of migrations/.
type step struct {
	number     uint32
	name       string // file name without .sql
	final      bool   // it removes what only the previous version needs
	checksum   string // of the statements, without comments
	statements []string
}

// RequiredVersion returns the number of the last step without which this version cannot work.
func RequiredVersion() (required uint32, err error) {
	steps, err := readSteps(files)
	for _, s := range steps {
		if !s.final {
			required = s.number
		}
	}
	return required, err
}

// readSteps reads the baseline and the migrations, ordered by number.
func readSteps(files fs.FS) ([]step, error) {
	baseline := step{number: baselineNumber, name: "0001_baseline"}
	all, err := readStatements(files, "baseline/*.sql")
	if err != nil {
		return nil, err
	}
	// Views are created after all tables, because they may read tables of later files.
	isTable := func(statement string) bool { return createTable.MatchString(statement) }
	baseline.statements = slices.Concat(
		slices.DeleteFunc(slices.Clone(all), func(s string) bool { return !isTable(s) }), slices.DeleteFunc(all, isTable))
	steps := []step{baseline}
	names, err := fs.Glob(files, "migrations/*.sql")
	if err != nil {
		return nil, fmt.Errorf("list migrations: %w", err)
	}
	for _, name := range names {
		s := step{name: strings.TrimSuffix(path.Base(name), ".sql")}
		s.final = strings.HasSuffix(s.name, ".final")
		digits, _, _ := strings.Cut(s.name, "_")
		number, err := strconv.ParseUint(digits, 10, 32)
		if err != nil || number <= baselineNumber {
			return nil, fmt.Errorf("the name of migration %s must begin with a number above %d", name, baselineNumber)
		}
		s.number = uint32(number)
		if s.statements, err = readStatements(files, name); err != nil {
			return nil, err
		}
		steps = append(steps, s)
	}
	for i := range steps {
		sum := sha256.Sum256([]byte(strings.Join(steps[i].statements, ";\n")))
		steps[i].checksum = hex.EncodeToString(sum[:8])
	}
	slices.SortFunc(steps, func(a, b step) int { return cmp.Compare(a.number, b.number) })
	return steps, nil
}

// readStatements reads the statements of the files that match a pattern, without comments.
func readStatements(files fs.FS, pattern string) (statements []string, err error) {
	names, err := fs.Glob(files, pattern)
	if err != nil {
		return nil, fmt.Errorf("list %s: %w", pattern, err)
	}
	for _, name := range names {
		text, err := fs.ReadFile(files, name)
		if err != nil {
			return nil, fmt.Errorf("read %s: %w", name, err)
		}
		for statement := range strings.SplitSeq(withoutComments(string(text)), ";\n") {
			if statement = strings.TrimSpace(statement); statement != "" {
				statements = append(statements, statement)
			}
		}
	}
	return statements, nil
}

func (s step) render(d target) (out []string, err error) {
	for _, statement := range s.statements {
		rendered, err := d.render(statement)
		if err != nil {
			return nil, fmt.Errorf("render %s: %w", s.name, err)
		}
		out = append(out, rendered...)
	}
	return out, nil
}

// LiveHours is the span before the current hour whose events reads count themselves, as they do those of the current
// hour: the writer may not have counted them yet.
const LiveHours = 2 * time.Hour

// LiveFindings is the span before the current day whose findings reads count themselves, as they do those of the
// current day.
const LiveFindings = 24 * time.Hour

// HourOf returns the beginning of the hour of t, in UTC.
func HourOf(t time.Time) time.Time { return t.UTC().Truncate(time.Hour) }

// DayOf returns the beginning of the day of t, in UTC.
func DayOf(t time.Time) time.Time { return t.UTC().Truncate(24 * time.Hour) }

// HourColumns is the SELECT list that counts events by hour and endpoint.
const HourColumns = "toStartOfHour(toDateTime(ts, 'UTC')) AS hour, endpoint, " +
	"countIf(source = 'provider') AS received, countIf(source != 'provider') AS sent, toUInt64(sum(size)) AS bytes"

// Endpoints returns the servers of the URLs that use TLS, replicas too. It returns an error if a URL cannot be parsed.
func Endpoints(urls string) (all []certfile.Endpoint, err error) {
	shards, err := ch.ParseURLs(urls)
	if err != nil {
		return nil, err
	}
	for _, shard := range shards {
		if shard.TLS == nil {
			continue
		}
		for _, addr := range shard.Addr {
			all = append(all, certfile.Endpoint{Addr: addr, TLS: shard.TLS})
		}
	}
	return all, nil
}
