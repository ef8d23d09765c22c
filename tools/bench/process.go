package bench

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/procfs"
	"golang.org/x/sync/errgroup"

	"github.com/eventrelay/relay/tools/bench/load"
	"github.com/eventrelay/relay/tools/bench/sink"
)

// child is a helper process of the benchmark. It is controlled by lines of JSON on its standard input and output.
type child struct {
	cmd *exec.Cmd
	in  io.WriteCloser
	out *json.Decoder
	enc *json.Encoder
}

func startChild(ctx context.Context, o options, stderr io.Writer, args ...string) (*child, error) {
	c := &child{cmd: exec.CommandContext(ctx, o.self, args...)}
	c.cmd.Stderr = stderr
	in, err := c.cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := c.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	c.in, c.out, c.enc = in, json.NewDecoder(out), json.NewEncoder(in)
	if err := c.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", args[0], err)
	}
	return c, nil
}

// close ends the process by closing its input, and waits for it.
func (c *child) close() error {
	return errors.Join(c.in.Close(), c.cmd.Wait())
}

// cpu returns the CPU time that the process has used so far.
func (c *child) cpu() time.Duration { return cpu(c.cmd.Process.Pid) }

// destination is the sink's process.
type destination struct {
	*child
	base string // URL without a path
}

func startSink(ctx context.Context, o options, stderr io.Writer) (*destination, error) {
	args := []string{"sink", "--listen", o.sinkListen}
	if o.tls {
		args = append(args, "--tls", filepath.Join(o.dir, "sink.pem"), fmt.Sprintf("--http2=%t", o.http2))
	}
	if o.sinkHTTP {
		args = append(args, "--net-http")
	}
	c, err := startChild(ctx, o, stderr, args...)
	if err != nil {
		return nil, err
	}
	var hello sink.Hello
	if err := c.out.Decode(&hello); err != nil {
		return nil, errors.Join(fmt.Errorf("start sink on %s: %w", o.sinkListen, err), c.close())
	}
	d := &destination{child: c, base: hello.URL}
	if o.sinkURL != "" {
		d.base = strings.TrimSuffix(o.sinkURL, "/")
	}
	return d, nil
}

// url returns the address of destination n; [sink] documents the behaviours.
func (d *destination) url(n int, behaviour string) string {
	return fmt.Sprintf("%s/%d/%s", d.base, n, behaviour)
}

// report returns what has arrived so far.
func (d *destination) report(q sink.Query) (r sink.Report, err error) {
	if err := d.enc.Encode(q); err != nil {
		return r, fmt.Errorf("ask sink: %w", err)
	}
	if err := d.out.Decode(&r); err != nil {
		return r, fmt.Errorf("read sink's report: %w", err)
	}
	return r, nil
}

// startLoad starts a process that posts a plan.
func startLoad(ctx context.Context, o options, stderr io.Writer, p load.Plan) (*child, error) {
	if err := p.Validate(); err != nil {
		return nil, fmt.Errorf("load: %w", err)
	}
	c, err := startChild(ctx, o, stderr, "load")
	if err != nil {
		return nil, err
	}
	if err := c.enc.Encode(p); err != nil {
		return nil, errors.Join(fmt.Errorf("load: %w", err), c.close())
	}
	return c, nil
}

// generate posts streams from a helper process and calls each with every report. It returns the last report and the CPU
// time of the process.
func (b *benchRun) generate(
	ctx context.Context, each func(load.Report, time.Duration) error, posts ...post,
) (load.Report, time.Duration, error) {
	var r load.Report
	c, err := startLoad(ctx, b.o, b.stderr, plan(posts...))
	for err == nil && !r.Done {
		r = load.Report{}
		if err = c.out.Decode(&r); err == nil && each != nil {
			err = each(r, c.cpu())
		}
	}
	if c == nil {
		return r, 0, err
	}
	used := c.cpu()
	if err = errors.Join(err, c.close()); err != nil {
		return r, 0, fmt.Errorf("load: %w", err)
	}
	return r, used, nil
}

func plan(posts ...post) (p load.Plan) {
	for _, post := range posts {
		p.Streams = append(p.Streams, post.Stream)
	}
	return p
}

// background is a stream that is posted while something else is measured.
type background struct {
	*child
	reports errgroup.Group
	last    load.Report
}

// startBackground posts a stream until its end, or until [background.stop].
func (b *benchRun) startBackground(ctx context.Context, p post) (*background, error) {
	c, err := startLoad(ctx, b.o, b.stderr, plan(p))
	if err != nil {
		return nil, err
	}
	g := &background{child: c}
	g.reports.Go(func() (err error) {
		for err == nil && !g.last.Done {
			g.last = load.Report{}
			err = c.out.Decode(&g.last)
		}
		return err
	})
	return g, nil
}

// stop stops the stream and returns how many events per second were accepted, and how many were refused in all.
func (g *background) stop() (rate float64, refused int64, err error) {
	if g == nil {
		return 0, 0, nil
	}
	if err := errors.Join(g.in.Close(), g.reports.Wait(), g.cmd.Wait()); err != nil {
		return 0, 0, fmt.Errorf("load: %w", err)
	}
	t := g.last.Streams[0]
	return float64(t.Accepted) / time.Since(t.Began).Seconds(), t.Refused, nil
}

// withChildren returns processes and all their descendants.
func withChildren(pids ...int) []int {
	for i := 0; i < len(pids); i++ {
		files, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pids[i]))
		for _, f := range files {
			b, _ := os.ReadFile(f)
			for _, field := range strings.Fields(string(b)) {
				if pid, err := strconv.Atoi(field); err == nil {
					pids = append(pids, pid)
				}
			}
		}
	}
	return pids
}

// engines are the parts of command lines by which engine processes are recognised.
var engines = []struct{ in, name string }{
	{"engine clickhouse", "clickhouse"}, {"clickhouse-server", "clickhouse"}, {"engine kafka", "kafka"},
	{"kafka.Kafka", "kafka"},
	{"engine redis", "redis"}, {"redis-server", "redis"},
}

// processKind returns what a process is, for the table: an engine by its command line, otherwise the relay, with its
// roles if they were given.
func processKind(pid int) string {
	p, err := procfs.NewProc(pid)
	if err != nil {
		return "relay"
	}
	words, _ := p.CmdLine()
	line := strings.Join(words, " ")
	for _, e := range engines {
		if strings.Contains(line, e.in) {
			return e.name
		}
	}
	if i := slices.Index(words, "--roles"); i >= 0 && i+1 < len(words) {
		return "relay " + words[i+1]
	}
	return "relay"
}

// cpu returns the user and system time of processes, in steps of 10 ms. Ended processes count 0.
func cpu(pids ...int) (sum time.Duration) {
	for _, pid := range pids {
		sum += time.Duration(stat(pid).CPUTime() * float64(time.Second))
	}
	return sum
}

// rss returns the resident memory of processes, in bytes.
func rss(pids ...int) (sum int64) {
	for _, pid := range pids {
		sum += int64(stat(pid).ResidentMemory())
	}
	return sum
}

func stat(pid int) procfs.ProcStat {
	p, err := procfs.NewProc(pid)
	if err != nil {
		return procfs.ProcStat{}
	}
	s, _ := p.Stat()
	return s
}

// loadAverage returns the machine's load average of the last minute.
func loadAverage() float64 {
	proc, err := procfs.NewDefaultFS()
	if err != nil {
		return 0
	}
	load, err := proc.LoadAvg()
	if err != nil {
		return 0
	}
	return load.Load1
}

// diskUse returns the size of all files of a directory, in bytes.
func diskUse(dir string) int64 {
	var total int64
	_ = filepath.Walk(dir, func(_ string, info os.FileInfo, err error) error {
		if err == nil && info.Mode().IsRegular() {
			total += info.Size()
		}
		return nil
	})
	return total
}
