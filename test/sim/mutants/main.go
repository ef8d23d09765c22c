// Command mutants plants faults in the code of delivery, one at a time, and lets the simulation find them. It says how
// good the simulation is: a fault that no seed finds needs an invariant, a fault of the world, or a test of its own.
//
// Usage: go run ./test/sim/mutants [-seeds N] [NAME...]. Each is built by a file that takes the place of the original
// (go build -overlay), so that the checkout stays as it is.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"log"
	"maps"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// mutant is a planted fault: a text of a file that is replaced.
type mutant struct{ name, file, from, to string }

var mutants = []mutant{
	{"acknowledge before the log does", "ingest/accept.go", `			errs[i] = errUnanswered
			waiting++
`, "			errs[i] = nil\n"},
	{"commit past an open slot", "dispatcher/tracker.go", `	if offset != t.commitOffset {
		return
	}
`, `	if offset >= t.commitOffset {
		t.commitOffset = offset + 1
		return
	}
`},
	{"outcome before the follow-up", "dispatcher/finish.go", "	f.produce(completion)\n}\n\n// completeLater",
		"	if len(steps) == 2 {\n		steps[0], steps[1] = steps[1], steps[0]\n		copy(completion.steps, steps)\n	}\n" +
			"	f.produce(completion)\n}\n\n// completeLater"},
	{"a record that is not appended counts as appended", "dispatcher/finish.go",
		"	if err == nil {\n		f.advance(completion)", "	if err == nil || completion.tries == 0 {\n		f.advance(completion)"},
	{"no answer of Redis is a claim", "pkg/limit/claim.go", "		return claim.Claim{}\n",
		"		return claim.Claim{State: claim.New, Event: event}\n"},
	{"release a claim in doubt", "pkg/claim/claim.go",
		"	case !errors.Is(storeErr, stream.ErrNotStored) && !errors.Is(storeErr, id.ErrClock):\n", ""},
	{"take over with another id", "pkg/claim/claim.go", "			r.own, r.Event = r.Event, held.Event\n", ""},
	{"take over at once", "pkg/claim/claim.go", "case err == nil && age >= c.takeOverAfter() && c.takesOver(lasting, r):",
		"case err == nil && c.takesOver(lasting, r):"},
	{"a failed search finds no event", "pkg/claim/claim.go", "		isSearched = err == nil\n",
		"		isSearched = err == nil\n		err = nil\n"},
	{"release whatever holds the key", "pkg/limit/claim.go",
		"`if string.sub(redis.call('GET', KEYS[1]) or '', 1, #ARGV[1]) == ARGV[1] then return", "`if true then return"},
	{"no retry after a failure", "dispatcher/next.go",
		"	case work.Attempt >= policy.Attempts():\n", "	case work.Attempt >= 1:\n"},
	{"a breaker that never closes", "dispatcher/lane/breaker.go", "	return b.probe != nil || now.Before(b.openUntil)\n",
		"	return true\n"},
	{"skip what another owner may have ended", "dispatcher/tracker.go", "offset < max(t.firstAdded, t.recordedFrom)",
		"offset < t.firstAdded"},
	{"skip records of another epoch", "dispatcher/tracker.go",
		"	return known >= 0 && known == leaderEpoch\n", "	return true\n"},
	{"make each attempt twice", "dispatcher/sender.go", "	attempt, result := s.makeAttempt(",
		"	s.makeAttempt(ctx, l, decision, content, policy.RetryOn)\n	attempt, result := s.makeAttempt("},
	{"forget what was parked", "dispatcher/delivery.go",
		"	d.finish(decision.Delivery, d.followUp(&nextWork, decision.DecidedAt), outcome)\n",
		"	d.finish(decision.Delivery, step{}, outcome)\n"},
}

func main() {
	log.SetFlags(0)
	seeds := flag.Int("seeds", 40, "seeds that try to find each")
	minutes := flag.Int("minutes", 10, "minutes of each world with faults")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	missed := 0
	for _, m := range mutants {
		if flag.NArg() > 0 && !slices.Contains(flag.Args(), m.name) {
			continue
		}
		began := time.Now()
		seed, why, err := hunt(ctx, m, *seeds, *minutes)
		switch {
		case err != nil:
			log.Fatalf("%s: %v", m.name, err)
		case seed == 0:
			missed++
			fmt.Printf("%-50s missed by %d seeds in %v\n", m.name, *seeds, time.Since(began).Round(time.Second))
		default:
			fmt.Printf("%-50s found by seed %d in %v: %s\n", m.name, seed, time.Since(began).Round(time.Second), why)
		}
	}
	if missed > 0 {
		log.Fatalf("%d missed", missed)
	}
}

// hunt runs seeds on a program with the mutant, and returns the first that finds it; 0: none does.
func hunt(ctx context.Context, m mutant, seeds, minutes int) (seed int, why string, err error) {
	dir, err := filepath.Abs("bin/sim/_mutant")
	if err != nil {
		return 0, "", err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return 0, "", err
	}
	text, err := os.ReadFile(m.file)
	if err != nil {
		return 0, "", err
	}
	if n := strings.Count(string(text), m.from); n != 1 {
		return 0, "", fmt.Errorf("%s has %d times what is to be replaced, not once", m.file, n)
	}
	changed := filepath.Join(dir, filepath.Base(m.file))
	if err := os.WriteFile(changed, []byte(strings.Replace(string(text), m.from, m.to, 1)), 0o644); err != nil {
		return 0, "", err
	}
	program, err := build(ctx, dir, m.file, changed)
	if err != nil {
		return 0, "", err
	}
	for seed := 1; seed <= seeds; seed++ {
		c := exec.CommandContext(ctx, program, "-test.run", "TestSeed", "-test.timeout", "10m",
			"-seed", strconv.Itoa(seed), "-minutes", strconv.Itoa(minutes))
		c.Env = append(os.Environ(), "GOMAXPROCS=1", "GOGC=off")
		if out, err := c.CombinedOutput(); err != nil {
			return seed, reason(string(out)), nil
		}
	}
	return 0, "", nil
}

// build makes the program of the simulation with one file replaced.
func build(ctx context.Context, dir, file, by string) (program string, err error) {
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
	original, err := filepath.Abs(file)
	if err != nil {
		return "", err
	}
	overlay.Replace = maps.Clone(overlay.Replace)
	overlay.Replace[original] = by
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
		return "", fmt.Errorf("%w: %s", err, out)
	}
	return program, nil
}

// reason is the first promise that did not hold.
func reason(out string) string {
	for line := range strings.SplitSeq(out, "\n") {
		if _, why, found := strings.Cut(line, "BROKEN: "); found {
			return why
		}
	}
	for line := range strings.SplitSeq(out, "\n") {
		if strings.HasPrefix(line, "panic") || strings.HasPrefix(line, "fatal") {
			return line
		}
	}
	return "no reason"
}
