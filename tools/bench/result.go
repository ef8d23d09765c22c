package bench

import (
	"os"
	"runtime"
	"strings"
	"time"

	"github.com/eventrelay/relay/tools/bench/count"
)

// Result has the figures of a run. It is the JSON of --json, and the table shows it.
type Result struct {
	Scenario string    `json:"scenario"`
	Settings string    `json:"settings"` // of the scenario, as in the table's first line
	Version  string    `json:"version"`  // of the binary under test; empty with --target or --peer
	Began    time.Time `json:"began"`
	Machine  Machine   `json:"machine"`
	// PostSeconds is how long events were posted, AllSeconds the time until the last one arrived. Costs are of
	// AllSeconds.
	PostSeconds float64 `json:"post_seconds"`
	AllSeconds  float64 `json:"all_seconds"`

	Accepted   int64    `json:"accepted"`
	Refused    int64    `json:"refused"`
	Delivered  int64    `json:"delivered"` // distinct events, per destination
	Lost       int64    `json:"lost"`
	Duplicates int64    `json:"duplicates"`
	Streams    []Stream `json:"streams"`

	CPU []Process `json:"cpu"`
	// Mallocs and Bytes are the allocations per event of the relay's own process.
	Mallocs float64 `json:"mallocs_per_event"`
	Bytes   float64 `json:"bytes_per_event"`
	// Resident memory in bytes, engines included: before the load, the mean and the maximum under load.
	RSSIdle   int64 `json:"rss_idle"`
	RSSLoaded int64 `json:"rss_loaded"`
	RSSMax    int64 `json:"rss_max"`
	Disk      int64 `json:"disk_per_event"` // bytes
	// ReadyMS is the time from the start of the process to its ready line; 0 = it was already running.
	ReadyMS int64 `json:"ready_ms"`
	// Idle is the CPU use of an idle relay, in shares of a core by process; only with --idle.
	Idle    []Process `json:"idle,omitempty"`
	Batches []Batch   `json:"batches,omitempty"`
	Stages  []Stage   `json:"stages,omitempty"`
	Series  []Sample  `json:"series,omitempty"`
	// Figures are additional numbers of a scenario.
	Figures []Figure `json:"figures,omitempty"`
}

// Machine describes the machine of a run and its load.
type Machine struct {
	Cores      int     `json:"cores"`
	CPU        string  `json:"cpu"`
	System     string  `json:"system"`
	LoadBefore float64 `json:"load_before"` // average of a minute
	LoadAfter  float64 `json:"load_after"`
	Disk       Disk    `json:"disk"`
}

// Stream has the results of one stream of posts.
type Stream struct {
	Name     string        `json:"name"`
	Accepted int64         `json:"accepted"`
	Refused  int64         `json:"refused"`
	Late     int64         `json:"late"` // posted more than 10 ms after they were due
	Answers  map[int]int64 `json:"answers"`
	NoAnswer string        `json:"no_answer,omitempty"` // error of the first request without an answer
	Accept   Latency       `json:"accept"`              // from the due time to the answer
	// Arrivals has one entry for each destination that shall receive the stream, in order.
	Arrivals []Arrival `json:"arrivals"`
}

// Arrival has the arrivals at one destination.
type Arrival struct {
	Destination int     `json:"destination"`
	Arrived     int64   `json:"arrived"`
	Lost        int64   `json:"lost"` // accepted, but not arrived in time
	Duplicates  int64   `json:"duplicates"`
	Requests    int64   `json:"requests"`
	Latency     Latency `json:"latency"` // from the due time to the arrival
	// Retry is from an answer of 500 to the next request of the same event.
	Retry Latency `json:"retry"`
}

// Latency is a distribution with its quantiles, in milliseconds.
type Latency struct {
	P50  float64         `json:"p50_ms"`
	P90  float64         `json:"p90_ms"`
	P99  float64         `json:"p99_ms"`
	P999 float64         `json:"p999_ms"`
	Max  float64         `json:"max_ms"`
	All  count.Durations `json:"all"`
}

func newLatency(d count.Durations) Latency {
	ms := func(q float64) float64 { return float64(d.Quantile(q).Microseconds()) / 1000 }
	return Latency{ms(0.5), ms(0.9), ms(0.99), ms(0.999), ms(1), d}
}

// Process has the cost of one kind of process.
type Process struct {
	Name     string  `json:"name"`
	Seconds  float64 `json:"seconds"`
	PerEvent float64 `json:"us_per_event"`
	Cores    float64 `json:"cores"` // mean, 1 = one core
	// Resident memory in bytes under load: mean and maximum; 0 for the benchmark's own processes.
	RSS    int64 `json:"rss,omitempty"`
	RSSMax int64 `json:"rss_max,omitempty"`
}

// Batch is an average batch size.
type Batch struct {
	Name string  `json:"name"`
	Mean float64 `json:"mean"`
}

// Stage is a part of the relay's own CPU, from a profile.
type Stage struct {
	Name     string  `json:"name"`
	Share    float64 `json:"share"`        // of the relay's CPU
	PerEvent float64 `json:"us_per_event"` //
	Syscalls float64 `json:"syscalls"`     // share of the stage
	// Allocations per event, with --stages.
	Mallocs float64 `json:"mallocs_per_event"`
	Bytes   float64 `json:"bytes_per_event"`
}

// Figure is one more number.
type Figure struct {
	Name  string  `json:"name"`
	Value float64 `json:"value"`
	Unit  string  `json:"unit"`
}

// Sample is one second of a run.
type Sample struct {
	At         float64            `json:"at"` // seconds since the load began
	Accepted   float64            `json:"accepted_per_second"`
	Arrived    float64            `json:"arrived_per_second"`
	AcceptP99  float64            `json:"accept_p99_ms"` // of what was answered in this second
	ArrivalP50 float64            `json:"arrival_p50_ms"`
	ArrivalP99 float64            `json:"arrival_p99_ms"`
	CPU        map[string]float64 `json:"cores"`  // by process
	RSS        int64              `json:"rss"`    // bytes, of the relay and its engines
	Memory     map[string]int64   `json:"memory"` // the same by process
}

// thisMachine describes where the benchmark runs.
func thisMachine() Machine {
	return Machine{Cores: runtime.NumCPU(), CPU: cpuModel(), System: runtime.GOOS + "/" + runtime.GOARCH,
		LoadBefore: loadAverage()}
}

// cpuModel returns the name of the first processor, "" on systems other than Linux.
func cpuModel() string {
	text, _ := os.ReadFile("/proc/cpuinfo")
	_, rest, _ := strings.Cut(string(text), "model name\t: ")
	model, _, _ := strings.Cut(rest, "\n")
	return model
}
