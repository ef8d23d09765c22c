// Command shrink makes a world that breaks a promise smaller, as long as it breaks the same one: fewer minutes, nodes
// and faults. Then it writes its trace as a page: time down, nodes across, with the events that the promise is about.
//
// Usage: go run ./test/sim/shrink SEED [flags of a world]. The program is the one that test/sim/run.sh has built.
package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"html/template"
	"log"
	"os"
	"os/exec"
	"os/signal"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	_ "embed"
)

const program = "bin/sim/relay-sim"

func main() {
	log.SetFlags(0)
	if len(os.Args) < 2 {
		log.Fatal("usage: shrink SEED [flags of a world]")
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Args[1], os.Args[2:]); err != nil {
		log.Fatal("shrink: ", err)
	}
}

// world is what a run of the simulation is asked for.
type world struct {
	seed           string
	flags          []string
	minutes, nodes int
	skip           []int
}

func (w world) args() []string {
	args := append([]string{"-test.run", "TestSeed", "-test.timeout", "10m", "-seed", w.seed}, w.flags...)
	args = append(args, "-minutes", strconv.Itoa(w.minutes), "-nodes", strconv.Itoa(w.nodes))
	if len(w.skip) > 0 {
		texts := make([]string, len(w.skip))
		for i, k := range w.skip {
			texts[i] = strconv.Itoa(k)
		}
		args = append(args, "-skip", strings.Join(texts, ","))
	}
	return args
}

// runTime bounds one run.
const runTime = 10 * time.Minute

// run runs the world and returns its trace.
func (w world) run(ctx context.Context) (trace []string, err error) {
	ctx, cancel := context.WithTimeout(ctx, runTime)
	defer cancel()
	c := exec.CommandContext(ctx, program, append(w.args(), "-trace")...)
	c.Env = append(os.Environ(), "GOMAXPROCS=1", "GOGC=off")
	out, err := c.Output()
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	if failed := (*exec.ExitError)(nil); err != nil && !errors.As(err, &failed) {
		return nil, err
	}
	return strings.Split(string(out), "\n"), nil
}

var (
	names  = regexp.MustCompile(`(evt_|dst_|ep_)?[0-9a-hjkmnp-tv-z]{26}|[0-9]+`)
	number = regexp.MustCompile(`fault (\d+): `)
	kinds  = regexp.MustCompile(`(evt|dst|ep)_[0-9a-z]{26}`)
)

const broken = "BROKEN: "

// promises are the promises that a trace breaks, without the names in them.
func promises(trace []string) (all []string) {
	for _, line := range trace {
		if _, text, ok := strings.Cut(line, broken); ok {
			all = append(all, names.ReplaceAllString(text, "…"))
		}
	}
	return all
}

func faultsOf(trace []string) (all []int) {
	for _, line := range trace {
		if m := number.FindStringSubmatch(line); m != nil {
			n, _ := strconv.Atoi(m[1])
			all = append(all, n)
		}
	}
	return all
}

func run(ctx context.Context, seed string, flags []string) error {
	w, err := parse(seed, flags)
	if err != nil {
		return err
	}
	trace, err := w.run(ctx)
	if err != nil {
		return err
	}
	found := promises(trace)
	if len(found) == 0 {
		return fmt.Errorf("seed %s breaks no promise", seed)
	}
	fmt.Println("the promise:", found[0])
	breaks := func(smaller world) bool {
		if ctx.Err() != nil {
			return false
		}
		t, err := smaller.run(ctx)
		if err != nil || !slices.Contains(promises(t), found[0]) {
			return false
		}
		w, trace = smaller, t
		fmt.Printf("%d minutes, %d nodes, %d faults, %d lines\n", w.minutes, w.nodes, len(faultsOf(trace)), len(trace))
		return true
	}
	for smaller := w; smaller.minutes > 1; {
		if smaller.minutes /= 2; !breaks(smaller) {
			break
		}
	}
	for smaller := w; smaller.nodes > 1; {
		if smaller.nodes--; !breaks(smaller) {
			break
		}
	}
	fewer(&w, &trace, breaks)
	page := fmt.Sprintf("bin/sim/seed-%s.html", seed)
	if err := write(page, w, trace); err != nil {
		return err
	}
	fmt.Printf("%s %s\n%s\n", program, strings.Join(w.args(), " "), page)
	return nil
}

// fewer leaves out halves of the faults, then quarters, and so on down to each.
func fewer(w *world, trace *[]string, breaks func(world) bool) {
	for size := len(faultsOf(*trace)); size > 0; size /= 2 {
		for from := 0; ; {
			all := faultsOf(*trace)
			if from >= len(all) {
				break
			}
			smaller := *w
			smaller.skip = append(slices.Clone(w.skip), all[from:min(from+size, len(all))]...)
			if !breaks(smaller) {
				from += size
			}
		}
	}
}

// parse takes minutes and nodes out of the flags of a world.
func parse(seed string, flags []string) (w world, err error) {
	w = world{seed: seed, minutes: 30, nodes: 3}
	for i := 0; i < len(flags); i++ {
		to := map[string]*int{"-minutes": &w.minutes, "-nodes": &w.nodes}[flags[i]]
		if to == nil || i+1 == len(flags) {
			w.flags = append(w.flags, flags[i])
			continue
		}
		i++
		if *to, err = strconv.Atoi(flags[i]); err != nil {
			return w, err
		}
	}
	return w, nil
}

// row is a line of the page.
type row struct {
	Time  string
	Cells []string // of each node, then of the world
	Kind  string
}

//go:embed page.html
var pageText string

var page = template.Must(template.New("page").Parse(pageText))

// actor finds the node in a line: "b is killed", "… of b break", "… from b3: 200".
var actor = regexp.MustCompile(`^([a-e]) |from ([a-e])\d+: | (?:of|by) ([a-e])(?: |$)`)

func write(path string, w world, trace []string) error {
	about := make(map[string]bool)
	for _, line := range trace {
		if strings.Contains(line, broken) {
			for _, name := range kinds.FindAllString(line, 1) {
				about[name] = true
			}
		}
	}
	var rows []row
	for _, line := range trace {
		at, text, ok := strings.Cut(strings.TrimSpace(line), "  ")
		if !ok || !strings.HasSuffix(at, "s") {
			continue
		}
		r := row{Time: at, Cells: make([]string, w.nodes+1)}
		name := kinds.FindString(text)
		switch {
		case strings.HasPrefix(text, broken):
			r.Kind = "broken"
		case strings.HasPrefix(text, "evt") || strings.Contains(text, "evt_"):
			if !about[name] {
				continue
			}
			r.Kind = "event"
		default:
			r.Kind = "fault"
		}
		column := w.nodes
		if m := actor.FindStringSubmatch(text); m != nil && r.Kind != "broken" {
			column = min(int((m[1] + m[2] + m[3])[0]-'a'), w.nodes)
		}
		r.Cells[column] = text
		rows = append(rows, r)
	}
	heads := make([]string, w.nodes)
	for i := range heads {
		heads[i] = string(rune('a' + i))
	}
	var out bytes.Buffer
	err := page.Execute(&out, map[string]any{"Command": program + " " + strings.Join(w.args(), " "), "Nodes": heads,
		"Rows": rows})
	if err != nil {
		return err
	}
	return os.WriteFile(path, out.Bytes(), 0o644)
}
