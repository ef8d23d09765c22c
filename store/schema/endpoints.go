package schema

import (
	"github.com/eventrelay/relay/pkg/certfile"
	"github.com/eventrelay/relay/store/internal/ch"
)

// Endpoints returns the servers of the URLs that use TLS, replicas too. It returns an error if a URL cannot be parsed.
func Endpoints(urls string) (all []certfile.Endpoint, err error) {
	shards, err := ch.ParseURLs(urls)
	if err != nil {
		return nil, err
	}
	for _, shard := range shards {
		if shard.TLS == nil {
			continue
		}
		for _, addr := range shard.Addr {
			all = append(all, certfile.Endpoint{Addr: addr, TLS: shard.TLS})
		}
	}
	return all, nil
}
