package bench

import (
	"bytes"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/pprof/profile"

	"github.com/eventrelay/relay/tools/bench/count"
)

// example has a bit of everything.
func example() *Result {
	var h count.Durations
	for i := range 20_000 {
		h.Add(time.Duration(i) * time.Microsecond)
	}
	r := &Result{
		Scenario: "mixed", Settings: "500/s", Version: "v1", Began: time.Now(), Machine: thisMachine(), PostSeconds: 2,
		AllSeconds: 3, Accepted: 20_000, Refused: 3, Delivered: 19_999, Lost: 1, Duplicates: 2,
		CPU: processes(map[string]time.Duration{"relay": time.Second, "clickhouse": time.Second, "load": time.Second},
			time.Second, 1000), RSSIdle: 1 << 20, RSSMax: 2 << 20,
		Idle: processes(map[string]time.Duration{"relay": time.Millisecond}, time.Second, 0), Batches: []Batch{{"rows", 12}},
		Figures: []Figure{{"drained", 12345, "a second"}},
		Stages:  []Stage{{Name: "broker", Share: 0.5, PerEvent: 10, Syscalls: 0.2}, {Name: "GC", Share: 0.25, PerEvent: 5}},
	}
	for _, name := range []string{"single", "fan-out"} {
		r.Streams = append(r.Streams, Stream{
			Name: name, Accepted: 10_000, Refused: 3, Late: 5, Answers: map[int]int64{202: 1, 503: 3}, NoAnswer: "EOF",
			Accept: newLatency(h),
			Arrivals: []Arrival{{Destination: 0, Arrived: 10_000, Lost: 1, Duplicates: 2, Requests: 20_000,
				Latency: newLatency(h)}, {Destination: 1, Latency: newLatency(h)}},
		})
	}
	for i := range 5 {
		r.Series = append(r.Series,
			Sample{At: float64(i + 1), Accepted: 100, Arrived: float64(90 + i), AcceptP99: 3, ArrivalP50: 1, ArrivalP99: 20,
				CPU: map[string]float64{"relay": 0.5}, RSS: 1 << 28})
	}
	return r
}

func TestTableSaysWhatWentWrong(t *testing.T) {
	t.Parallel()
	var b bytes.Buffer
	table(&b, example())
	for _, want := range []string{
		"20000 accepted, 3 refused, 1 lost, 2 duplicates", "CPU µs/event 2000 (relay 1000.0, clickhouse 1000.0, benchmark: " +
			"load 1000.0)", "1 lost  2 duplicates  20000 requests",
		"posted more than 10 ms late", "202 × 1, 503 × 3", "without an answer: EOF", "drained: 12345 a second", "rows 12.0",
		"relay 0.10 %", "broker          50.0 %    10.0 µs/event  in system calls  20 %",
	} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("the table lacks %q:\n%s", want, b.String())
		}
	}
}

func TestStagesOfStacks(t *testing.T) {
	t.Parallel()
	for want, stack := range map[string]string{
		"broker": "runtime.memmove < github.com/twmb/franz-go/pkg/kfake.(*Cluster).pushBatch < " +
			"sync.(*WaitGroup).Go.func1",
		"barrier": "internal/runtime/syscall/linux.Syscall6 < syscall.Syscall < golang.org/x/sys/unix.Fdatasync < " +
			"github.com/eventrelay/relay/pkg/segment.fdatasync < github.com/eventrelay/relay/pkg/segment.(*Log).sync",
		"HTTP server": "syscall.Syscall < internal/poll.(*FD).Write < net.(*conn).Write < " +
			"net/http.checkConnErrorWriter.Write < bufio.(*Writer).Flush < net/http.(*conn).serve",
		"HTTP client": "syscall.Syscall < net.(*conn).Write < net/http.persistConnWriter.Write < " +
			"net/http.(*persistConn).writeLoop",
		"accept": "runtime.mallocgc < encoding/json.Unmarshal < github.com/eventrelay/relay/api.parseSend < " +
			"net/http.HandlerFunc.ServeHTTP < net/http.(*conn).serve",
		"sign": "crypto/sha256.block < crypto/hmac.(*hmac).Write < github.com/eventrelay/relay/pkg/sign.Sign < " +
			"github.com/eventrelay/relay/dispatcher.(*Dispatcher).attempt",
		"lanes, deliver": "runtime.mapaccess1 < github.com/eventrelay/relay/pkg/event.(*Event).Record < " +
			"github.com/eventrelay/relay/dispatcher.(*Dispatcher).deliver",
		"GC": "runtime.scanobject < runtime.gcDrain < runtime.gcAssistAlloc < runtime.mallocgc < " +
			"github.com/eventrelay/relay/api.parseSend",
		"scheduler":  "runtime.futex < runtime.findRunnable < runtime.schedule < runtime.mcall",
		"produce":    "github.com/twmb/franz-go/pkg/kgo.(*sink).drain",
		"consume":    "github.com/twmb/franz-go/pkg/kgo.(*source).fetch",
		"log client": "github.com/twmb/franz-go/pkg/kgo.(*brokerCxn).handleResps",
		"store rows": "github.com/ClickHouse/ch-go/proto.(*ColStr).Append < " +
			"github.com/eventrelay/relay/store.(*Writer).add",
		"others": "runtime.memmove < main.main",
	} {
		if got := stageOf(strings.Split(stack, " < ")); got != want {
			t.Errorf("%s is %s, want %s", stack, got, want)
		}
	}
}

func TestStagesOfAProfile(t *testing.T) {
	t.Parallel()
	p := &profile.Profile{}
	sample := func(value int64, stack ...string) {
		s := &profile.Sample{Value: []int64{1, value}}
		for _, name := range stack {
			f := &profile.Function{ID: uint64(len(p.Function) + 1), Name: name}
			p.Function = append(p.Function, f)
			s.Location = append(s.Location, &profile.Location{Line: []profile.Line{{Function: f}}})
		}
		p.Sample = append(p.Sample, s)
	}
	sample(30, "runtime.memmove", "github.com/twmb/franz-go/pkg/kfake.x")
	sample(10, "syscall.Syscall", "github.com/twmb/franz-go/pkg/kfake.x")
	sample(60, "runtime.gcBgMarkWorker")
	got := stages(p, 200)
	want := []Stage{{Name: "GC", Share: 0.6, PerEvent: 120}, {Name: "broker", Share: 0.4, PerEvent: 80, Syscalls: 0.25}}
	if len(got) != 2 || got[0] != want[0] || got[1] != want[1] {
		t.Errorf("%v, want %v", got, want)
	}
	if got := stages(&profile.Profile{}, 1); len(got) != 0 {
		t.Errorf("an empty profile has stages %v", got)
	}
	var sum float64
	for _, s := range got {
		sum += s.Share
	}
	if math.Abs(sum-1) > 1e-9 {
		t.Errorf("shares add up to %v", sum)
	}
}
