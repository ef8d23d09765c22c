package config

import (
	"bytes"
	"encoding"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/eventrelay/relay/pkg/config/document"
	"github.com/eventrelay/relay/pkg/config/entity"
	"github.com/eventrelay/relay/pkg/conflog"
	"github.com/eventrelay/relay/pkg/stream"
	"github.com/eventrelay/relay/test/kit"
)

const (
	releasedMembers = "members.txt"
	releasedControl = "control.json"
	releasedExport  = "configuration.json"
)

// membersOf returns the members of a type's JSON, one a line, with what they hold: endpoint/destinations/[]/url string.
func membersOf(at string, t reflect.Type, seen []reflect.Type) (lines []string) {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	own := reflect.PointerTo(t)
	if own.Implements(reflect.TypeFor[json.Marshaler]()) || own.Implements(reflect.TypeFor[encoding.TextMarshaler]()) {
		return []string{at + " " + t.Name()}
	}
	switch {
	case slices.Contains(seen, t):
		return []string{at + " again"}
	case t.Kind() == reflect.Slice && t.Elem().Kind() == reflect.Uint8:
		return []string{at + " bytes"}
	case t.Kind() == reflect.Slice, t.Kind() == reflect.Array, t.Kind() == reflect.Map:
		return membersOf(at+"/[]", t.Elem(), seen)
	case t.Kind() != reflect.Struct:
		return []string{at + " " + kindOfJSON(t.Kind())}
	}
	for i := range t.NumField() {
		f := t.Field(i)
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch {
		case name == "-" || !f.IsExported() && !f.Anonymous:
		case f.Anonymous && name == "":
			lines = append(lines, membersOf(at, f.Type, append(seen, t))...)
		case name == "":
			lines = append(lines, membersOf(at+"/"+f.Name, f.Type, append(seen, t))...)
		default:
			lines = append(lines, membersOf(at+"/"+name, f.Type, append(seen, t))...)
		}
	}
	return lines
}

// kindOfJSON is the same for all numbers: a wider one reads what a narrower one has written.
func kindOfJSON(k reflect.Kind) string {
	switch {
	case k >= reflect.Int && k <= reflect.Uint64:
		return "number"
	default:
		return k.String()
	}
}

func allMembers() []byte {
	var lines []string
	for k := range entity.NumKinds {
		if kindTable[k].Empty == nil { // of the log alone
			continue
		}
		lines = append(lines, membersOf(kindTable[k].Name, reflect.TypeOf(kindTable[k].Empty()), nil)...)
	}
	slices.Sort(lines)
	return []byte(strings.Join(slices.Compact(lines), "\n") + "\n")
}

// retired are members that no node of the last release reads, so that this version need not write them.
var retired = []string{
	"alert/notices/[]/tries number", "alert/notices/[]/until Time", // of 0.1.0, which sent notices without the one sender
}

// Every member that a release has written into the configuration exists, and holds the same kind of value. Members may
// be added.
func TestReleasedMembersExist(t *testing.T) {
	kit.Freeze(t, releasedMembers, allMembers)
	for version, text := range kit.Released(t, releasedMembers) {
		for _, line := range kit.MissingLines(text, allMembers()) {
			if slices.Contains(retired, line) {
				continue
			}
			t.Errorf("%s has written %s: nodes of that version and of this one run at the same time", version, line)
		}
	}
	type before struct {
		A string `json:"a"`
		B []struct {
			C int `json:"c"`
		} `json:"b"`
	}
	type after struct {
		A string `json:"a"`
		B []struct {
			D int `json:"d"`
		} `json:"b"`
		E bool `json:"e"`
	}
	was := strings.Join(membersOf("x", reflect.TypeFor[before](), nil), "\n")
	is := strings.Join(membersOf("x", reflect.TypeFor[after](), nil), "\n")
	if lost := kit.MissingLines([]byte(was), []byte(is)); !slices.Equal(lost, []string{"x/b/[]/c number"}) {
		t.Errorf("missing %q", lost)
	}
}

// frozenLog is a configuration log with an entity of each kind: its records with their MACs, and what they say.
type frozenLog struct {
	Records  []frozenRecord
	Entities []frozenEntity
}

type frozenRecord struct {
	Text string // the value
	MAC  []byte
}

type frozenEntity struct {
	Kind, ID string
	Value    json.RawMessage
}

// fullNode starts a node whose configuration has an entity of each kind.
func fullNode(t *testing.T, conf stream.Config) *testNode {
	t.Helper()
	n := node(t, conf, Config{Node: "a"})
	n.create(t)
	if _, _, err := n.CreateKey(t.Context(), NewKey{Name: "ci", Scope: ReadWrite}); err != nil {
		t.Fatal(err)
	}
	oneOfEach(t, n)
	return n
}

func everyEntity(n *testNode) (all []frozenEntity) {
	for k := conflog.FirstCallerKind; k < entity.NumKinds; k++ {
		for e := range n.View().NewestFirst(k, 0) {
			all = append(all, frozenEntity{n.KindName(k), e.ID, n.Value(e)})
		}
	}
	return all
}

// A node takes over the configuration log of a release: it accepts the MACs, applies the records, and knows each entity
// with every member.
func TestReleasedControlLogIsRead(t *testing.T) {
	kit.Freeze(t, releasedControl, func() (text []byte) {
		bubble(t, func(t *testing.T, conf stream.Config) {
			n := fullNode(t, conf)
			log := frozenLog{Entities: everyEntity(n)}
			for _, r := range readAll(t, conf, stream.Control) {
				log.Records = append(log.Records, frozenRecord{string(r.Value), r.Headers[0].Value})
			}
			text = indented(t, log)
		})
		return text
	})
	for version, text := range kit.Released(t, releasedControl) {
		var log frozenLog
		noError(t, json.Unmarshal(text, &log))
		bubble(t, func(t *testing.T, conf stream.Config) {
			time.Sleep(time.Minute) // after the release has written it
			writeLog(t, conf, log)
			n := node(t, conf, Config{Node: "a"})
			for _, problem := range unreadEntities(n, log.Entities) {
				t.Errorf("%s: %s", version, problem)
			}
		})
	}
}

// unreadEntities returns what a node does not know of the entities.
func unreadEntities(n *testNode, all []frozenEntity) (problems []string) {
	byKey := map[string]*conflog.Entity{}
	for k := conflog.FirstCallerKind; k < entity.NumKinds; k++ {
		for e := range n.View().NewestFirst(k, 0) {
			byKey[n.KindName(k)+" "+e.ID] = e
		}
	}
	for _, frozen := range all {
		key := frozen.Kind + " " + frozen.ID
		e := byKey[key]
		if e == nil {
			problems = append(problems, key+" is not known")
			continue
		}
		v, err := n.Decode(e)
		if err != nil {
			problems = append(problems, fmt.Sprintf("%s: %v", key, err))
			continue
		}
		known, err := json.Marshal(v)
		if err != nil {
			problems = append(problems, fmt.Sprintf("%s: %v", key, err))
			continue
		}
		for _, lost := range kit.MissingMembers(frozen.Value, known) {
			problems = append(problems, key+": "+lost)
		}
	}
	return problems
}

// readAll returns the records of a topic with one partition.
func readAll(t *testing.T, conf stream.Config, topic string) (all []*stream.Record) {
	t.Helper()
	reader := must(stream.NewReader(conf, "test"))(t)
	defer reader.Close()
	p := stream.Partition{Topic: topic}
	ends := must(reader.Ends(t.Context(), topic))(t)
	if err := reader.ReadRanges(t.Context(), []stream.Range{{Partition: p, To: ends[p]}},
		func(_ stream.Partition, records []*stream.Record) error {
			all = append(all, records...)
			return nil
		}); err != nil {
		t.Fatal(err)
	}
	return all
}

func writeLog(t *testing.T, conf stream.Config, log frozenLog) {
	t.Helper()
	producer := must(stream.NewProducer(conf, "test"))(t)
	defer producer.Close()
	for _, r := range log.Records {
		err := producer.ProduceSync(t.Context(), stream.Control, 0, &stream.Record{
			Value: []byte(r.Text), Headers: []stream.Header{{Key: "mac", Value: r.MAC}},
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}

// An export of a release is imported: the way back from a loss of the configuration.
func TestReleasedExportIsImported(t *testing.T) {
	kit.Freeze(t, releasedExport, func() (text []byte) {
		bubble(t, func(t *testing.T, conf stream.Config) {
			text = exportOf(t, fullNode(t, conf))
		})
		return text
	})
	for version, text := range kit.Released(t, releasedExport) {
		bubble(t, func(t *testing.T, conf stream.Config) {
			n := node(t, conf, Config{Node: "b"})
			if _, err := importInto(t, n, text, false); err != nil {
				t.Fatalf("%s: %v", version, err)
			}
			var all []frozenEntity
			if _, err := document.Read(bytes.NewReader(text), func(kind string, value json.RawMessage) error {
				var head struct{ ID string }
				err := json.Unmarshal(value, &head)
				all = append(all, frozenEntity{kind, head.ID, value})
				return err
			}); err != nil {
				t.Fatalf("%s: %v", version, err)
			}
			for _, problem := range unreadEntities(n, all) {
				t.Errorf("%s: %s", version, problem)
			}
		})
	}
}

func indented(t *testing.T, v any) []byte {
	t.Helper()
	text := must(json.MarshalIndent(v, "", "  "))(t)
	return append(text, '\n')
}
