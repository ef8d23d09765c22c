// Package plan computes what a cluster needs for a given work: brokers, nodes, servers, cores, memory and disks. It
// is a linear model of measurements; tools/bench/capacity.md says how each of its constants was measured
// and how far the model is from runs that it was not made from. Begin with Work and For.
package plan

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
)

// Work is what a cluster shall do. All rates are per second, all sizes in bytes.
type Work struct {
	Events        float64 `json:"events_per_second"` // mean of a day
	Peak          float64 `json:"peak"`              // events in the busiest minute ÷ Events
	Size          int     `json:"size"`              // of a body, in the mean
	Destinations  float64 `json:"destinations"`      // that an event is delivered to, in the mean
	Attempts      float64 `json:"attempts"`          // requests for a delivery, in the mean
	RetentionDays int     `json:"retention_days"`    // how long events stay readable
	LogHours      int     `json:"log_hours"`         // how long the log holds everything while ClickHouse is unavailable
	Compression   float64 `json:"compression"`       // bytes of a body on ClickHouse's disk ÷ Size
	Deduplicated  float64 `json:"deduplicated"`      // share of the events with a key that Redis keeps, 0 to 1
	Cores         int     `json:"cores"`             // of each machine
}

// Usual is a Work with the values of what is usually not given.
func Usual() Work {
	return Work{Peak: 3, Destinations: 1, Attempts: 1.1, RetentionDays: 30, LogHours: 24,
		Compression: bodyCompression, Deduplicated: 1, Cores: 4}
}

// Validate reports all faults at once, each with the flag of relay plan.
func (w Work) Validate() error {
	var errs []error
	bound := func(flag string, v, least, most float64) {
		if !(v >= least && v <= most) { // NaN is refused too
			errs = append(errs, fmt.Errorf("--%s: %s is out of range, use %s to %s", flag, number(v), number(least),
				number(most)))
		}
	}
	bound("events-per-second", w.Events, 0.01, 1e6)
	bound("peak", w.Peak, 1, 1000)
	bound("size", float64(w.Size), 1, 10<<20)
	bound("destinations", w.Destinations, 0, 50)
	bound("attempts", w.Attempts, 1, 50)
	bound("retention", float64(w.RetentionDays), 1, 3650)
	bound("log-hours", float64(w.LogHours), 1, 720)
	bound("compression", w.Compression, 0.01, 2)
	bound("deduplicated", w.Deduplicated, 0, 1)
	bound("cores", float64(w.Cores), 1, 256)
	return errors.Join(errs...)
}

// Part is one kind of machine of the cluster.
type Part struct {
	Name  string `json:"name"`  // kafka, clickhouse, redis, or the roles of relay nodes
	Count int    `json:"count"` // machines
	// Cores are those in use at the peak, of all machines together.
	Cores    float64 `json:"cores_at_peak"`
	MemoryGB int     `json:"memory_gb"` // of each machine
	DiskGB   int     `json:"disk_gb"`   // of each machine; 0: it keeps no data
}

// Plan is what a cluster needs.
type Plan struct {
	Work         Work    `json:"work"`
	PeakEvents   float64 `json:"peak_events_per_second"`
	PeakRequests float64 `json:"peak_requests_per_second"`
	Parts        []Part  `json:"parts"`
	Partitions   int     `json:"partitions"` // RELAY_PARTITIONS
	Replicas     int     `json:"replicas"`   // RELAY_REPLICATION_FACTOR
	// LogBytes are the bytes of one event in the log, in one replica. StoreBytes are its bytes in ClickHouse, compressed.
	LogBytes   float64      `json:"log_bytes_per_event"`
	StoreBytes float64      `json:"store_bytes_per_event"`
	Assumed    []Assumption `json:"assumed"`
}

// Assumption is a figure of the plan and where it comes from.
type Assumption struct {
	What  string `json:"what"`
	Value string `json:"value"`
	From  string `json:"from"`
}

// For computes the plan of a valid work.
func For(w Work) Plan {
	p := Plan{Work: w, PeakEvents: w.Events * w.Peak, Replicas: replicas, LogBytes: w.logBytes(),
		StoreBytes: w.storeBytes()}
	p.PeakRequests = p.PeakEvents * w.requests()
	nodes, dispatchers := w.nodes(p.PeakEvents)
	p.Partitions = w.partitions(p, dispatchers)
	p.Parts = append([]Part{w.kafka(p)}, nodes...)
	p.Parts = append(p.Parts, w.clickhouse(p), w.redis(p))
	p.Assumed = w.assumptions(p)
	return p
}

// requests are those of one event.
func (w Work) requests() float64 { return w.Destinations * w.Attempts }

// retries are the failed requests of one event: each is a record in a retry topic.
func (w Work) retries() float64 { return w.Destinations * (w.Attempts - 1) }

// logBytes are the bytes of an event, its outcomes and its retries in the log, in one replica.
func (w Work) logBytes() float64 {
	return w.keptBytes() + w.retries()*(logRetry+float64(w.Size))
}

// keptBytes are those of logBytes that stay until ClickHouse has them. Records of retry topics go when they are sent.
func (w Work) keptBytes() float64 {
	return logEvent + float64(w.Size) + logDestination*w.Destinations + logOutcome*w.requests()
}

// storeBytes are the bytes of an event with its deliveries and attempts in ClickHouse, merged and compressed.
func (w Work) storeBytes() float64 {
	return storeEvent + w.Compression*float64(w.Size) + storeDelivery*w.Destinations + storeAttempt*w.requests()
}

// CPU returns how many cores a kind of process uses at that many events a second, all of its processes together.
func (w Work) CPU(process string, events float64) float64 {
	c, kb := costs[process], float64(w.Size)/1000
	micros := c.event + c.eventKB*kb + (c.request+c.requestKB*kb)*w.requests() + c.retry*w.retries()
	return c.running + events*micros/1e6
}

// machines returns how many machines have that many cores free, when each is loaded as far as planned.
func (w Work) machines(cores float64) int { return int(math.Ceil(cores / (float64(w.Cores) * load))) }

func (w Work) kafka(p Plan) Part {
	cores := w.CPU(Kafka, p.PeakEvents)
	// One broker may fail: the others carry the load then.
	n := max(minBrokers, w.machines(cores)+1)
	kept := w.Events*w.keptBytes()*float64(w.LogHours)*3600 + p.PeakEvents*p.LogBytes*keepMinutes*60
	kept += float64(p.Partitions) * keptOutcomes * logOutcome
	cached := p.PeakEvents * p.LogBytes * cachedSeconds * float64(p.Replicas) / float64(n)
	return Part{Name: Kafka, Count: n, Cores: cores, MemoryGB: max(brokerGB, 1+gigabytes(cached)),
		DiskGB: max(minDiskGB, gigabytes(kept*float64(p.Replicas)/float64(n)/full))}
}

// nodes returns the nodes of the relay, and how many of them dispatch. Three nodes with all roles do as long as two of
// them can carry everything; more work is divided by role, with one node more of each role than needed.
func (w Work) nodes(events float64) (parts []Part, dispatchers int) {
	all := Part{Name: allRoles, Count: minNodes, MemoryGB: nodeGB}
	for _, role := range Nodes {
		cores := w.CPU(role, events)
		all.Cores += cores
		parts = append(parts, Part{Name: role, Count: w.machines(cores) + 1, Cores: cores, MemoryGB: nodeGB})
	}
	if w.machines(all.Cores) < all.Count {
		return []Part{all}, all.Count
	}
	for _, part := range parts {
		if part.Name == Dispatch {
			dispatchers = part.Count
		}
	}
	return parts, dispatchers
}

// partitions returns a multiple of the default, with several partitions for each node that dispatches.
func (w Work) partitions(p Plan, dispatchers int) int {
	need := max(float64(dispatchers*partitionsPerNode), max(p.PeakEvents, p.PeakRequests)/requestsPerPartition)
	return min(newPartitions*max(1, int(math.Ceil(need/newPartitions))), maxPartitions)
}

func (w Work) clickhouse(p Plan) Part {
	cores := w.CPU(ClickHouse, p.PeakEvents) + p.PeakEvents*merging/1e6
	bytes := w.Events * p.StoreBytes * 86400 * float64(w.RetentionDays)
	shards := max(1, w.machines(cores), int(math.Ceil(bytes/full/shardBytes)))
	return Part{Name: ClickHouse, Count: shards, Cores: cores, MemoryGB: max(clickhouseGB, w.Cores*clickhouseCoreGB),
		DiskGB: max(minDiskGB, gigabytes(bytes/float64(shards)/full))}
}

func (w Work) redis(p Plan) Part {
	claims := w.Events * w.Deduplicated * claimSeconds * claimBytes
	return Part{Name: Redis, Count: 1, Cores: w.CPU(Redis, p.PeakEvents), MemoryGB: 1 + gigabytes(claims)}
}

// gigabytes rounds up to whole gigabytes.
func gigabytes(bytes float64) int { return int(math.Ceil(bytes / 1e9)) }

// measurements is where the figures were measured.
const measurements = "tools/bench/capacity.md"

// assumptions lists every figure of the plan that is not of the work itself.
func (w Work) assumptions(p Plan) []Assumption {
	cpu := func(process string) string {
		return fmt.Sprintf("%.2f cores + %s µs an event", costs[process].running, number(w.microseconds(process)))
	}
	out := []Assumption{
		{"peak", number(w.Peak) + " times the mean", "--peak"},
		{"log", number(p.LogBytes) + " B an event in each of " + number(replicas) + " replicas", "measured, not compressed"},
		{"log's disks", fmt.Sprintf("room for %d h without ClickHouse and %d min at the peak, %.0f %% full", w.LogHours,
			keepMinutes, 100*full), "--log-hours; RELAY_LOG_KEEP_MINUTES"},
		{"store", number(p.StoreBytes) + " B an event, bodies at " + number(w.Compression) + " of their size",
			"measured after merges; --compression"},
		{"store's disks", fmt.Sprintf("%d days of the mean rate, %.0f %% full, up to %.0f TB a server", w.RetentionDays,
			100*full, shardBytes/1e12), "--retention"},
	}
	for _, process := range append(Nodes, Kafka, ClickHouse, Redis) {
		out = append(out, Assumption{"CPU of " + process, cpu(process), "measured"})
	}
	return append(out,
		Assumption{"merging", fmt.Sprintf("%d µs of ClickHouse's CPU an event besides", merging),
			"measured: all parts merged once"},
		Assumption{"range", "a linear model of 60 to 1,000 events a second and 70 to 930 requests; more is extrapolated",
			measurements},
		Assumption{"not included", "reads and searches, TLS at ingest, transformations, destinations that hang",
			"the other part of the load is for them"},
		Assumption{"load", fmt.Sprintf("%.0f %% of %d cores at the peak", 100*load, w.Cores), "60 % is assumed; --cores"},
		Assumption{"failures", "one broker and one node of each role may fail",
			"assumed; ClickHouse and Redis have no spare"},
		Assumption{"partitions", fmt.Sprintf("%d for each node that dispatches, up to %d requests a second each",
			partitionsPerNode, requestsPerPartition), "tools/bench/README.md: one took six times as many"},
		Assumption{"memory of a node", fmt.Sprintf("%d GB", nodeGB), "measured 0.4 GB at most; the rest is for bursts"},
		Assumption{"memory of a broker", fmt.Sprintf("%d GB and %d s of the log", brokerGB, cachedSeconds),
			"assumed; its process took 0.7 GB"},
		Assumption{"memory of ClickHouse", fmt.Sprintf("%d GB a core, at least %d", clickhouseCoreGB, clickhouseGB),
			"assumed; its process took 0.5 GB while it wrote"},
		Assumption{"memory of Redis", fmt.Sprintf("1 GB, and %d B for each event of %d h that is deduplicated: %s of all",
			claimBytes, claimSeconds/3600, number(w.Deduplicated)), "measured; --deduplicated"},
	)
}

// microseconds is the CPU of a kind of process for one event, without what it uses while it runs.
func (w Work) microseconds(process string) float64 {
	return (w.CPU(process, 1) - costs[process].running) * 1e6
}

// Kinds of processes. The nodes are named by their roles.
const (
	Kafka      = "kafka"
	ClickHouse = "clickhouse"
	Redis      = "redis"
	Accept     = "ingest,api"
	Dispatch   = "dispatch"
	Write      = "write"
)

// Nodes are the kinds of nodes in the order of an event.
var Nodes = []string{Accept, Dispatch, Write}

const allRoles = "ingest,dispatch,write,api"

// cost is the CPU of one kind of process.
type cost struct {
	running float64 // cores, as soon as a few events come each second: what gathers is paid once
	// Microseconds of an event, of a request to a destination and of a retry, and what each takes more for each KB of
	// the body. Those of Kafka are of all brokers together, with three replicas; those of ClickHouse are without most
	// merges.
	event, eventKB, request, requestKB, retry float64
}

// costs are fitted to the runs in tools/bench/capacity.md, in CPU time of two shared cores (AMD EPYC, virtual). A test
// compares them with these runs and with others.
var costs = map[string]cost{
	Accept:     {running: 0.0155, event: 66, eventKB: 2.5},
	Dispatch:   {running: 0.0225, request: 76, requestKB: 4.5, retry: 96},
	Write:      {running: 0.017, event: 12.5, eventKB: 1.2, request: 11.5, retry: 28},
	Kafka:      {running: 0.16, event: 400, eventKB: 16, request: 50, retry: 480},
	ClickHouse: {running: 0.033, event: 46, eventKB: 9.6, request: 55, retry: 155},
	Redis:      {running: 0.002, request: 0.1},
}

// merging is the CPU of ClickHouse for merging the rows of an event once more, in microseconds: 8 to 101 were measured.
const merging = 80

// Bytes, from the same runs.
const (
	logEvent       = 470 // record of an event, without its body: envelope and headers
	logDestination = 32  // more for each destination
	logOutcome     = 920 // record of an attempt
	logRetry       = 650 // record in a retry topic, without the event's body, which is in it too

	storeEvent      = 82    // an event in all tables, without its body and its deliveries
	storeDelivery   = 22    // a delivery
	storeAttempt    = 97    // an attempt
	bodyCompression = 0.225 // a body on disk: JSON of orders, invoices and commits

	claimBytes = 240 // a key of deduplication in Redis
)

// What is not measured but chosen.
const (
	load             = 0.6 // of a machine's cores at the peak
	full             = 0.7 // of a disk
	replicas         = 3
	minBrokers       = 3
	minNodes         = 3
	minDiskGB        = 20
	keepMinutes      = 15     // default of RELAY_LOG_KEEP_MINUTES
	keptOutcomes     = 10_000 // records that the topic outcomes keeps of each partition
	newPartitions    = 32     // default of RELAY_PARTITIONS
	maxPartitions    = 4096
	claimSeconds     = 86400
	cachedSeconds    = 60 // of the log that a broker should hold in memory, so that consumers do not read its disk
	brokerGB         = 4
	nodeGB           = 2
	clickhouseGB     = 8
	clickhouseCoreGB = 4
	shardBytes       = 4e12

	partitionsPerNode    = 8
	requestsPerPartition = 1000
)

// number formats a figure with three digits.
func number(v float64) string {
	text := strconv.FormatFloat(v, 'g', 3, 64)
	if strings.Contains(text, "e") {
		text = strconv.FormatFloat(v, 'f', 0, 64)
	}
	return text
}
