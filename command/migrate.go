package command

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/eventrelay/relay/command/cli"
	"github.com/eventrelay/relay/pkg/config"
	"github.com/eventrelay/relay/pkg/nodeconfig"
	"github.com/eventrelay/relay/pkg/stream"
	"github.com/eventrelay/relay/store/schema"
)

// Default numbers of partitions of a new service.
const (
	newPartitions    = 32
	newPartitionsDev = 4
)

// migration is the result of relay migrate.
type migration struct {
	Topics []migratedTopic `json:"topics"`
	Tables string          `json:"tables"` // ready, or untouched
	Schema uint32          `json:"schema"` // number of the last migration of the tables; 0: untouched
	Ran    []string        `json:"ran"`    // migrations of the tables that ran now
	// Waiting are migrations that relay migrate --finalize runs: they remove what older versions need.
	Waiting []string `json:"waiting"`
	Level   int      `json:"level"`  // of the configuration log; 0: it is empty
	Newest  int      `json:"newest"` // highest level that this version knows

	before int // the level before finalize
}

// tablesReady is the value of Tables once all migrations have run.
const tablesReady = "ready"

// States of a topic after relay migrate.
const (
	topicCreated   = "created"
	topicUnchanged = "right"
	topicGrown     = "grown" // partitions were added
	topicFixed     = "fixed"
	topicWrong     = "differs"
)

type migratedTopic struct {
	Topic      string        `json:"topic"`
	State      string        `json:"state"`
	Partitions int           `json:"partitions"`
	Copies     int           `json:"copies"`
	Differs    []wrongConfig `json:"differs"`
}

type wrongConfig struct {
	Setting string `json:"setting"`
	Found   string `json:"found"`
	Want    string `json:"want"`
	Fixed   bool   `json:"fixed"`
}

// runMigrate creates the topics and tables that serve needs and checks existing ones.
func runMigrate(ctx context.Context, s settings, fix, finalize, asJSON bool, c cli.Call) error {
	stdout := c.Stdout
	m, err := migrate(ctx, s, fix, true)
	if err == nil {
		err = m.finalize(ctx, s, finalize)
	}
	if asJSON {
		if printErr := json.NewEncoder(stdout).Encode(m); printErr != nil {
			return printErr
		}
		return err
	}
	m.print(stdout, c.Color)
	for _, name := range m.Ran {
		fmt.Fprintf(stdout, "tables: ran %s\n", name)
	}
	if err != nil {
		return err
	}
	if m.Level != 0 && m.Level < m.Newest {
		fmt.Fprintf(stdout, "the configuration log is at level %d; when every node runs this version, run relay migrate "+
			"--finalize: it raises the level to %d and drops what only older versions need\n", m.Level, m.Newest)
	}
	for _, name := range m.Waiting {
		fmt.Fprintf(stdout, "tables: %s waits for relay migrate --finalize, when every node runs this version\n", name)
	}
	if finalize {
		fmt.Fprintln(stdout, m.finalized())
	}
	if m.Tables == tablesReady {
		fmt.Fprintf(stdout, "topics and tables are ready, the tables at migration %04d\n", m.Schema)
	}
	return nil
}

// finalize reads the level of the configuration log, and with raise raises it. It then drops tables and views that only
// older versions need. Without raise it does so only in a new service, whose log is empty (level 0): nodes of an older
// version, which need them, may run at the newest level too.
func (m *migration) finalize(ctx context.Context, s settings, raise bool) error {
	c, _, err := s.Inspect(ctx)
	if err != nil {
		return fmt.Errorf("read the configuration log: %w", err)
	}
	m.Level, m.Newest = c.Level()
	m.before = m.Level
	nodes := c.Nodes()
	c.Close()
	if m.Level != 0 && !raise {
		return nil
	}
	if err := m.refuseOthers(nodes, s.Version); err != nil {
		return err
	}
	if m.Level != 0 && m.Level < m.Newest {
		if s.MasterKeys == "" {
			return errors.New("RELAY_MASTER_KEYS must be set: the record that raises the level is authenticated by them")
		}
		cfg, deps, err := s.Inspection()
		if err != nil {
			return err
		}
		ctx, cancel := context.WithTimeout(ctx, nodeconfig.InspectTime)
		defer cancel()
		if _, err := config.Finalize(ctx, cfg, deps); err != nil {
			return err
		}
		m.Level = m.Newest
	}
	return m.migrateTables(ctx, s.tables())
}

// finalized says what relay migrate --finalize did. The steps of the tables are named before.
func (m *migration) finalized() string {
	log := fmt.Sprintf("the configuration log was at level %d, the newest, already", m.Level)
	switch {
	case m.Level == 0:
		log = "the configuration log is empty"
	case m.before < m.Level:
		log = fmt.Sprintf("raised the configuration log from level %d to %d", m.before, m.Level)
	}
	if len(m.Ran) == 0 {
		return "finalized: " + log + "; no step of the tables was left"
	}
	return fmt.Sprintf("finalized: %s; steps of the tables that ran: %d", log, len(m.Ran))
}

// refuseOthers returns an error if tables are about to be dropped that a running node of another version may need.
func (m *migration) refuseOthers(nodes []config.Node, version string) error {
	if len(m.Waiting) == 0 {
		return nil
	}
	for _, n := range nodes {
		if n.Version != version {
			return fmt.Errorf("node %s runs version %s and this is version %s: %s may drop what it needs; upgrade all nodes "+
				"first, and run relay migrate --finalize of their version", n.Name, cmp.Or(n.Version, "unknown"), version,
				strings.Join(m.Waiting, ", "))
		}
	}
	return nil
}

func (m *migration) migrateTables(ctx context.Context, cfg schema.Config) error {
	tables, err := schema.Migrate(ctx, cfg)
	m.Ran, m.Waiting = append(m.Ran, tables.Ran...), append([]string{}, tables.Waiting...)
	if err != nil {
		return fmt.Errorf("migrate tables: %w", err)
	}
	m.Tables, m.Schema = tablesReady, tables.Schema
	return nil
}

// tables returns where the tables are and how to create them.
func (s settings) tables() schema.Config {
	return schema.Config{URL: s.ClickHouseURL, RetentionDays: s.RetentionDays, Cluster: s.ClickHouseCluster,
		SearchIndex: s.SearchIndex, Program: s.Version, Sync: s.SyncTables}
}

// printStatements writes statements for ClickHouse, and runs none.
func printStatements(s settings, stdout io.Writer, make func(schema.Config) ([]string, error)) error {
	statements, err := make(s.tables())
	if err != nil {
		return err
	}
	for _, statement := range statements {
		fmt.Fprintf(stdout, "%s;\n\n", statement)
	}
	return nil
}

// migrate creates and changes topics and tables for this version. If others is true, nodes of older versions may be
// running, and it keeps what they need. Wrong settings of topics that are not corrected are an error; then no table is
// changed.
func migrate(ctx context.Context, s settings, fix, others bool) (migration, error) {
	m := migration{Topics: []migratedTopic{}, Tables: "untouched", Ran: []string{}, Waiting: []string{}}
	done, report, err := migrateTopics(ctx, s, fix)
	for _, t := range report.Topics {
		if !t.Missing {
			m.Topics = append(m.Topics, newMigratedTopic(t, done))
		}
	}
	if err == nil {
		err = report.Err()
	}
	if err != nil {
		return m, err
	}
	cfg := s.tables()
	cfg.Upgrading = others
	err = m.migrateTables(ctx, cfg)
	return m, err
}

// newMigratedTopic returns the row of a topic: how it is after the changes, what they fixed and what still differs.
func newMigratedTopic(t stream.TopicReport, done []topicChange) migratedTopic {
	row := migratedTopic{Topic: t.Topic, State: topicUnchanged, Partitions: t.Partitions, Copies: t.MinReplicas,
		Differs: []wrongConfig{}}
	for _, d := range done {
		if slices.Contains(d.topics, t.Topic) {
			row.State = d.state
		}
	}
	wrong := make(map[string]bool)
	for _, w := range t.WrongSettings {
		row.State, wrong[w.Name] = topicWrong, true
		row.Differs = append(row.Differs, wrongConfig{Setting: w.Name, Found: w.Found, Want: w.Want})
	}
	for _, d := range done {
		for _, w := range d.fixed {
			if w.Topic == t.Topic && !wrong[w.Name] {
				row.Differs = append(row.Differs, wrongConfig{Setting: w.Name, Found: w.Found, Want: w.Want, Fixed: true})
			}
		}
	}
	return row
}

// topicChange is a change that migrateTopics made.
type topicChange struct {
	state  string
	topics []string
	fixed  []stream.WrongSetting
}

// migrateTopics creates topics, adds partitions that RELAY_PARTITIONS asks for, and with fix corrects settings. It
// returns its changes and the state of the topics afterwards. Fewer partitions than exist are an error before any
// change.
func migrateTopics(ctx context.Context, s settings, fix bool) (
	done []topicChange, report stream.TopicsReport, err error) {
	conf, copies, want := s.Stream(), s.Copies(), int32(s.Partitions)
	if report, err = stream.CheckTopics(ctx, conf, copies); err != nil {
		return nil, report, err
	}
	present := report.Partitions()
	if want != 0 && want < present {
		_, err := stream.AddPartitions(ctx, conf, report, want) // the error names the topic with more
		return nil, report, err
	}
	partitions := present
	switch {
	case partitions == 0 && want != 0:
		partitions = want
	case partitions == 0 && s.Embedded:
		partitions = newPartitionsDev
	case partitions == 0:
		partitions = newPartitions
	}
	created, err := stream.Migrate(ctx, conf, partitions, int16(copies))
	done = append(done, topicChange{state: topicCreated, topics: created})
	if err != nil {
		return done, report, err
	}
	// The broker that answers may not know the new topics yet: wait until it does.
	if report, err = stream.AwaitTopics(ctx, conf, copies, func(stream.TopicsReport) bool { return true }); err != nil {
		return done, report, err
	}
	if want > 0 && present > 0 {
		grown, err := stream.AddPartitions(ctx, conf, report, want)
		if err != nil {
			return done, report, err
		}
		done = append(done, topicChange{state: topicGrown, topics: grown})
		report, err = stream.AwaitTopics(ctx, conf, copies, func(r stream.TopicsReport) bool {
			return r.Partitions() == want && r.SamePartitionCount()
		})
		if err != nil {
			return done, report, err
		}
	}
	wrong := report.WrongSettings()
	if !fix || !slices.ContainsFunc(wrong, fixable) {
		return done, report, nil
	}
	if err := stream.FixSettings(ctx, conf, wrong); err != nil {
		return done, report, err
	}
	fixed := topicChange{state: topicFixed}
	for _, w := range wrong {
		if fixable(w) {
			fixed.topics, fixed.fixed = append(fixed.topics, w.Topic), append(fixed.fixed, w)
		}
	}
	report, err = stream.AwaitTopics(ctx, conf, copies, func(r stream.TopicsReport) bool {
		return !slices.ContainsFunc(r.WrongSettings(), fixable)
	})
	return append(done, fixed), report, err
}

func fixable(s stream.WrongSetting) bool { return s.Fix != "" }

// print writes a table with a row for each topic.
func (m migration) print(w io.Writer, color bool) {
	table := cli.NewTable("TOPIC", "STATE", "PARTITIONS", "COPIES", "SETTINGS THAT DIFFER")
	for _, t := range m.Topics {
		var texts []string
		for _, d := range t.Differs {
			if d.Fixed {
				texts = append(texts, fmt.Sprintf(
					"%s was %s, is set to %s", d.Setting, d.Found, strings.TrimPrefix(d.Want, "at least ")))
			} else {
				texts = append(texts, fmt.Sprintf("%s is %s, want %s", d.Setting, d.Found, d.Want))
			}
		}
		table.Row(t.Topic, t.State, t.Partitions, t.Copies, strings.Join(texts, "; "))
	}
	table.Print(w, color)
}
