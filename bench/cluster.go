package bench

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"

	"github.com/eventrelay/relay/pkg/control"
)

// maxNodes bounds --serve: they all run on this machine.
const maxNodes = 16

// endpointsPerNode spreads a cluster's load: an endpoint belongs to one partition, and so to one node.
const endpointsPerNode = 4

var engineLine = regexp.MustCompile(`listens on (\S+)`)

// startCluster starts engines, each a process of its own, and so many serve nodes on them. With --kafka the
// log is there already.
func startCluster(ctx context.Context, o options) (_ *relay, err error) {
	r := &relay{key: "bench-key-0123456789", pids: o.pids}
	defer func() {
		if err != nil {
			r.stop()
		}
	}()
	addresses := map[string]string{"kafka": o.kafka}
	for _, name := range []string{"kafka", "redis", "clickhouse"} {
		if addresses[name] != "" {
			continue
		}
		e := &relay{}
		r.parts = append(r.parts, e)
		args := []string{"engine", name, "--data", filepath.Join(o.dir, name), fmt.Sprintf("--fsync=%t", o.fsync)}
		if err := e.start(ctx, o.relay, args, nil, engineLine); err != nil {
			return nil, err
		}
		addresses[name] = e.url
	}
	// A name of its own, for a log that is there already may hold those of an earlier run.
	name := fmt.Sprintf("bench%d", os.Getpid())
	env := []string{
		"RELAY_KAFKA_BROKERS=" + addresses["kafka"], "RELAY_REDIS_URL=redis://" + addresses["redis"],
		"RELAY_CLICKHOUSE_URL=http://" + addresses["clickhouse"] + "/" + name, "RELAY_TOPIC_PREFIX=" + name + ".",
		"RELAY_MASTER_KEYS=" + control.GenerateMasterKey("bench"), "RELAY_PARTITIONS=" + fmt.Sprint(endpointsPerNode*o.serve),
		"RELAY_REPLICATION_FACTOR=1", "RELAY_BOOTSTRAP_KEY=" + r.key, "RELAY_EGRESS_ALLOW=127.0.0.0/8", "RELAY_EGRESS_ALLOW_HTTP=true",
	}
	if o.tls {
		env = append(env, "RELAY_EGRESS_CA_FILE="+filepath.Join(o.dir, "sink.pem"))
	}
	migrate := &relay{}
	if err := migrate.start(ctx, o.relay, []string{"migrate", "--log-level", "warn"}, env, regexp.MustCompile(`(topics and tables are ready)`)); err != nil {
		return nil, err
	}
	if err := migrate.cmd.Wait(); err != nil {
		return nil, fmt.Errorf("migrate: %w", err)
	}
	for i := range o.serve {
		if err := r.addNode(ctx, o, i, env); err != nil {
			return nil, err
		}
	}
	for _, p := range r.parts {
		r.pids = append(r.pids, p.pids...)
	}
	return r, nil
}

// addNode starts one node, and has it answer requests and tell its metrics with the others.
func (r *relay) addNode(ctx context.Context, o options, i int, env []string) error {
	admin, err := freeAddress(ctx)
	if err != nil {
		return err
	}
	n := &relay{}
	r.parts = append(r.parts, n)
	dir := filepath.Join(o.dir, fmt.Sprintf("node%d", i))
	args := []string{"serve", "--node-name", fmt.Sprintf("node%d", i), "--data-dir", dir, "--listen", "127.0.0.1:0", "--log-level", "warn", "--admin-listen", admin}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	if err := n.start(ctx, o.relay, args, env, readyLine); err != nil {
		return err
	}
	if i == 0 {
		r.url, r.admin, r.ready = n.url, admin, n.ready
	} else {
		r.admins = append(r.admins, admin)
	}
	r.nodes = append(r.nodes, n.url)
	return nil
}

// sources are where to post for a destination that answers at once: one endpoint, or several for each node
// of a cluster, so that all of them have work.
func (b *bed) sources(ctx context.Context) ([]string, error) {
	if b.o.peer != nil {
		return []string{b.o.peer.URL}, nil
	}
	nodes := b.r.nodes
	if len(nodes) == 0 {
		nodes = []string{b.r.url}
	}
	each := 1
	if b.o.serve > 0 {
		each = endpointsPerNode
	}
	var out []string
	for _, node := range nodes {
		for range each {
			id, err := b.r.createEndpoint(ctx, b.sink.url(0, "ok"))
			if err != nil {
				return nil, err
			}
			out = append(out, (&relay{url: node}).events(id))
		}
	}
	return out, nil
}

// share gives each of several posts its part of connections and rate.
func share(posts []post) []post {
	for i := range posts {
		posts[i].Rate /= float64(len(posts))
		posts[i].Conns = max(posts[i].Conns/len(posts), 1)
		if len(posts) > 1 {
			posts[i].name = fmt.Sprintf("endpoint %d", i+1)
		}
	}
	return posts
}
