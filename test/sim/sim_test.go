package sim

import (
	"flag"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"testing"
	"testing/cryptotest"
	"time"
)

var (
	seed    = flag.Uint64("seed", 1, "the seed of the world")
	nodes   = flag.Int("nodes", 3, "nodes")
	minutes = flag.Int("minutes", 30, "minutes with faults")
	first   = flag.Bool("first", false, "end when a promise does not hold, without its trace")
	quiet   = flag.Bool("quiet", false, "no faults")
	fake    = flag.Bool("kfake", false, "the client of Kafka, and kfake")
	one     = flag.Bool("machine", false, "one machine, without Kafka")
	skip    = flag.String("skip", "", "numbers of faults that do not happen, with commas")
	full    = flag.Bool("trace", false, "print the trace")
	logs    = flag.Bool("logs", false, "print what the nodes log")
)

// The world of one seed keeps its promises. Without the runtime of the simulation it is a small one without faults.
func TestSeed(t *testing.T) {
	cryptotest.SetGlobalRandom(t, *seed)
	if seeded {
		runtime.GOMAXPROCS(1)
		debug.SetGCPercent(-1)
		runtime.GC() // ends a collection that has begun, and its sweep
		seedChoices(*seed)
	} else { // time stands still while a paused node holds a mutex
		*minutes, *nodes, *quiet, *fake = 1, 2, true, true
	}
	began := time.Now()
	cfg := Config{Seed: *seed, Nodes: *nodes, Minutes: *minutes, Quiet: *quiet, Kfake: *fake, Machine: *one,
		First: *first}
	for _, text := range strings.FieldsFunc(*skip, func(r rune) bool { return r == ',' }) {
		n, err := strconv.Atoi(text)
		if err != nil {
			t.Fatal(err)
		}
		cfg.Skip = append(cfg.Skip, n)
	}
	if *logs {
		cfg.Verbose = os.Stderr
	}
	r := Run(t, cfg)
	if *full || len(r.Broken) > 0 {
		for _, line := range r.Trace {
			fmt.Println(line)
		}
	}
	for _, b := range r.Broken {
		t.Error(b)
	}
	took := time.Since(began)
	fmt.Printf("seed %d: trace %s, %d faults, %d accepted, %d requests, %.0f minutes in %.1f s\n", *seed, r.Hash, r.Faults,
		r.Accepted, r.Requests, r.Fake.Minutes(), took.Seconds())
}
