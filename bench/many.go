package bench

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/eventrelay/relay/bench/load"
	"github.com/eventrelay/relay/pkg/config"
	"github.com/eventrelay/relay/pkg/id"
	"github.com/eventrelay/relay/pkg/wait"
)

// What there may be many of.
const (
	maxBusy       = 10_000
	maxConfigured = 200_000
	maxBacklog    = 50_000_000
	maxPartitions = 256
)

// idleName is what the endpoints that get nothing are called.
const idleName = "bench idle"

// configure sees to it that so many idle endpoints exist: one is made through the API, the others are copies of it in
// an export, each with secrets of its own, that is imported again.
func (b *benchRun) configure(ctx context.Context) error {
	if b.o.configured == 0 {
		return nil
	}
	before, began := b.r.rss(), time.Now()
	idle := []object{{"url": "http://127.0.0.1:9/idle"}}
	if _, err := b.r.makeEndpoint(ctx, object{"name": idleName, "destinations": idle}); err != nil {
		return err
	}
	spec := b.r.masterKeys
	if spec == "" {
		raw, err := os.ReadFile(filepath.Join(b.r.dir, "master.keys"))
		if err != nil {
			return err
		}
		spec = strings.TrimSpace(string(raw))
	}
	keys, err := config.NewKeyring(spec)
	if err != nil {
		return err
	}
	had, err := b.command(ctx, "config", "export")
	if err != nil {
		return err
	}
	document, made, err := multiply(had, keys, b.o.configured)
	if err != nil || made == 0 {
		return err
	}
	file := filepath.Join(b.o.dir, "bench-idle.json")
	if err := os.WriteFile(file, document, 0o600); err != nil {
		return err
	}
	if _, err := b.command(ctx, "config", "import", file); err != nil {
		return err
	}
	took := time.Since(began)
	if err := b.settle(ctx); err != nil {
		return err
	}
	b.add(
		Figure{"endpoints configured besides", float64(made), fmt.Sprintf("in %.1f s", took.Seconds())},
		Figure{"memory since then", float64(b.r.rss()-before) / (1 << 20), "MB more"})
	return os.Remove(file)
}

// command runs a command of an operator on what was started, and returns what it says.
func (b *benchRun) command(ctx context.Context, words ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, b.o.relay, append(words, "--data-dir", b.r.dir)...)
	var fault bytes.Buffer
	cmd.Stderr = &fault
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("relay %s: %w: %s", strings.Join(words, " "), err, fault.Bytes())
	}
	return out, nil
}

// multiply returns an export with as many idle endpoints as wanted, and how many of them are new.
func multiply(export []byte, keys *config.Keyring, wanted int) (document []byte, made int, err error) {
	var lines []exportLine
	var model *config.Endpoint
	head, err := config.ReadExport(bytes.NewReader(export), func(kind string, value json.RawMessage) error {
		lines = append(lines, exportLine{kind, bytes.Clone(value)})
		if kind != "endpoint" {
			return nil
		}
		var e config.Endpoint
		if err := json.Unmarshal(value, &e); err != nil {
			return err
		}
		if e.Name == idleName {
			model = &e
			wanted--
		}
		return nil
	})
	switch {
	case err != nil:
		return nil, 0, err
	case model == nil:
		return nil, 0, errors.New("the export has no idle endpoint")
	}
	for ; made < wanted; made++ {
		e, err := copyOf(model, keys, int32(made)%head.Partitions)
		if err != nil {
			return nil, 0, err
		}
		value, err := json.Marshal(e)
		if err != nil {
			return nil, 0, err
		}
		lines = append(lines, exportLine{"endpoint", value})
	}
	var out bytes.Buffer
	head.Entities = len(lines)
	err = config.WriteExport(&out, head, keys, func(yield func(string, json.RawMessage) bool) {
		for _, l := range lines {
			if !yield(l.kind, l.value) {
				return
			}
		}
	})
	return out.Bytes(), made, err
}

// exportLine is an entity of an export.
type exportLine struct {
	kind  string
	value json.RawMessage
}

// copyOf is another endpoint with the same settings, in a partition.
func copyOf(model *config.Endpoint, keys *config.Keyring, partition int32) (*config.Endpoint, error) {
	e, token := *model, id.Random("")
	hash := sha256.Sum256([]byte(token))
	e.ID, e.Partition, e.TokenHash = id.Random(id.Endpoint), partition, hash[:]
	e.Token = keys.SealString(e.ID, config.FieldToken, token)
	e.Destinations = slices.Clone(model.Destinations)
	for i := range e.Destinations {
		d := &e.Destinations[i]
		was := d.ID
		d.ID, d.Secrets = id.Random(id.Destination), slices.Clone(d.Secrets)
		for k, s := range d.Secrets {
			text, err := keys.OpenString(was, config.FieldSecret, s.Secret)
			if err != nil {
				return nil, err
			}
			d.Secrets[k].Secret = keys.SealString(d.ID, config.FieldSecret, text)
		}
	}
	return &e, nil
}

const (
	// waiters are the paused endpoints of a backlog: with as many it lies in every partition that has a busy one.
	waiters = 64
	// heldWithin bounds the time in which a backlog is put aside, for each event and in all at least.
	heldWithin, leastHeldWithin = time.Millisecond, time.Minute
)

// wait posts the backlog to endpoints that are paused, and waits until the dispatcher has put all of it aside.
func (b *benchRun) wait(ctx context.Context) error {
	if b.o.backlog == 0 {
		return nil
	}
	before, err := b.held(ctx)
	if err != nil {
		return err
	}
	began := time.Now()
	paused := object{"name": "bench backlog", "paused": true, "destinations": b.to("ok")}
	ids, err := b.r.makeEndpoints(ctx, waiters, paused)
	if err != nil {
		return err
	}
	at := pace{conns: 2, batch: min(1000, b.o.backlog)}
	p := b.postAt(at, "backlog", b.r.events(ids[0])).inTurn(ids).count(b.o.backlog)
	r, _, err := b.generate(ctx, b.postedProgress("backlog: %d of %d posted", b.o.backlog), p)
	if err != nil {
		return err
	}
	if t := r.Streams[0]; t.Accepted != p.Events {
		return fmt.Errorf("backlog: %d of %d events were refused; answers by status: %v", t.Refused, p.Events, t.Answers)
	}
	posted, limit := time.Since(began), max(time.Duration(b.o.backlog)*heldWithin, leastHeldWithin)
	for held := before; held-before < float64(b.o.backlog); {
		if time.Since(began) > posted+limit {
			return fmt.Errorf("backlog: %.0f of %d events were put aside in %v", held-before, b.o.backlog, limit)
		}
		if err := wait.For(ctx, 100*time.Millisecond); err != nil {
			return err
		}
		if held, err = b.held(ctx); err != nil {
			return err
		}
	}
	aside := time.Since(began)
	if err := b.settle(ctx); err != nil {
		return err
	}
	b.add(Figure{"backlog posted", posted.Seconds(), "s"}, Figure{"backlog put aside", aside.Seconds(), "s"})
	return nil
}

// held is how many deliveries the dispatcher has put aside so far, because their endpoint is paused or for another
// reason.
func (b *benchRun) held(ctx context.Context) (sum float64, err error) {
	c, err := b.r.cost(ctx)
	for name, n := range c.metrics {
		if strings.HasPrefix(name, "relay_dispatch_outcomes_total{") && strings.Contains(name, `status="held"`) {
			sum += n
		}
	}
	return sum, err
}

const (
	settled      = 0.25 // of a core, in a second: what is left to do is no burst any more
	settleWithin = 2 * time.Minute
)

// settle waits until the relay has done what was set going, or for settleWithin.
func (b *benchRun) settle(ctx context.Context) error {
	began := time.Now()
	for before := b.r.spent(); time.Since(began) < settleWithin; {
		if err := wait.For(ctx, time.Second); err != nil {
			return err
		}
		now := b.r.spent()
		if (now - before).Seconds() < settled {
			return nil
		}
		before = now
	}
	return nil
}

// postedProgress returns a function that prints how many events of a stream are posted, unless quiet is set. format
// takes that number and all.
func (b *benchRun) postedProgress(format string, all int) func(load.Report, time.Duration) error {
	return func(r load.Report, _ time.Duration) error {
		if !b.o.quiet {
			fmt.Fprintf(b.stderr, format+"\n", r.Streams[0].Accepted, all)
		}
		return nil
	}
}
