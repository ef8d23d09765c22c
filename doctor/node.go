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
)

// Skews of a clock: what is odd, and beyond what a node accepts nothing.
const (
	warnSkew = 2 * time.Second
	failSkew = 30 * time.Second
)

// noConfig is the check of configuration when it could not be read.
func (x *examination) noConfig() Check {
	advice := "see kafka, and give RELAY_MASTER_KEYS"
	if errors.Is(x.ConfigErr, config.ErrLogSecret) {
		advice = "" // the error says what to do
	}
	return fail(advice, "the configuration could not be read: %v", x.ConfigErr)
}

// notChecked is what the other checks that need the configuration say then.
func notChecked() Check { return warn("", "not checked: see configuration") }

func (x *examination) configuration(ctx context.Context) Check {
	if x.Config == nil {
		return x.noConfig()
	}
	if x.Node == "" {
		return ok("the log was read to its end")
	}
	lag, err := x.Config.Lag(ctx)
	if err != nil {
		return unasked(err)
	}
	age, confirmed := x.Config.Lease()
	if !confirmed {
		return fail("this node takes no API keys until it reads the log again; see kafka", "not confirmed for %s, %s behind",
			ago(age), count(lag, "record"))
	}
	return ok("confirmed %s ago, %s behind", ago(age), count(lag, "record"))
}

// nearBound is the share of a bound from which on it is to be looked at.
const nearBound = 0.8

// sizes looks for bounds of the configuration that are nearly reached.
func (x *examination) sizes(context.Context) Check {
	if x.Config == nil {
		return notChecked()
	}
	return judgeSizes(x.Config.BoundsUsage())
}

func judgeSizes(sizes []config.BoundUsage) Check {
	c := ok("far from every bound")
	for _, s := range sizes {
		text := fmt.Sprintf("%s: %d of %d", s.Name, s.Used, s.Limit)
		if float64(s.Used) >= nearBound*float64(s.Limit) {
			c = warn("delete endpoints that are not used, and look which API key writes so much: GET /v1/audit",
				"near a bound: %s", text)
			c.Details = append(c.Details, text)
		}
	}
	return c
}

func (x *examination) nodes(context.Context) Check {
	if x.Config == nil {
		return notChecked()
	}
	nodes := x.Config.Nodes()
	if len(nodes) == 0 {
		return fail("relay serve", "no node runs")
	}
	versions := make(map[string]bool)
	var details []string
	for _, n := range nodes {
		versions[n.Version] = true
		details = append(details,
			fmt.Sprintf("%s: version %s, %s behind in the configuration", n.Name, orUnknown(n.Version),
				count(n.Lag, "record")))
	}
	c := ok("%s running", count(len(nodes), "node"))
	if len(versions) > 1 {
		c = warn("bring all nodes to one version", "%s running, of %d versions", count(len(nodes), "node"), len(versions))
	}
	if level, newest := x.Config.Level(); len(versions) == 1 && level > 0 && level < newest {
		c = warn("relay migrate --finalize", "%s running; the configuration log is at level %d, this version knows %d",
			count(len(nodes), "node"), level, newest)
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

func (x *examination) clock(context.Context) Check {
	if x.Config == nil {
		return notChecked()
	}
	nodes := x.Config.Nodes()
	if len(nodes) == 0 {
		return warn("", "no node runs that could compare its clock with the brokers'")
	}
	worst := slices.MaxFunc(nodes, func(a, b config.Node) int { return int(a.ClockSkew.Abs() - b.ClockSkew.Abs()) })
	text := fmt.Sprintf("the brokers' clock and that of %s are at least %s apart", worst.Name, ago(worst.ClockSkew.Abs()))
	const advice = "set the clocks right (NTP); a node that is 30s off takes no events"
	switch {
	case worst.ClockSkew.Abs() > failSkew:
		return fail(advice, "%s", text)
	case worst.ClockSkew.Abs() > warnSkew:
		return warn(advice, "%s", text)
	}
	return ok("all agree with that of the brokers")
}

// masterKeys looks for secrets that the first key does not seal, and for nodes that have other keys.
func (x *examination) masterKeys(context.Context) Check {
	if x.Config == nil {
		return notChecked()
	}
	seals, err := x.Config.SecretsByMasterKey()
	if err != nil {
		return fail("a newer version may have written it", "%v", err)
	}
	if x.Keyring == nil {
		return warn("give RELAY_MASTER_KEYS to have them compared", "secrets are sealed with %s",
			list(slices.Sorted(maps.Keys(seals))))
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
			return fail("put it into RELAY_MASTER_KEYS of every node", "%s sealed with the key %s, which is not there",
				count(n, "secret"), name)
		}
	}
	for _, n := range x.Config.Nodes() {
		for _, id := range ids {
			if len(n.Keys) > 0 && !slices.Contains(n.Keys, id) {
				name, _, _ := strings.Cut(id, ":")
				return warn("give all nodes the same RELAY_MASTER_KEYS", "node %s does not have the key %s that is known here",
					n.Name, name)
			}
		}
	}
	if other > 0 {
		return warn("relay keys rewrap", "%d of %d secrets are not sealed with the first key, %s", other, total, names[0])
	}
	c := ok("%s, all sealed with %s", count(total, "secret"), names[0])
	if len(names) > 1 {
		c.Text += fmt.Sprintf("; %s may go from RELAY_MASTER_KEYS", list(names[1:]))
	}
	return c
}

// weakKeys warns of API keys that the environment names.
func (x *examination) weakKeys(context.Context) Check {
	return warn("set a random one of 24 characters or more, such as relay keys create makes",
		"the key in %s is easy to guess: it is short, or made of few different characters", list(x.WeakKeys))
}

func (x *examination) clickhouse(ctx context.Context) Check {
	const advice = "deliveries go on and the log keeps the rows; see that RELAY_CLICKHOUSE_URL can be reached from " +
		"here, and that relay migrate has run"
	if x.Store == nil {
		return warn("give RELAY_CLICKHOUSE_URL to have it asked", "not asked")
	}
	took, err := measure(ctx, x.Store)
	if err != nil {
		return fail(advice, "%v", err)
	}
	return ok("an answer in %v", took)
}

func (x *examination) redis(ctx context.Context) Check {
	const advice = "nothing stops: rates are held by each node for itself, and duplicates may pass; see that " +
		"RELAY_REDIS_URL can be reached from here"
	if x.Redis == nil {
		return ok("not configured: every node holds rates for itself")
	}
	took, err := x.Redis(ctx)
	if err != nil {
		return warn(advice, "%v", err)
	}
	return ok("an answer in %v", took.Round(timeGrain))
}
