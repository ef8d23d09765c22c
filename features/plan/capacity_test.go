package plan

import (
	"flag"
	"fmt"
	"math"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/eventrelay/relay/test/is"
	"github.com/eventrelay/relay/test/must"
)

var update = flag.Bool("update", false, "write the table of docs/operate/operate.md")

// run is a row of tools/bench/capacity.md: what was measured of one shape of work.
type run struct {
	name           string
	fitted         bool // the costs were made from it
	work           Work
	events         float64            // a second
	cores          map[string]float64 // by process
	logged, stored float64            // bytes of an event
}

func text(t *testing.T, name string) string {
	t.Helper()
	b := must.Get(os.ReadFile("../../" + name))(t)
	return string(b)
}

// runs reads the table of measurements. Its columns are the name, whether the costs were made from it, bytes of a body,
// destinations, requests of an event, events a second, cores by process, and bytes in the log and in ClickHouse.
func runs(t *testing.T) (all []run) {
	t.Helper()
	row := regexp.MustCompile(`(?m)^\| (\w+) \| (yes|no) \|((?: [\d.,]+ \|){12})$`)
	for _, m := range row.FindAllStringSubmatch(text(t, measurements), -1) {
		var v []float64
		for _, cell := range strings.Split(strings.Trim(m[3], " |"), "|") {
			f := must.Get(strconv.ParseFloat(strings.ReplaceAll(strings.TrimSpace(cell), ",", ""), 64))(t)
			v = append(v, f)
		}
		r := run{name: m[1], fitted: m[2] == "yes", work: Usual(), events: v[3], logged: v[10], stored: v[11],
			cores: map[string]float64{}}
		r.work.Size, r.work.Destinations, r.work.Attempts = int(v[0]), v[1], v[2]/v[1]
		for i, process := range append(slices.Clone(Nodes), Kafka, ClickHouse, Redis) {
			r.cores[process] = v[4+i]
		}
		all = append(all, r)
	}
	if len(all) < 8 {
		t.Fatalf("%s has %d runs: this test looks for the wrong text", measurements, len(all))
	}
	return all
}

// The model is within 30 % of every measured run, also of those that it was not made from.
func TestModelAgreesWithTheMeasurements(t *testing.T) {
	others := 0
	for _, r := range runs(t) {
		if !r.fitted {
			others++
		}
		compare := func(what string, planned, measured float64) {
			t.Helper()
			off := planned/measured - 1
			t.Logf("%s, %s: %s planned, %s measured, %+.0f %%", r.name, what, number(planned), number(measured), 100*off)
			if r.fitted && measured < 0.17 && math.Abs(planned-measured) < 0.05 {
				return // little CPU: its share of a run of seconds is uncertain
			}
			if math.Abs(off) > 0.3 {
				t.Errorf("%s, %s: the plan says %s, measured were %s (%+.0f %%)", r.name, what, number(planned), number(measured),
					100*off)
			}
		}
		var nodes, measuredNodes float64
		for _, process := range Nodes {
			nodes, measuredNodes = nodes+r.work.CPU(process, r.events), measuredNodes+r.cores[process]
		}
		compare("CPU of the nodes", nodes, measuredNodes)
		compare("CPU of Kafka", r.work.CPU(Kafka, r.events), r.cores[Kafka])
		compare("CPU of ClickHouse", r.work.CPU(ClickHouse, r.events), r.cores[ClickHouse])
		compare("bytes in the log", r.work.logBytes(), r.logged)
		compare("bytes in the store", r.work.storeBytes(), r.stored)
	}
	if others < 2 {
		t.Errorf("%d runs are of other shapes than those that the costs were made from, want 2 or more", others)
	}
}

// More of anything never needs less of anything, and every plan can lose a broker and a node of each role.
func TestMoreWorkNeedsNoLess(t *testing.T) {
	total := func(p Plan) (v []float64) {
		var machines, cores, disk float64
		for _, part := range p.Parts {
			machines += float64(part.Count)
			cores += part.Cores
			disk += float64(part.Count * part.DiskGB)
			if part.Name != ClickHouse && part.Name != Redis {
				if alive := float64((part.Count - 1) * p.Work.Cores); part.Count < 2 || part.Cores > alive*load*1.0001 {
					t.Errorf("%+v: with one machine less, %d %s have %.1f cores in use", p.Work, part.Count-1, part.Name, part.Cores)
				}
			}
		}
		return []float64{machines, cores, disk, float64(p.Partitions)}
	}
	small := Usual()
	small.Events, small.Size = 5, 500
	for name, more := range map[string]func(*Work){
		"events":       func(w *Work) { w.Events *= 7 },
		"peak":         func(w *Work) { w.Peak *= 3 },
		"size":         func(w *Work) { w.Size *= 5 },
		"destinations": func(w *Work) { w.Destinations *= 2 },
		"attempts":     func(w *Work) { w.Attempts *= 1.5 },
		"retention":    func(w *Work) { w.RetentionDays *= 3 },
		"log hours":    func(w *Work) { w.LogHours *= 3 },
	} {
		for w := small; w.Validate() == nil; more(&w) {
			next := w
			more(&next)
			before, after := total(For(w)), total(For(next))
			for i, what := range []string{"machines", "cores", "disk", "partitions"} {
				if after[i] < before[i] && (what != "disk" || after[i] < 0.99*before[i]) {
					t.Errorf("more %s: %s fall from %v to %v: %+v", name, what, before[i], after[i], next)
				}
			}
		}
	}
}

func TestValidateNamesEveryFlag(t *testing.T) {
	err := Work{Events: math.NaN(), Destinations: -1, Deduplicated: -1}.Validate()
	for _, flag := range []string{"events-per-second", "peak", "size", "destinations", "attempts", "retention",
		"log-hours", "compression", "deduplicated", "cores"} {
		is.Failed(t, err, "--"+flag+": ", flag)
	}
	w := Usual()
	w.Events, w.Size = 1, 1
	is.OK(t, w.Validate())
}

// docs/operate/operate.md has the table of the model: go test ./features/plan -update writes it.
func TestCapacityTable(t *testing.T) {
	const name, begin, end = "docs/operate/operate.md", "<!-- capacity -->\n", "<!-- /capacity -->"
	page := text(t, name)
	from, to := strings.Index(page, begin), strings.Index(page, end)
	if from < 0 || to < from {
		t.Fatalf("%s has no %s", name, begin)
	}
	want := page[:from] + begin + "\n" + table() + "\n" + page[to:]
	if page == want {
		return
	}
	if !*update {
		t.Fatalf("the table in %s is not that of the model; make generate writes it:\n%s", name, table())
	}
	must.Do(t, os.WriteFile("../../"+name, []byte(want), 0o644))
}

// table is the capacity table: a row for each of several kinds of work.
func table() string {
	var b strings.Builder
	b.WriteString("| events a second (peak) | body, destinations | brokers | nodes | ClickHouse | Redis | partitions |\n" +
		"|---|---|---|---|---|---|---|\n")
	for _, x := range []struct {
		events, destinations float64
		size                 int
	}{{10, 1, 2000}, {100, 1, 2000}, {100, 3, 10_000}, {500, 2, 2000}, {1000, 1, 1000}, {2000, 3, 4000},
		{10_000, 1, 2000}} {
		w := Usual()
		w.Events, w.Destinations, w.Size = x.events, x.destinations, x.size
		p := For(w)
		var nodes []string
		cells := map[string]string{}
		for _, part := range p.Parts {
			cell := fmt.Sprintf("%d, %.1f cores in use", part.Count, part.Cores)
			switch {
			case part.Name == Redis:
				cell = fmt.Sprintf("%d, %d GB of memory", part.Count, part.MemoryGB)
			case part.DiskGB > 0:
				cell += fmt.Sprintf(", %d GB of disk each", part.DiskGB)
			default:
				nodes = append(nodes, fmt.Sprintf("%d `%s`, %.1f cores in use", part.Count, part.Name, part.Cores))
			}
			cells[part.Name] = cell
		}
		fmt.Fprintf(&b, "| %v (%v) | %d B, %v | %s | %s | %s | %s | %d |\n", x.events, p.PeakEvents, x.size, x.destinations,
			cells[Kafka], strings.Join(nodes, "; "), cells[ClickHouse], cells[Redis], p.Partitions)
	}
	return b.String()
}
