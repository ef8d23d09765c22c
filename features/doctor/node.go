package doctor

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/eventrelay/relay/pkg/config"
	"github.com/eventrelay/relay/pkg/limit"
)

// Limits of a node's clock skew: beyond warnSkew it is reported, beyond failSkew the node accepts no events.
const (
	warnSkew = 2 * time.Second
	failSkew = 30 * time.Second
)

// noConfig is the result of the check configuration if the configuration could not be read.
func (x *checker) noConfig() Check {
	advice := "check that kafka is ok above and that RELAY_MASTER_KEYS is set here"
	if errors.Is(x.ConfigErr, config.ErrLogSecret) {
		advice = "" // the error says what to do
	}
	return fail(advice, "the configuration could not be read: %v", x.ConfigErr)
}

// notChecked is the result of other checks that need the configuration.
func notChecked() Check { return warn("", "not checked: the check configuration failed") }

func (x *checker) configuration(ctx context.Context) Check {
	if x.Config == nil {
		return x.noConfig()
	}
	if x.Node == "" {
		return ok("the log was read to its end")
	}
	lag, err := x.Config.Lag(ctx)
	if err != nil {
		return kafkaFailed(err)
	}
	if lag < 0 {
		return fail("do not stop this node, which has the configuration: run relay config export there, and follow "+
			"docs/operate/upgrade.md, The configuration", "the log ends %s before what this node has read: it was lost",
			plural(-lag, "record"))
	}
	age, confirmed := x.Config.Lease()
	if !confirmed {
		return fail("fix the connection of this node to Kafka (see kafka); until then it rejects API keys",
			"this node has not read the configuration log for %s and is %s behind", formatAge(age), plural(lag, "record"))
	}
	return ok("up to date as of %s ago, %s behind", formatAge(age), plural(lag, "record"))
}

const nearLimitAdvice = "delete what is unused; GET /v1/audit shows which API key writes so much"

// nearLimit is the share of a limit from which on it is reported.
const nearLimit = 0.8

// sizes checks which limits of the configuration are nearly reached.
func (x *checker) sizes(context.Context) Check {
	if x.Config == nil {
		return notChecked()
	}
	return checkBounds(x.Config.BoundsUsage())
}

func checkBounds(sizes []config.BoundUsage) Check {
	var near []string
	for _, s := range sizes {
		if float64(s.Used) >= nearLimit*float64(s.Limit) {
			near = append(near, fmt.Sprintf("%s: %d of %d", s.Name, s.Used, s.Limit))
		}
	}
	switch len(near) {
	case 0:
		return ok("well below all limits of the configuration")
	}
	c := warn(nearLimitAdvice, "near %d limits", len(near))
	if len(near) == 1 {
		c.Text = "near a limit: " + near[0]
	}
	c.Details = near
	return c
}

func (x *checker) nodes(context.Context) Check {
	if x.Config == nil {
		return notChecked()
	}
	level, newest := x.Config.Level()
	return withHeartbeats(x.Node, x.Config.Nodes(), func(nodes []config.Node) Check {
		return checkNodes(nodes, level, newest)
	})
}

// checkNodes checks the running nodes. level is that of the configuration log, newest the highest that this program
// supports.
func checkNodes(nodes []config.Node, level, newest int) Check {
	if len(nodes) == 0 {
		return fail("start a node: relay serve", "no node runs")
	}
	versions := make(map[string]bool)
	var details []string
	for _, n := range nodes {
		versions[n.Version] = true
		details = append(details,
			fmt.Sprintf("%s: version %s, configuration %s behind", n.Name, orUnknown(n.Version),
				plural(n.Lag, "record")))
	}
	c := ok("%s running", plural(len(nodes), "node"))
	if len(versions) > 1 {
		c = warn("upgrade all nodes to one version, then run relay migrate --finalize",
			"%s running, with %d different versions", plural(len(nodes), "node"), len(versions))
	}
	if i := slices.IndexFunc(nodes, func(n config.Node) bool { return n.Shared }); i >= 0 {
		c = fail("give each node a RELAY_NODE_NAME of its own and restart it; until then the two take each other's "+
			"partitions, and deliveries are made twice", "two processes run under the name %s", nodes[i].Name)
		c.Details = details
		return c
	}
	if len(versions) == 1 && level > 0 && level < newest {
		c = warn("run relay migrate --finalize", "%s running; the configuration log has level %d, this version supports %d",
			plural(len(nodes), "node"), level, newest)
	}
	c.Details = details
	return c
}

func orUnknown(s string) string {
	if s == "" {
		return "unknown"
	}
	return s
}

func (x *checker) clock(context.Context) Check {
	if x.Config == nil {
		return notChecked()
	}
	return withHeartbeats(x.Node, x.Config.Nodes(), checkClock)
}

// withHeartbeats calls check. If this node (self) runs and has read no heartbeat, not even its own, it warns instead:
// the state of the nodes is unknown.
func withHeartbeats(self string, nodes []config.Node, check func([]config.Node) Check) Check {
	if len(nodes) == 0 && self != "" {
		return warn("follow the advice for kafka and configuration first",
			"not known: node %s runs, and reads no heartbeats from the configuration log", self)
	}
	return check(nodes)
}

func checkClock(nodes []config.Node) Check {
	if len(nodes) == 0 {
		return warn("", "no node runs, so no clock was compared with the brokers'")
	}
	worst := slices.MaxFunc(nodes, func(a, b config.Node) int { return int(a.ClockSkew.Abs() - b.ClockSkew.Abs()) })
	text := fmt.Sprintf("the clocks of the brokers and of node %s differ by at least %s", worst.Name,
		formatAge(worst.ClockSkew.Abs()))
	const advice = "synchronize the clocks (NTP); a node that is 30s off accepts no events"
	switch {
	case worst.ClockSkew.Abs() > failSkew:
		return fail(advice, "%s", text)
	case worst.ClockSkew.Abs() > warnSkew:
		return warn(advice, "%s", text)
	}
	return ok("the clocks of all nodes agree with the brokers'")
}

// masterKeys checks for secrets that are not sealed with the first master key, and for nodes that lack one of the keys.
func (x *checker) masterKeys(context.Context) Check {
	if x.Config == nil {
		return notChecked()
	}
	seals, err := x.Config.SecretsByMasterKey()
	if err != nil {
		return fail("run the doctor of the newest version that any node has run: that version may have written what this "+
			"one cannot read", "%v", err)
	}
	if x.Keyring == nil {
		return warn("set RELAY_MASTER_KEYS here to compare the keys", "secrets are sealed with %s",
			join(slices.Sorted(maps.Keys(seals))))
	}
	ids := x.Keyring.IDs()
	names := make([]string, len(ids))
	for i, id := range ids {
		names[i], _, _ = strings.Cut(id, ":")
	}
	total, other := 0, 0
	for name, n := range seals {
		if total += n; name != names[0] {
			other += n
		}
		if !slices.Contains(names, name) {
			return fail("add that key to RELAY_MASTER_KEYS on every node", "%s: sealed with the key %s, which is missing here",
				plural(n, "secret"), name)
		}
	}
	for _, n := range x.Config.Nodes() {
		for _, id := range ids {
			if len(n.Keys) > 0 && !slices.Contains(n.Keys, id) {
				name, _, _ := strings.Cut(id, ":")
				return warn("set the same RELAY_MASTER_KEYS on all nodes", "node %s does not have the key %s",
					n.Name, name)
			}
		}
	}
	if other > 0 {
		return warn("run relay keys rewrap", "%d of %d secrets are not sealed with the first key, %s", other, total, names[0])
	}
	c := ok("%s, all sealed with %s", plural(total, "secret"), names[0])
	if len(names) > 1 {
		c.Text += fmt.Sprintf("; %s can be removed from RELAY_MASTER_KEYS", join(names[1:]))
	}
	return c
}

// weakKeys warns of API keys in the environment that are easy to guess.
func (x *checker) weakKeys(context.Context) Check {
	return warn("set a random key of 24 characters or more; relay keys create makes one",
		"the key in %s is easy to guess: it is short or has few different characters", join(x.WeakKeys))
}

func (x *checker) clickhouse(ctx context.Context) Check {
	advice := "check that this machine can connect to RELAY_CLICKHOUSE_URL and that relay migrate has run; " +
		"deliveries continue meanwhile and the log keeps the rows"
	if x.Store == nil {
		return warn("set RELAY_CLICKHOUSE_URL here to check it", "not checked")
	}
	took, err := measure(ctx, x.Store)
	if err != nil && strings.Contains(err.Error(), "Not enough privileges") {
		advice = grantAdvice
	}
	if err != nil {
		return fail(advice, "%v", err)
	}
	if c := x.storeDamage(ctx); c.State != StateOK {
		return c
	}
	if x.StoreRights == nil {
		return ok("round trip %v", took)
	}
	missing, err := x.StoreRights(ctx)
	switch {
	case err != nil:
		return fail(advice, "%v", err)
	case len(missing) == 0:
		return ok("round trip %v", took)
	}
	c := fail(grantAdvice, "users of ClickHouse lack rights")
	c.Details = missing
	return c
}

// storeDamage checks that the store has what was stored.
func (x *checker) storeDamage(ctx context.Context) Check {
	if x.StoreDamage == nil {
		return ok("")
	}
	damaged, err := x.StoreDamage(ctx)
	switch {
	case err != nil:
		return warn("run relay doctor again", "cannot check the store for damage: %v", err)
	case len(damaged) == 0:
		return ok("")
	}
	c := fail("events are still delivered; check the disk, then restore the store from a backup. Otherwise lists and "+
		"searches miss events", "the store is damaged")
	c.Details = damaged
	return c
}

const grantAdvice = "grant them; relay migrate --print-grants shows all rights"

func (x *checker) redis(ctx context.Context) Check {
	const advice = "check that this machine can connect to RELAY_REDIS_URL; until then each node limits rates on " +
		"its own and duplicate events may be accepted"
	if x.Redis == nil {
		return ok("not configured: each node limits rates on its own")
	}
	took, err := x.Redis(ctx)
	if err != nil {
		return warn(advice, "%v", err)
	}
	c := ok("round trip %v", took.Round(timePrecision))
	if x.RedisSettings == nil {
		return c
	}
	settings, err := x.RedisSettings(ctx)
	if err != nil {
		return warn(advice, "%v", err)
	}
	return checkRedis(c, settings)
}

// checkRedis adds to the check redis what its settings lose. What this account may not read counts as right.
func checkRedis(c Check, s limit.Settings) Check {
	const memoryWarn = 0.8
	switch {
	case s.Eviction != "" && s.Eviction != "noeviction":
		c = warn("set maxmemory-policy noeviction in Redis, and give it memory enough",
			"Redis removes keys when its memory is full (%s): events may be accepted twice and limits exceeded", s.Eviction)
	case s.Volatile:
		c = warn("turn on appendonly or save in Redis, if a repeated event after its restart matters",
			"Redis keeps nothing over a restart: events of the last hours may then be accepted twice")
	case s.Memory >= memoryWarn:
		c = warn("give Redis more memory (maxmemory); once it is full, repeated events are accepted again, and each "+
			"node limits rates on its own", "Redis uses %.0f %% of its memory", 100*s.Memory)
	}
	return c
}
