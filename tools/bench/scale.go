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

	"github.com/eventrelay/relay/pkg/config"
	"github.com/eventrelay/relay/pkg/config/document"
	"github.com/eventrelay/relay/pkg/config/seal"
	"github.com/eventrelay/relay/pkg/id"
	"github.com/eventrelay/relay/pkg/wait"
	"github.com/eventrelay/relay/tools/bench/load"
)

// Limits of flags that say how many of something exist.
const (
	maxBusy       = 10_000
	maxConfigured = 200_000
	maxBacklog    = 50_000_000
	maxPartitions = 256
)

// idleName is the name of the idle endpoints.
const idleName = "bench idle"

// createIdleEndpoints creates idle endpoints until --configured exist. It creates one through the API, exports the
// configuration, adds copies with their own secrets, and imports it again.
func (b *benchRun) createIdleEndpoints(ctx context.Context) error {
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
	keys, err := seal.NewKeyring(spec)
	if err != nil {
		return err
	}
	had, err := b.runRelay(ctx, "config", "export")
	if err != nil {
		return err
	}
	text, made, err := addIdleCopies(had, keys, b.o.configured, b.o.tenants)
	if err != nil || made == 0 {
		return err
	}
	file := filepath.Join(b.o.dir, "bench-idle.json")
	if err := os.WriteFile(file, text, 0o600); err != nil {
		return err
	}
	if _, err := b.runRelay(ctx, "config", "import", file); err != nil {
		return err
	}
	took := time.Since(began)
	if err := b.awaitIdle(ctx); err != nil {
		return err
	}
	b.addFigures(
		Figure{"idle endpoints created", float64(made), fmt.Sprintf("in %.1f s", took.Seconds())},
		Figure{"memory since then", float64(b.r.rss()-before) / (1 << 20), "MB more"})
	return os.Remove(file)
}

// runRelay runs a relay command on the started relay's data directory and returns what it printed.
func (b *benchRun) runRelay(ctx context.Context, words ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, b.o.relay, append(words, "--data-dir", b.r.dir)...)
	var fault bytes.Buffer
	cmd.Stderr = &fault
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("relay %s: %w: %s", strings.Join(words, " "), err, fault.Bytes())
	}
	return out, nil
}

// addIdleCopies returns an export with wanted idle endpoints, and how many of them are new. With tenants, each new one
// belongs to a tenant of its own.
func addIdleCopies(export []byte, keys *seal.Keyring, wanted int, tenants bool) (text []byte, made int, err error) {
	var lines []exportLine
	var model *config.Endpoint
	head, err := document.Read(bytes.NewReader(export), func(kind string, value json.RawMessage) error {
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
		e, err := copyEndpoint(model, keys, int32(made)%head.Partitions)
		if err != nil {
			return nil, 0, err
		}
		if tenants {
			t := config.Tenant{Tenant: e.ID, Own: e.ID, Endpoints: []string{e.ID}}
			t.Account, t.CreatedAt, t.UpdatedAt = e.Account, e.CreatedAt, e.UpdatedAt
			t.ID, e.Tenant = config.TenantID(e.Account, t.Tenant), t.Tenant
			value, err := json.Marshal(t)
			if err != nil {
				return nil, 0, err
			}
			lines = append(lines, exportLine{"tenant", value})
		}
		value, err := json.Marshal(e)
		if err != nil {
			return nil, 0, err
		}
		lines = append(lines, exportLine{"endpoint", value})
	}
	var out bytes.Buffer
	head.Entities = len(lines)
	err = document.Write(&out, head, keys, func(yield func(string, json.RawMessage) bool) {
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

// copyEndpoint returns a copy of an endpoint in a partition, with its own ids, token and secrets.
func copyEndpoint(model *config.Endpoint, keys *seal.Keyring, partition int32) (*config.Endpoint, error) {
	e, token := *model, id.Random("")
	hash := sha256.Sum256([]byte(token))
	e.ID, e.Partition, e.TokenHash = id.Random(id.Endpoint), partition, hash[:]
	e.Token = keys.SealString(e.ID, seal.FieldToken, token)
	e.Destinations = slices.Clone(model.Destinations)
	for i := range e.Destinations {
		d := &e.Destinations[i]
		was := d.ID
		d.ID, d.Secrets = id.Random(id.Destination), slices.Clone(d.Secrets)
		for k, s := range d.Secrets {
			text, err := keys.OpenString(was, seal.FieldSecret, s.Secret)
			if err != nil {
				return nil, err
			}
			d.Secrets[k].Secret = keys.SealString(d.ID, seal.FieldSecret, text)
		}
	}
	return &e, nil
}

const (
	// backlogEndpoints is how many paused endpoints a backlog has: so many that every partition with a busy endpoint
	// has some.
	backlogEndpoints = 64
	// parkLimitPerEvent bounds the time until a backlog is parked, per event; minParkLimit is the minimum for all of
	// it.
	parkLimitPerEvent, minParkLimit = time.Millisecond, time.Minute
)

// postBacklog posts the backlog to paused endpoints, and waits until the dispatcher has parked all of it.
func (b *benchRun) postBacklog(ctx context.Context) error {
	if b.o.backlog == 0 {
		return nil
	}
	before, err := b.parkedDeliveries(ctx)
	if err != nil {
		return err
	}
	began := time.Now()
	paused := object{"name": "bench backlog", "paused": true, "destinations": b.destinations("ok")}
	ids, err := b.r.makeEndpoints(ctx, backlogEndpoints, paused)
	if err != nil {
		return err
	}
	at := pace{conns: 2, batch: min(1000, b.o.backlog)}
	p := b.postAt(at, "backlog", b.r.eventsURL(ids[0])).roundRobin(ids).limitEvents(b.o.backlog)
	r, _, err := b.generate(ctx, b.postedProgress("backlog: %d of %d posted", b.o.backlog), p)
	if err != nil {
		return err
	}
	if t := r.Streams[0]; t.Accepted != p.Events {
		return fmt.Errorf("backlog: %d of %d events were refused; answers by status: %v", t.Refused, p.Events, t.Answers)
	}
	posted, limit := time.Since(began), max(time.Duration(b.o.backlog)*parkLimitPerEvent, minParkLimit)
	for held := before; held-before < float64(b.o.backlog); {
		if time.Since(began) > posted+limit {
			return fmt.Errorf("backlog: only %.0f of %d events were parked within %v", held-before, b.o.backlog, limit)
		}
		if err := wait.For(ctx, 100*time.Millisecond); err != nil {
			return err
		}
		if held, err = b.parkedDeliveries(ctx); err != nil {
			return err
		}
	}
	aside := time.Since(began)
	if err := b.awaitIdle(ctx); err != nil {
		return err
	}
	b.addFigures(Figure{"backlog posted", posted.Seconds(), "s"}, Figure{"backlog parked", aside.Seconds(), "s"})
	return nil
}

// parkedDeliveries returns how many deliveries the dispatcher has held so far, because their endpoint is paused or for
// another reason.
func (b *benchRun) parkedDeliveries(ctx context.Context) (sum float64, err error) {
	c, err := b.r.readCost(ctx)
	for name, n := range c.metrics {
		if strings.HasPrefix(name, "relay_dispatch_outcomes_total{") && strings.Contains(name, `status="held"`) {
			sum += n
		}
	}
	return sum, err
}

const (
	idleCores = 0.25 // cores: a relay that uses less in a second has finished its work
	idleLimit = 2 * time.Minute
)

// awaitIdle waits until the relay uses less than idleCores of CPU for a second, at most for idleLimit.
func (b *benchRun) awaitIdle(ctx context.Context) error {
	began := time.Now()
	for before := b.r.cpuUsed(); time.Since(began) < idleLimit; {
		if err := wait.For(ctx, time.Second); err != nil {
			return err
		}
		now := b.r.cpuUsed()
		if (now - before).Seconds() < idleCores {
			return nil
		}
		before = now
	}
	return nil
}

// postedProgress returns a function that prints how many events of a stream are posted, unless quiet is set. The
// arguments of format are that number and all.
func (b *benchRun) postedProgress(format string, all int) func(load.Report, time.Duration) error {
	return func(r load.Report, _ time.Duration) error {
		if !b.o.quiet {
			fmt.Fprintf(b.stderr, format+"\n", r.Streams[0].Accepted, all)
		}
		return nil
	}
}
