package bench

import (
	"context"
	"flag"
	"fmt"
	"os/exec"
	"strings"
	"time"
)

// definitions is the table of scenarios.
func definitions() []definition {
	return []definition{
		{name: "flat", summary: "events as fast as some connections can post them, or at a rate; what one costs", run: flat, peers: true},
		{name: "steady", summary: "events at a rate: how long they take", run: flat, peers: true, defaults: func(o *options, fs *flag.FlagSet) {
			preset(fs, "rate", "500")
		}},
		{name: "floor", summary: "flat on a bare pipeline of the same libraries, in place of the relay: how cheap an event could be", run: bare, start: startFloor},
	}
}

// startFloor starts the bare pipeline.
func startFloor(ctx context.Context, o options) (*relay, error) {
	admin, err := freeAddress(ctx)
	if err != nil {
		return nil, err
	}
	r := &relay{admin: admin}
	args := []string{"bench", "floor-pipe", "--data", o.dir, "--deliver", o.deliver, "--admin", admin, fmt.Sprintf("--fsync=%t", o.fsync)}
	return r, r.start(ctx, o.self, args, nil)
}

// preset is another default for a flag.
func preset(fs *flag.FlagSet, name, value string) {
	f := fs.Lookup(name)
	f.DefValue = value
	if err := f.Value.Set(value); err != nil {
		panic("BUG: preset of --" + name + ": " + err.Error())
	}
}

// arriveWithin is how long to wait for the last event before it counts as lost.
const arriveWithin = 30 * time.Second

// flat posts to one endpoint with one destination.
func flat(ctx context.Context, b *bed) error {
	url, err := b.source(ctx)
	if err != nil {
		return err
	}
	if err := b.rest(ctx); err != nil {
		return err
	}
	p := b.post("events", url, 0)
	if b.o.peer != nil {
		b.o.peer.apply(&p, b.o.size)
	}
	if err := b.warm(ctx, p); err != nil {
		return err
	}
	return b.measure(ctx, []post{p}, arriveWithin, nil)
}

// bare posts to the pipeline of [floor].
func bare(ctx context.Context, b *bed) error {
	if err := b.rest(ctx); err != nil {
		return err
	}
	p := b.post("events", b.r.url+"/in", 0)
	if err := b.warm(ctx, p); err != nil {
		return err
	}
	return b.measure(ctx, []post{p}, arriveWithin, nil)
}

// source is where to post for one destination that answers at once.
func (b *bed) source(ctx context.Context) (string, error) {
	if b.o.peer != nil {
		return b.o.peer.URL, nil
	}
	id, err := b.r.createEndpoint(ctx, b.sink.url(0, "ok"))
	return b.r.events(id), err
}

// events is the send route of an endpoint.
func (r *relay) events(endpoint string) string {
	return r.url + "/v1/endpoints/" + endpoint + "/events"
}

// versionOf asks a binary for its version; empty when it does not say.
func versionOf(ctx context.Context, binary string) string {
	out, err := exec.CommandContext(ctx, binary, "version").Output()
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(out))
}
