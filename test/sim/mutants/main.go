// Command mutants plants faults in the code of delivery, one at a time, and lets the simulation find them. It says how
// good the simulation is: a fault that no seed finds needs an invariant, a fault of the world, or a test of its own.
//
// Usage: go run ./test/sim/mutants [-machine] [-seeds N] [-from NAME] [NAME...]. One program has all of them
// (build.go), and an environment variable chooses one, so that there is one build for all. The checkout stays as it is.
package main

import (
	"context"
	"flag"
	"fmt"
	"log"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// mutant is a planted fault: a text within a function of a file that is replaced.
type mutant struct{ name, file, from, to string }

// chosen is the environment variable that has the number of a mutant, from 1.
const chosen = "RELAY_SIM_MUTANT"

func main() {
	log.SetFlags(0)
	seeds := flag.Int("seeds", 12, "seeds that try to find each")
	minutes := flag.Int("minutes", 12, "minutes of each world with faults")
	from := flag.String("from", "", "the first one, by name")
	list := flag.Bool("list", false, "print the names")
	machine := flag.Bool("machine", false, "faults of the log of one machine, in such worlds")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	all, world := planted(), []string{"-minutes", strconv.Itoa(*minutes)}
	if *machine {
		all, world = onMachine, append(world, "-machine")
	}
	names := flag.Args()
	for _, name := range slices.Concat(names, []string{*from}) {
		if name != "" && !slices.ContainsFunc(all, func(m mutant) bool { return m.name == name }) {
			log.Fatalf("no mutant is named %q", name)
		}
	}
	if *list {
		for _, m := range all {
			fmt.Printf("%-34s %s\n", m.file, m.name)
		}
		return
	}
	program, err := build(ctx, all)
	if err != nil {
		log.Fatal(err)
	}
	missed, skip := 0, *from != ""
	for i, m := range all {
		if skip = skip && m.name != *from; skip || len(names) > 0 && !slices.Contains(names, m.name) {
			continue
		}
		began := time.Now()
		seed, cpu, why := hunt(ctx, program, i+1, *seeds, world)
		took := fmt.Sprintf("%.0f s of a core, %v", cpu.Seconds(), time.Since(began).Round(time.Second))
		switch {
		case ctx.Err() != nil:
			log.Fatal(context.Cause(ctx))
		case seed == 0:
			missed++
			fmt.Printf("%-56s missed by %d seeds in %s\n", m.name, *seeds, took)
		default:
			fmt.Printf("%-56s found by seed %d in %s: %s\n", m.name, seed, took, why)
		}
	}
	if missed > 0 {
		log.Fatalf("%d missed", missed)
	}
}

// hunt runs seeds with a mutant, and returns the first that breaks a promise; 0: none does. A run that fails otherwise
// ends the hunt, and its line says so: it has found nothing.
func hunt(ctx context.Context, program string, number, seeds int, world []string) (
	seed int, cpu time.Duration, why string) {
	for seed := 1; seed <= seeds; seed++ {
		c := exec.CommandContext(ctx, program, append([]string{"-test.run", "TestSeed", "-test.timeout", "4m", "-first",
			"-seed", strconv.Itoa(seed)}, world...)...)
		c.Env = append(os.Environ(), "GOMAXPROCS=1", "GOGC=off", chosen+"="+strconv.Itoa(number))
		out, _ := c.CombinedOutput()
		if c.ProcessState != nil {
			cpu += c.ProcessState.UserTime() + c.ProcessState.SystemTime()
		}
		why := reason(string(out))
		if why == "" && !strings.Contains(string(out), "\nPASS\n") && ctx.Err() == nil {
			why = "no promise, but the run failed"
		}
		if why != "" {
			return seed, cpu, why
		}
	}
	return 0, cpu, ""
}

// reason is the first promise that did not hold; empty: all did.
func reason(out string) string {
	for line := range strings.SplitSeq(out, "\n") {
		if _, why, found := strings.Cut(line, "BROKEN: "); found {
			return why
		}
	}
	return ""
}
