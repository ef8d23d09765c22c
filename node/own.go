package node

import (
	"context"
	"log/slog"
	"net"
	"net/url"
	"slices"
	"strings"

	"github.com/eventrelay/relay/pkg/egress"
)

// newOwn creates the list of the addresses of this machine and of the engines, which no delivery may reach.
func newOwn(n *Node) (runFunc, error) {
	own, err := egress.NewOwnAddrs(n.stack.Context(), n.log, func(ctx context.Context) []string {
		if n.settings.Embedded {
			return nil
		}
		brokers, err := n.producer.BrokerHosts(ctx)
		if err != nil {
			n.log.LogAttrs(ctx, slog.LevelWarn, "cannot list the Kafka brokers: deliveries to some of them are not refused",
				slog.Any("error", err))
		}
		hosts := append(n.settings.engineHosts(), brokers...)
		slices.Sort(hosts)
		return slices.Compact(hosts)
	})
	if err != nil {
		return nil, err
	}
	n.policy.OwnAddrs = own
	return own.Run, nil
}

// engineHosts returns the hosts of Kafka, ClickHouse and Redis that the settings name.
func (s Config) engineHosts() []string {
	var hosts []string
	for _, broker := range s.KafkaBrokers {
		if host, _, err := net.SplitHostPort(broker); err == nil {
			hosts = append(hosts, host)
		}
	}
	urls := slices.Concat(SplitList(s.ClickHouseURL), SplitList(s.ReadURL), SplitList(s.SearchURL), []string{s.RedisURL})
	for _, text := range urls {
		if u, err := url.Parse(strings.TrimSpace(text)); err == nil && u.Hostname() != "" {
			hosts = append(hosts, u.Hostname())
		}
	}
	return hosts
}
