// Package bench measures a relay on this machine. A scenario starts a relay and a destination, posts numbered events,
// receives their deliveries, and prints throughput, latency and cost per event. The load generator (tools/bench/load)
// and the destination (tools/bench/sink) are separate processes, because they share the cores with the relay: CPU time
// is read from the kernel for each process, and the benchmark's own cost is always printed. Every event has its own
// number, so every run counts losses and duplicates. Memory is bounded however long a run lasts.
//
// Begin with definitions in scenarios.go, the table of scenarios, and benchRun in measure.go, which runs one.
package bench

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/eventrelay/relay/test/kafka"
	"github.com/eventrelay/relay/tools/bench/floor"
	"github.com/eventrelay/relay/tools/bench/load"
	"github.com/eventrelay/relay/tools/bench/sink"
)

// Scenario is one thing to measure.
type Scenario struct {
	Name, Summary string
	// Run parses its own flags and prints its figures; an error of the command line is a [MisuseError].
	Run func(ctx context.Context, args []string, stdout, stderr io.Writer) error
}

// Scenarios returns all scenarios, in the order in which help lists them.
func Scenarios() []Scenario {
	var out []Scenario
	for _, d := range definitions() {
		out = append(out, Scenario{d.name, d.summary, d.command})
	}
	return append(out, Scenario{"compare", compareSummary, compare},
		Scenario{"growth", growthSummary, growth},
		Scenario{"costs", costsSummary, costs},
		Scenario{"fill", fillSummary, fillStore},
		Scenario{"read", readSummary, read}, Scenario{"pages", pagesSummary, pages})
}

// Helper runs a helper process that a scenario starts besides the relay. known is false if there is none of that name.
func Helper(
	ctx context.Context, name string, args []string, stdin io.Reader, stdout, stderr io.Writer,
) (known bool, err error) {
	switch name {
	case "load":
		return true, load.Main(ctx, stdin, stdout)
	case "sink":
		return true, sink.Main(ctx, args, stdin, stdout, stderr)
	case "engine": // the only one that relay lacks
		return true, kafka.Main(ctx, args[min(1, len(args)):], stdout, stderr)
	case "floor-pipe":
		return true, floor.Main(ctx, args, stdout, stderr)
	}
	return false, nil
}

// lockFile is the file in a data directory that a running relay locks.
const lockFile = "relay.lock"

// MisuseError is an error in the command line.
type MisuseError struct{ error }

func (e MisuseError) Unwrap() error { return e.error }

// definition is a scenario that runs in a benchRun.
type definition struct {
	name, summary string
	run           func(context.Context, *benchRun) error
	flags         func(*options, *flag.FlagSet)                  // declares its own flags; nil = it has none
	presets       []string                                       // its own defaults of flags, as name=value
	start         func(context.Context, options) (*relay, error) // nil = startRelay
	peers         bool                                           // it can measure another webhook service
}

type options struct {
	self     string // this binary, for helper processes
	relay    string
	dir      string
	posters  int
	rate     int
	duration time.Duration
	size     int
	batch    int
	events   int
	fsync    bool
	idle     time.Duration
	profile  string
	stages   bool
	json     bool
	quiet    bool
	tls      bool
	http2    bool

	certificate string // kind of key of the relay's certificate, rsa or ecdsa; empty = it serves plain HTTP
	handshake   bool   // each post has a connection of its own

	endpoints  int  // busy endpoints; 0 = one, or endpointsPerNode for each node of a cluster
	configured int  // additional idle endpoints
	tenants    bool // each of them has a tenant of its own
	backlog    int  // events of paused endpoints that wait in the log
	stored     int  // events of the last day that are in the store before the load
	partitions int  // of the topics; 0 = the relay's default
	probe      int  // events a second to a second, healthy endpoint
	sameHost   bool // the other destination is slow, has a large in-flight window, and shares host and port
	stopped    bool // the relay is started without a dispatcher
	person     bool // somebody can sign in to the dashboard

	destinations int // of the endpoints of capacity
	failing      int // percent of the requests to them that fail

	serve              int      // nodes; 0 = dev
	roles              []string // of the nodes in turn; empty = each has all
	replicas           int      // of the topics of a cluster
	kafka              string
	deliver            string // URL of the first destination, for the floor's command line
	target, key, admin string
	pids               []int
	peer               *peer
	sinkListen         string
	sinkURL            string
	sinkHTTP           bool
}

// flags declares the flags of all scenarios.
func (o *options) flags(fs *flag.FlagSet) {
	fs.StringVar(&o.relay, "relay", o.relay, "binary under test")
	fs.StringVar(&o.dir, "data-dir", "", "data directory; empty = a new one that is removed afterwards")
	fs.IntVar(&o.posters, "posters", 32, "connections that post in a closed loop: each posts its next request after "+
		"the answer")
	fs.IntVar(&o.rate, "rate", 0, "events a second (with --batch: in batches) in an open loop, which slow answers do "+
		"not delay; 0 "+
		"= as fast as the posters can")
	fs.DurationVar(&o.duration, "duration", 20*time.Second, "how long to post")
	fs.IntVar(&o.size, "size", 1024, "bytes of an event's data")
	fs.IntVar(&o.batch, "batch", 0, "events per request, to the batch route; 0 = single events to the send route")
	fs.BoolVar(&o.fsync, "fsync", true, "acknowledge only records that are synced to disk")
	fs.DurationVar(&o.idle, "idle", 0, "before the load, also measure the idle relay for this long")
	fs.StringVar(&o.profile, "profile", "", "write a CPU profile of the relay under load to this file")
	fs.BoolVar(&o.stages, "stages", false, "take a CPU profile and print the cost of each stage; --profile does so too")
	fs.BoolVar(&o.json, "json", false, "print one line of JSON instead of the table")
	fs.BoolVar(&o.quiet, "quiet", false, "do not print a progress line each second")
	fs.IntVar(&o.configured, "configured", 0, "number of additional idle endpoints; --data-dir keeps them "+
		"for the next run")
	fs.BoolVar(&o.tenants, "tenants", false, "with --configured: each of these endpoints has a tenant of its own")
	fs.IntVar(&o.stored, "stored", 0, "number of events of the last 24 hours that the store has before the load")
	fs.IntVar(&o.partitions, "partitions", 0, "partitions of the started relay's topics; 0 = its default")
	fs.IntVar(&o.serve, "serve", 0, "start this many serve nodes with separate engine processes, instead of dev")
	fs.StringVar(&o.kafka, "kafka", "", "with --serve: host:port of a running Kafka; --pids includes its CPU time")
	fs.IntVar(&o.replicas, "replicas", 1, "with --kafka: replicas of each topic")
	fs.StringVar(&o.target, "target", "",
		"URL of a running relay, or of a load balancer in front of several; none is started")
	fs.StringVar(&o.key, "key", "", "with --target: an API key with the scope read_write")
	fs.StringVar(&o.admin, "admin", "", "with --target: host:port of its admin server, for metrics and profiles")
	fs.Func("pids", "with --target, --peer or --kafka: comma-separated process ids whose CPU time and memory are included",
		o.parsePids)
	fs.StringVar(&o.sinkListen, "sink-listen", "127.0.0.1:0", "address on which the destination listens")
	fs.StringVar(&o.sinkURL, "sink-url", "", "URL under which the relay reaches the destination; empty = the address "+
		"on which it listens")
	fs.BoolVar(&o.sinkHTTP, "sink-net-http", false,
		"serve the destination with net/http: uses more CPU, but accepts bodies "+
			"of unknown length")
}

func (o *options) parsePids(s string) error {
	for _, text := range strings.Split(s, ",") {
		pid, err := strconv.Atoi(text)
		if err != nil || pid <= 0 {
			return fmt.Errorf("%q is not a process id", text)
		}
		o.pids = append(o.pids, pid)
	}
	return nil
}

// validate returns all faults of the options at once.
func (o *options) validate() error {
	errs := []error{o.validateReplicas()}
	bound := func(name string, n, least, most int) {
		if n < least || n > most {
			errs = append(errs, fmt.Errorf("--%s: %d is out of range, use %d to %d", name, n, least, most))
		}
	}
	bound("posters", o.posters, 1, 4096)
	bound("rate", o.rate, 0, 1_000_000)
	bound("size", o.size, 0, 1<<20)
	bound("batch", o.batch, 0, 1000)
	bound("events", o.events, 0, 10_000_000)
	bound("serve", o.serve, 0, maxNodes)
	bound("endpoints", o.endpoints, 0, maxBusy)
	bound("configured", o.configured, 0, maxConfigured)
	bound("backlog", o.backlog, 0, maxBacklog)
	bound("stored", o.stored, 0, maxStored)
	bound("probe", o.probe, 0, 100_000)
	bound("partitions", o.partitions, 0, maxPartitions)
	if o.duration < 100*time.Millisecond || o.duration > 24*time.Hour {
		errs = append(errs, fmt.Errorf("--duration: %v is out of range, use 100ms to 24h", o.duration))
	}
	if o.target != "" && o.peer != nil {
		errs = append(errs, errors.New("--target and --peer: use only one of them"))
	}
	if o.target != "" && o.key == "" {
		errs = append(errs, errors.New("--target: --key is missing too"))
	}
	if o.target == "" && (o.key != "" || o.admin != "") {
		errs = append(errs, errors.New("--key, --admin: use them with --target"))
	}
	if o.kafka != "" && o.serve == 0 {
		errs = append(errs, errors.New("--kafka: use it with --serve"))
	}
	if o.serve > 0 && (o.target != "" || o.peer != nil) {
		errs = append(errs, errors.New("--serve: cannot be used with --target or --peer, which start nothing"))
	}
	if (o.configured > 0 || o.partitions > 0) && (o.target != "" || o.peer != nil) {
		errs = append(errs, errors.New(
			"--configured, --partitions: cannot be used with --target or --peer, which start nothing"))
	}
	if o.stored > 0 && (o.target != "" || o.peer != nil || o.serve > 0) {
		errs = append(errs, errors.New("--stored: cannot be used with --target, --peer or --serve"))
	}
	if o.stored > 0 && o.dir != "" {
		errs = append(errs, errors.New("--stored: cannot be used with --data-dir; fill it with relay-bench fill"))
	}
	if o.peer != nil && (o.endpoints > 0 || o.backlog > 0) {
		errs = append(errs, errors.New("--endpoints, --backlog: cannot be used with --peer"))
	}
	if o.certificate != "" && (o.target != "" || o.peer != nil || o.serve > 0) {
		errs = append(errs, errors.New("--certificate: cannot be used with --target, --peer or --serve"))
	}
	if o.stopped && (o.target != "" || o.serve > 0) {
		errs = append(errs, errors.New("--stopped: cannot be used with --target or --serve"))
	}
	if o.backlog > 0 && o.target != "" && o.admin == "" {
		errs = append(errs, errors.New("--backlog: --admin is missing; its metrics say when the backlog is parked"))
	}
	if len(o.pids) > 0 && o.target == "" && o.peer == nil && o.kafka == "" {
		errs = append(errs, errors.New("--pids: use it with --target, --peer or --kafka"))
	}
	if _, _, err := net.SplitHostPort(o.sinkListen); err != nil {
		errs = append(errs, fmt.Errorf("--sink-listen: %w", err))
	}
	if o.profile != "" && o.target != "" && o.admin == "" {
		errs = append(errs, errors.New("--profile: --admin is missing; the profile is read from there"))
	}
	return errors.Join(errs...)
}

// settings describes the run in the first line of a table.
func (o *options) settings() string {
	s := fmt.Sprintf("%d posters", o.posters)
	if o.batch > 0 {
		s += fmt.Sprintf(", batches of %d", o.batch)
	}
	if o.rate > 0 {
		s = fmt.Sprintf("%d/s", o.rate)
	}
	if o.events > 0 {
		s += fmt.Sprintf(", %d events", o.events)
	}
	s += fmt.Sprintf(", %d B", o.size)
	for _, x := range []struct {
		n    int
		what string
	}{{o.endpoints, "endpoints"}, {o.configured, "idle endpoints"}, {o.backlog, "parked in the log"},
		{o.stored, "in the store"}, {o.partitions, "partitions"}} {
		if x.n > 0 {
			s += fmt.Sprintf(", %d %s", x.n, x.what)
		}
	}
	if o.tenants {
		s += " of as many tenants"
	}
	if o.sameHost {
		s += ", a slow destination at the same host and port"
	}
	if o.stopped {
		s += ", no dispatcher while events are posted"
	}
	switch {
	case o.http2:
		s += ", HTTP/2"
	case o.tls:
		s += ", TLS"
	}
	if o.certificate != "" {
		s += ", over TLS with an " + strings.ToUpper(o.certificate) + " certificate"
	}
	if o.handshake {
		s += ", a connection for each post"
	}
	switch {
	case o.target != "":
		return s + ", " + o.target
	case o.peer != nil:
		return s + ", " + o.peer.Name
	}
	if o.serve > 0 {
		s += fmt.Sprintf(", %d serve nodes", o.serve)
	}
	if o.kafka != "" {
		return s + ", Kafka at " + o.kafka
	}
	return s + fmt.Sprintf(", fsync %t", o.fsync)
}

// command is a scenario's [Scenario.Run].
func (d definition) command(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	o, err := d.options(args, stderr)
	if err != nil {
		return err
	}
	r, err := d.measure(ctx, o, stderr)
	if err != nil {
		return err
	}
	return errors.Join(o.print(r, stdout), r.verdict())
}

// options parses a command line. Its errors are MisuseErrors.
func (d definition) options(args []string, stderr io.Writer) (options, error) {
	own, err := os.Executable()
	if err != nil {
		return options{}, err
	}
	o := options{self: own}
	if o.relay, err = relayBeside(); err != nil {
		return o, err
	}
	fs := newFlags(d.name, "[flags]", d.summary)
	o.flags(fs)
	if d.peers {
		fs.Func("peer", "file that describes another, running webhook service, see tools/bench/README.md",
			func(file string) (err error) {
				o.peer, err = readPeer(file)
				return err
			})
	}
	if d.flags != nil {
		d.flags(&o, fs)
	}
	for _, p := range d.presets {
		name, value, _ := strings.Cut(p, "=")
		f := fs.Lookup(name)
		f.DefValue = value
		if err := f.Value.Set(value); err != nil {
			panic("BUG: preset " + p + ": " + err.Error())
		}
	}
	if err := parse(fs, args, stderr); err != nil {
		return o, err
	}
	if fs.NArg() > 0 {
		return o, MisuseError{fmt.Errorf("%s takes no argument %q", d.name, fs.Arg(0))}
	}
	err = o.validate()
	if d.name == "drain" && (o.stages || o.profile != "") {
		err = errors.Join(err, errors.New(
			"--stages, --profile: cannot be used with drain, whose duration is not known beforehand"))
	}
	if d.name == "capacity" {
		err = errors.Join(err, o.validateCapacity())
	}
	if d.start != nil && (o.target != "" || max(o.serve, o.configured, o.partitions, o.stored) > 0) {
		err = errors.Join(err, fmt.Errorf(
			"--target, --serve, --configured, --partitions, --stored: cannot be used with %s, which starts its own pipeline",
			d.name))
	}
	if err != nil {
		return o, MisuseError{err}
	}
	return o, nil
}

// measure runs a scenario.
func (d definition) measure(ctx context.Context, o options, stderr io.Writer) (*Result, error) {
	start := d.start
	switch {
	case o.peer != nil:
		start = o.peer.start
	case start == nil || o.target != "":
		start = startRelay
	}
	b, err := newBenchRun(ctx, o, d.name, stderr, start)
	if err != nil {
		return nil, err
	}
	defer b.close()
	if o.target == "" && o.peer == nil {
		b.result.Version = versionOf(ctx, o.relay)
	}
	if err := d.run(ctx, b); err != nil {
		return nil, err
	}
	return &b.result, nil
}

// print writes the result as a table or, with --json, as one line of JSON.
func (o *options) print(r *Result, stdout io.Writer) error {
	if o.json {
		return json.NewEncoder(stdout).Encode(r)
	}
	table(stdout, r)
	return nil
}

// verdict returns an error if events were lost: the costs of such a run mean nothing.
func (r *Result) verdict() error {
	if r.Lost > 0 {
		return fmt.Errorf("%d events were lost", r.Lost)
	}
	return nil
}
