package bench

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/eventrelay/relay/pkg/config"
)

// maxNodes bounds --serve: they all run on this machine.
const maxNodes = 16

// endpointsPerNode spreads a cluster's load: an endpoint belongs to one partition, and so to one node.
const endpointsPerNode = 4

var engineLine = regexp.MustCompile(`listens on (\S+)`)

// startCluster starts engines, each a process of its own, and so many serve nodes on them. With --kafka the
// log is there already.
func startCluster(ctx context.Context, o options) (_ *relay, err error) {
	r := &relay{key: apiKey, pids: o.pids}
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
		if name != "kafka" { // whose clients know no sockets
			args = append(args, "--listen", "unix:"+filepath.Join(o.dir, name+".sock"))
		}
		if err := e.start(ctx, o.relay, args, nil, engineLine); err != nil {
			return nil, err
		}
		addresses[name] = e.url
	}
	// A name of its own, for a log that is there already may hold those of an earlier run.
	name := fmt.Sprintf("bench%d", os.Getpid())
	r.masterKeys = config.GenerateMasterKey("bench")
	env := append(o.environment(),
		"RELAY_KAFKA_BROKERS="+addresses["kafka"], "RELAY_REDIS_URL="+redisURL(addresses["redis"]),
		"RELAY_CLICKHOUSE_URL="+tablesURL(addresses["clickhouse"], name), "RELAY_TOPIC_PREFIX="+name+".",
		"RELAY_MASTER_KEYS="+r.masterKeys, "RELAY_REPLICATION_FACTOR=1",
		"RELAY_PARTITIONS="+fmt.Sprint(cmp.Or(o.partitions, endpointsPerNode*o.serve)),
		// as in dev: the path is measured, not a limit
		"RELAY_API_RATE_READ=0", "RELAY_API_RATE_WRITE=0", "RELAY_API_RATE_SEND=0",
	)
	migrate := &relay{}
	if err := migrate.start(ctx, o.relay, []string{"migrate", "--log-level", "warn"}, env,
		regexp.MustCompile(`(topics and tables are ready)`)); err != nil {
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

// redisURL is the setting for an engine that says that it listens on an address: host and port, or unix:/path.
func redisURL(address string) string {
	if path, unix := strings.CutPrefix(address, "unix:"); unix {
		return "unix://" + path
	}
	return "redis://" + address
}

// tablesURL is the same for a database of ClickHouse.
func tablesURL(address, database string) string {
	if path, unix := strings.CutPrefix(address, "unix:"); unix {
		return "unix://" + path + "?database=" + database
	}
	return "http://" + address + "/" + database
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
	args := []string{"serve", "--node-name", fmt.Sprintf("node%d", i), "--data-dir", dir, "--listen", "127.0.0.1:0",
		"--log-level", "warn", "--admin-listen", admin}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	if err := n.start(ctx, o.relay, args, env, readyLine); err != nil {
		return err
	}
	if i == 0 {
		r.url, r.admin, r.ready, r.dir = n.url, admin, n.ready, dir
	} else {
		r.admins = append(r.admins, admin)
	}
	r.nodes = append(r.nodes, n.url)
	return nil
}

// sources are posts to endpoints in turn, one for each node of a cluster, so that all of them have work: to
// --endpoints in all, or to one, or to some for each node.
func (b *benchRun) sources(ctx context.Context, destinations []object, to ...int) ([]post, error) {
	if b.o.peer != nil {
		return []post{b.post("events", b.o.peer.URL, to...)}, nil
	}
	nodes, n := b.r.nodes, max(b.o.endpoints, 1)
	if len(nodes) == 0 {
		nodes = []string{b.r.url}
	} else if b.o.endpoints == 0 {
		n = endpointsPerNode * len(nodes)
	}
	ids, err := b.r.makeEndpoints(ctx, n, object{"destinations": destinations})
	if err != nil {
		return nil, err
	}
	var posts []post
	for i, node := range nodes {
		var own []string
		for k := i; k < len(ids); k += len(nodes) {
			own = append(own, ids[k])
		}
		if len(own) == 0 {
			break // fewer endpoints than nodes
		}
		posts = append(posts, b.post("events", (&relay{url: node}).events(own[0]), to...).inTurn(own))
	}
	return share(posts), nil
}

// inTurn has a post's requests go to several endpoints, one after the other.
func (p post) inTurn(ids []string) post {
	for _, id := range ids {
		path := eventsPath(id)
		if p.Batch > 0 {
			path += "/batch"
		}
		p.Paths = append(p.Paths, path)
	}
	return p
}

// share gives each of several posts its part of connections and rate.
func share(posts []post) []post {
	for i := range posts {
		posts[i].Rate /= float64(len(posts))
		posts[i].Conns = max(posts[i].Conns/len(posts), 1)
		if len(posts) > 1 {
			posts[i].name = fmt.Sprintf("node %d", i+1)
		}
	}
	return posts
}
