package bench

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/google/pprof/profile"
)

// A sample of a CPU profile belongs to the innermost function that a rule knows: what encodes, copies or
// waits in a lock belongs to whoever called it. Rules are tried in order, by the beginning of the
// function's full name.
var rules = []struct{ prefix, stage string }{
	{"runtime.gcBgMarkWorker", "GC"}, {"runtime.gcAssistAlloc", "GC"}, {"runtime.bgsweep", "GC"}, {"runtime.bgscavenge", "GC"}, {"runtime.gcStart", "GC"},
	{"runtime.mcall", "scheduler"}, {"runtime.mstart", "scheduler"}, {"runtime.findRunnable", "scheduler"},

	{"github.com/twmb/franz-go/pkg/kfake.", "broker"},
	{relayModule + "pkg/embedded/kafka.(*barrier)", "barrier"}, {relayModule + "pkg/embedded/kafka.(*disk)", "barrier"},
	{relayModule + "pkg/embedded/kafka.(*partition).sync", "barrier"}, {relayModule + "pkg/embedded/kafka.sync", "barrier"},
	{relayModule + "pkg/embedded/kafka.fdatasync", "barrier"}, {relayModule + "pkg/embedded/", "broker"},
	{kgo + "(*sink)", "produce"}, {kgo + "(*recBuf)", "produce"}, {kgo + "(*recBatch)", "produce"}, {kgo + "(*producer)", "produce"},
	{kgo + "(*Client).produce", "produce"}, {kgo + "(*Client).TryProduce", "produce"}, {kgo + "(*produceRequest)", "produce"},
	{relayModule + "pkg/stream.(*Producer)", "produce"},
	{kgo + "(*source)", "consume"}, {kgo + "(*consumer", "consume"}, {kgo + "(*cursor", "consume"}, {kgo + "(*groupConsumer)", "consume"},
	{kgo + "(*Client).Poll", "consume"}, {kgo + "(*fetchRequest)", "consume"}, {kgo + "Fetches", "consume"}, {kgo, "log client"},
	{relayModule + "pkg/stream.(*Group)", "consume"}, {relayModule + "pkg/stream.", "log client"},

	{relayModule + "pkg/sign.", "sign"},
	{"crypto/tls.", "TLS"},
	{"net/http.(*persistConn", "HTTP client"}, {"net/http.persistConn", "HTTP client"}, {"net/http.(*Transport)", "HTTP client"},
	{"net/http.(*Client)", "HTTP client"}, {"net/http.(*Request).write", "HTTP client"}, {"net/http.(*http2Transport", "HTTP client"},
	{"net/http.(*http2ClientConn", "HTTP client"}, {"net/http.(*http2clientStream", "HTTP client"}, {"golang.org/x/net/http2.", "HTTP client"},
	{relayModule + "pkg/egress.", "HTTP client"},
	{relayModule + "dispatcher.(*Dispatcher).conclude", "outcome"}, {relayModule + "dispatcher.(*Dispatcher).outcome", "outcome"},
	{relayModule + "pkg/event.(*Outcome)", "outcome"}, {relayModule + "pkg/event.Outcome", "outcome"},
	{relayModule + "dispatcher/recovery.", "others"}, {relayModule + "dispatcher.", "lanes, deliver"}, {relayModule + "dispatcher/lane.", "lanes, deliver"},
	{relayModule + "bench/floor.(*pipe).accept", "accept"}, {relayModule + "bench/floor.", "lanes, deliver"},
	{relayModule + "ingest.", "accept"}, {relayModule + "api/feed.", "others"}, {relayModule + "api.", "accept"}, {relayModule + "pkg/web.", "accept"},
	{relayModule + "store.", "store rows"}, {"github.com/ClickHouse/", "store rows"},
	{relayModule, "others"}, // configuration, limits, ledger, usage, alerts
	{"net/http.", "HTTP server"},
	{"github.com/prometheus/", "others"}, {"runtime/pprof.", "others"}, {"github.com/alicebob/miniredis", "others"}, {"github.com/redis/", "others"},
}

const (
	relayModule = "github.com/eventrelay/relay/"
	kgo         = "github.com/twmb/franz-go/pkg/kgo."
)

// helpers are rooms of the relay that work for their callers.
var helpers = []string{relayModule + "pkg/event.", relayModule + "pkg/id.", relayModule + "pkg/transform."}

// stageOf names the stage of a stack, innermost function first.
func stageOf(stack []string) string {
	for _, f := range stack {
		for _, r := range rules {
			if strings.HasPrefix(f, r.prefix) {
				if r.stage == "others" && slices.ContainsFunc(helpers, func(h string) bool { return strings.HasPrefix(f, h) }) {
					break
				}
				return r.stage
			}
		}
	}
	return "others"
}

// kernel reports whether a function is a system call.
func kernel(f string) bool {
	for _, prefix := range []string{"internal/runtime/syscall", "syscall.", "runtime.futex", "runtime.madvise", "runtime.usleep", "runtime.osyield", "runtime.tgkill"} {
		if strings.HasPrefix(f, prefix) {
			return true
		}
	}
	return false
}

// byStage calls f for each sample with its stage and its stack, innermost function first.
func byStage(p *profile.Profile, f func(stage string, stack []string, values []int64)) {
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
	byStage(p, func(stage string, stack []string, values []int64) {
		v := float64(values[len(values)-1])
		all += v
		sums[stage] += v
		if len(stack) > 0 && kernel(stack[0]) {
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
func allocated(to []Stage, p *profile.Profile, mallocs, bytes float64) []Stage {
	var objects, space float64
	type sum struct{ objects, space float64 }
	sums := map[string]sum{}
	byStage(p, func(stage string, _ []string, values []int64) {
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

// classify adds the stages of the profiles that were taken, if they were.
func (b *bed) classify(posts []post) error {
	file := b.profileFile(posts)
	if file == "" {
		return nil
	}
	p, err := readProfile(file)
	if err != nil {
		return err
	}
	var perEvent float64
	for _, c := range b.result.CPU {
		if c.Name == "relay" {
			perEvent = c.PerEvent
		}
	}
	b.result.Stages = stages(p, perEvent)
	if file = b.allocsFile(posts); file == "" {
		return nil
	}
	if p, err = readProfile(file); err != nil {
		return err
	}
	b.result.Stages = allocated(b.result.Stages, p, b.result.Mallocs, b.result.Bytes)
	return nil
}
