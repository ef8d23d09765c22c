package bench

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/google/pprof/profile"
	"golang.org/x/sync/errgroup"
)

const (
	relayModule = "github.com/eventrelay/relay/"
	kgo         = "github.com/twmb/franz-go/pkg/kgo."
	broker      = relayModule + "test/kafka."
	dispatch    = relayModule + "dispatcher.(*Dispatcher)."
	callerStage = "" // the stage of what works for its callers
)

// A sample of a CPU profile belongs to the innermost function that a rule knows: what encodes, copies or
// waits in a lock belongs to whoever called it. Rules are tried in order, by the beginnings of the
// function's full name.
var rules = []struct {
	stage    string
	prefixes []string
}{
	{"GC", []string{
		"runtime.gcBgMarkWorker", "runtime.gcAssistAlloc", "runtime.bgsweep", "runtime.bgscavenge", "runtime.gcStart",
	}},
	{"scheduler", []string{"runtime.mcall", "runtime.mstart", "runtime.findRunnable"}},

	{"broker", []string{"github.com/twmb/franz-go/pkg/kfake."}},
	{"barrier", []string{
		broker + "(*barrier)", broker + "(*disk)", broker + "(*partition).sync", broker + "sync", broker + "fdatasync",
		relayModule + "pkg/segment.fdatasync",
	}},
	{"broker", []string{relayModule + "pkg/embedded/", relayModule + "pkg/segment."}},
	{"produce", []string{
		kgo + "(*sink)", kgo + "(*recBuf)", kgo + "(*recBatch)", kgo + "(*producer)", kgo + "(*Client).produce",
		kgo + "(*Client).TryProduce", kgo + "(*produceRequest)", relayModule + "pkg/stream.(*Producer)",
	}},
	{"consume", []string{
		kgo + "(*source)", kgo + "(*consumer", kgo + "(*cursor", kgo + "(*groupConsumer)", kgo + "(*Client).Poll",
		kgo + "(*fetchRequest)", kgo + "Fetches", relayModule + "pkg/stream.(*Group)",
	}},
	{"log client", []string{kgo, relayModule + "pkg/stream."}},

	{"sign", []string{relayModule + "pkg/sign."}},
	{"TLS", []string{"crypto/tls."}},
	{"HTTP client", []string{
		"net/http.(*persistConn", "net/http.persistConn", "net/http.(*Transport)", "net/http.(*Client)",
		"net/http.(*Request).write", "net/http.(*http2Transport", "net/http.(*http2ClientConn",
		"net/http.(*http2clientStream", "golang.org/x/net/http2.", relayModule + "pkg/egress.",
	}},
	{"outcome", []string{
		dispatch + "recordAttempt", relayModule + "dispatcher.newOutcome", relayModule + "pkg/event.(*Outcome)", relayModule +
			"pkg/event.Outcome",
	}},
	{"others", []string{relayModule + "dispatcher/recovery."}},
	{"accept", []string{relayModule + "tools/bench/floor.(*pipe).accept"}},
	{"lanes, deliver", []string{relayModule + "dispatcher", relayModule + "tools/bench/floor."}},
	{"others", []string{relayModule + "api/feed."}},
	{"accept", []string{
		relayModule + "ingest.", relayModule + "pkg/verify.", relayModule + "api.", relayModule + "pkg/web.",
	}},
	{"store rows", []string{relayModule + "store", "github.com/ClickHouse/"}},
	{callerStage, []string{relayModule + "pkg/event.", relayModule + "pkg/id.", relayModule + "pkg/transform."}},
	{"others", []string{relayModule}}, // configuration, limits, ledger, usage, alerts
	{"HTTP server", []string{"net/http."}},
	{"others", []string{
		"github.com/prometheus/", "runtime/pprof.", "github.com/alicebob/miniredis", "github.com/redis/",
	}},
}

// stageOf names the stage of a stack, innermost function first.
func stageOf(stack []string) string {
	for _, f := range stack {
		begins := func(prefix string) bool { return strings.HasPrefix(f, prefix) }
		for _, r := range rules {
			if !slices.ContainsFunc(r.prefixes, begins) {
				continue
			}
			if r.stage != callerStage {
				return r.stage
			}
			break
		}
	}
	return "others"
}

// kernels are the beginnings of the names of system calls.
var syscallPrefixes = []string{
	"internal/runtime/syscall", "syscall.", "runtime.futex", "runtime.madvise", "runtime.usleep", "runtime.osyield",
	"runtime.tgkill",
}

// kernel reports whether a function is a system call.
func isSyscall(f string) bool {
	return slices.ContainsFunc(syscallPrefixes, func(prefix string) bool { return strings.HasPrefix(f, prefix) })
}

// eachSample calls f for each sample with its stage and its stack, innermost function first.
func eachSample(p *profile.Profile, f func(stage string, stack []string, values []int64)) {
	for _, s := range p.Sample {
		if len(s.Value) == 0 {
			continue
		}
		var stack []string
		for _, l := range s.Location {
			for _, line := range l.Line {
				if line.Function != nil {
					stack = append(stack, line.Function.Name)
				}
			}
		}
		f(stageOf(stack), stack, s.Value)
	}
}

// stages sums a CPU profile up, the dearest stage first. perEvent is what an event costs in all, in microseconds.
func stages(p *profile.Profile, perEvent float64) []Stage {
	var all float64
	sums, inKernel := map[string]float64{}, map[string]float64{}
	eachSample(p, func(stage string, stack []string, values []int64) {
		v := float64(values[len(values)-1])
		all += v
		sums[stage] += v
		if len(stack) > 0 && isSyscall(stack[0]) {
			inKernel[stage] += v
		}
	})
	var out []Stage
	for name, v := range sums {
		if v > 0 {
			out = append(out, Stage{Name: name, Share: v / all, PerEvent: v / all * perEvent, Syscalls: inKernel[name] / v})
		}
	}
	slices.SortFunc(out, func(a, b Stage) int {
		if a.Share != b.Share {
			return int(1e9 * (b.Share - a.Share))
		}
		return strings.Compare(a.Name, b.Name)
	})
	return out
}

// allocated shares the allocations of an event out to the stages of a profile of them, and adds stages that have
// nothing else.
func addAllocations(to []Stage, p *profile.Profile, mallocs, bytes float64) []Stage {
	var objects, space float64
	type sum struct{ objects, space float64 }
	sums := map[string]sum{}
	eachSample(p, func(stage string, _ []string, values []int64) {
		if len(values) < 2 {
			return
		}
		s := sums[stage]
		sums[stage] = sum{s.objects + float64(values[0]), s.space + float64(values[1])}
		objects, space = objects+float64(values[0]), space+float64(values[1])
	})
	for _, name := range slices.Sorted(maps.Keys(sums)) {
		i := slices.IndexFunc(to, func(s Stage) bool { return s.Name == name })
		if i < 0 {
			to, i = append(to, Stage{Name: name}), len(to)
		}
		to[i].Mallocs = mallocs * sums[name].objects / max(objects, 1)
		to[i].Bytes = bytes * sums[name].space / max(space, 1)
	}
	return to
}

func readProfile(file string) (*profile.Profile, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	p, err := profile.Parse(f)
	if err != nil {
		return nil, fmt.Errorf("read profile: %w", err)
	}
	return p, nil
}

// profiles are those that are taken of a run. No name = none is taken.
type profiles struct {
	cpu, allocs string // files
	taken       errgroup.Group
}

// maxProfile bounds a profile: more of a long run says nothing else.
const maxProfile = time.Minute

// takeProfiles begins to take what the command line asks for. None is taken of a run by count, for nobody knows how
// long it takes.
func (b *benchRun) takeProfiles(ctx context.Context, posts []post) *profiles {
	p, longest := &profiles{}, time.Duration(0)
	for _, s := range posts {
		longest = max(longest, s.For)
	}
	if b.r.admin == "" || longest == 0 {
		return p
	}
	p.cpu = b.o.profile
	if b.o.stages {
		p.cpu = cmp.Or(p.cpu, filepath.Join(b.o.dir, "cpu.pprof"))
		p.allocs = filepath.Join(b.o.dir, "allocs.pprof")
	}
	for what, file := range map[string]string{"profile": p.cpu, "allocs": p.allocs} {
		if file != "" {
			p.taken.Go(func() error { return b.r.profile(ctx, what, file, min(longest, maxProfile)) })
		}
	}
	return p
}

// classify adds the stages of the profiles that were taken, if they were.
func (b *benchRun) addStages(taken *profiles) error {
	if taken.cpu == "" {
		return nil
	}
	p, err := readProfile(taken.cpu)
	if err != nil {
		return err
	}
	b.result.Stages = stages(p, b.result.process("relay"))
	if taken.allocs == "" {
		return nil
	}
	if p, err = readProfile(taken.allocs); err != nil {
		return err
	}
	b.result.Stages = addAllocations(b.result.Stages, p, b.result.Mallocs, b.result.Bytes)
	return nil
}
