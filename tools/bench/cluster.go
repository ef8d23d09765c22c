package bench

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/eventrelay/relay/pkg/config/seal"
)

// maxNodes bounds --serve, because all nodes run on this machine.
const maxNodes = 16

// endpointsPerNode spreads a cluster's load over its nodes: an endpoint belongs to one partition and so to one node.
const endpointsPerNode = 4

var engineLine = regexp.MustCompile(`listens on (\S+)`)

// startCluster starts the engines as separate processes, and --serve nodes that use them. With --kafka it uses a
// running Kafka.
func startCluster(ctx context.Context, o options) (_ *relay, err error) {
	r := &relay{key: apiKey, pids: o.pids, tables: filepath.Join(o.dir, "clickhouse.sock")}
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
		binary := o.relay
		args := []string{"engine", name, "--data", filepath.Join(o.dir, name), fmt.Sprintf("--fsync=%t", o.fsync)}
		if name != "kafka" {
			args = append(args, "--listen", "unix:"+filepath.Join(o.dir, name+".sock"))
		} else if binary, err = os.Executable(); err != nil {
			return nil, err
		}
		if err := e.start(ctx, binary, args, nil, engineLine); err != nil {
			return nil, err
		}
		addresses[name] = e.url
	}
	// A unique name: a running Kafka may still have the topics of an earlier run.
	name := fmt.Sprintf("bench%d", os.Getpid())
	r.masterKeys = seal.GenerateKey("bench")
	r.broker, r.topicPrefix, r.store = addresses["kafka"], name+".", clickhouseURL(addresses["clickhouse"], name)
	env := append(o.environment(),
		"RELAY_KAFKA_BROKERS="+addresses["kafka"], "RELAY_REDIS_URL="+redisURL(addresses["redis"]),
		"RELAY_CLICKHOUSE_URL="+r.store, "RELAY_TOPIC_PREFIX="+r.topicPrefix,
		"RELAY_MASTER_KEYS="+r.masterKeys, fmt.Sprintf("RELAY_REPLICATION_FACTOR=%d", max(o.replicas, 1)),
		"RELAY_PARTITIONS="+fmt.Sprint(cmp.Or(o.partitions, endpointsPerNode*o.serve)),
		// no rate limits, as in dev: they would limit the measurement
		"RELAY_API_RATE_READ=0", "RELAY_API_RATE_WRITE=0", "RELAY_API_RATE_SEND=0",
		"RELAY_SHUTDOWN_DELAY_SECONDS=0",
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

// validateReplicas reports a fault of --replicas.
func (o *options) validateReplicas() error {
	switch {
	case o.replicas < 1 || o.replicas > 9:
		return fmt.Errorf("--replicas: %d is out of range, use 1 to 9", o.replicas)
	case o.replicas > 1 && o.kafka == "":
		return errors.New("--replicas: use it with --kafka")
	}
	return nil
}

// redisURL returns the setting RELAY_REDIS_URL for the address of an engine: host:port or unix:/path.
func redisURL(address string) string {
	if path, unix := strings.CutPrefix(address, "unix:"); unix {
		return "unix://" + path
	}
	return "redis://" + address
}

// clickhouseURL returns the setting RELAY_CLICKHOUSE_URL for the address of an engine and a database.
func clickhouseURL(address, database string) string {
	if path, unix := strings.CutPrefix(address, "unix:"); unix {
		return "unix://" + path + "?database=" + database
	}
	return "http://" + address + "/" + database
}

// addNode starts a node and adds its URL and admin server to the cluster's.
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
	if len(o.roles) > 0 {
		args = append(args, "--roles", o.roles[i%len(o.roles)])
	}
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

// endpointPosts creates the endpoints and returns one stream of posts for each node of a cluster, so that all nodes
// have work. There are --endpoints endpoints in all; by default one, or endpointsPerNode for each node.
func (b *benchRun) endpointPosts(ctx context.Context, destinations []object, to ...int) ([]post, error) {
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
		posts = append(posts, b.post("events", (&relay{url: node}).eventsURL(own[0]), to...).roundRobin(own))
	}
	return divideLoad(posts), nil
}

// roundRobin makes the requests of a post go to several endpoints in turn.
func (p post) roundRobin(ids []string) post {
	for _, id := range ids {
		path := eventsPath(id)
		if p.Batch > 0 {
			path += "/batch"
		}
		p.Paths = append(p.Paths, path)
	}
	return p
}

// divideLoad divides connections and rate equally among the posts.
func divideLoad(posts []post) []post {
	for i := range posts {
		posts[i].Rate /= float64(len(posts))
		posts[i].Conns = max(posts[i].Conns/len(posts), 1)
		if len(posts) > 1 {
			posts[i].name = fmt.Sprintf("node %d", i+1)
		}
	}
	return posts
}
