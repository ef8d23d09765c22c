package bench

import (
	"fmt"
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
	{relayModule + "dispatcher/recovery.", "others"}, {relayModule + "dispatcher.", "lanes, deliver"},
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

// stages sums a CPU profile up, the dearest stage first. perEvent is what an event costs in all, in microseconds.
func stages(p *profile.Profile, perEvent float64) []Stage {
	var all float64
	sums, inKernel := map[string]float64{}, map[string]float64{}
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
		v, stage := float64(s.Value[len(s.Value)-1]), stageOf(stack)
		all += v
		sums[stage] += v
		if len(stack) > 0 && kernel(stack[0]) {
			inKernel[stage] += v
		}
	}
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

// classify adds the stages of the profile that was taken, if one was.
func (b *bed) classify() error {
	file := b.profileFile()
	if file == "" {
		return nil
	}
	f, err := os.Open(file)
	if err != nil {
		return err
	}
	defer f.Close()
	p, err := profile.Parse(f)
	if err != nil {
		return fmt.Errorf("read profile: %w", err)
	}
	var perEvent float64
	for _, c := range b.result.CPU {
		if c.Name == "relay" {
			perEvent = c.PerEvent
		}
	}
	b.result.Stages = stages(p, perEvent)
	return nil
}
