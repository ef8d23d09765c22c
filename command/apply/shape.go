package apply

import "github.com/eventrelay/relay/pkg/config"

// shape says which members a value of the file may have, and how it is compared with what the service shows.
type shape struct {
	members map[string]*shape // of an object with fixed members
	values  *shape            // of an object with free names, such as headers
	items   *shape            // of a list whose elements are objects
	kind    kind
	// nullable says that null is a value: it removes what is there. Other members always have a value in the service.
	nullable bool
}

type kind int

const (
	plain      kind = iota // any JSON, compared as a whole
	secret                 // a reference to a secret; the service shows its last four characters at most
	secrets                // a list of references to secrets
	address                // a URL or a reference to one
	header                 // the value of a header, or a reference to one
	timestamp              // compared as a time
	operations             // a list, or an object with the list as its member ops
)

// values returns members without any rule of their own, by their names.
func values(names ...string) map[string]*shape {
	out := map[string]*shape{}
	for _, name := range names {
		out[name] = &shape{}
	}
	return out
}

// with adds members that may be null, and others.
func with(members map[string]*shape, nullable []string, more map[string]*shape) map[string]*shape {
	for _, name := range nullable {
		members[name] = &shape{nullable: true}
	}
	for name, s := range more {
		members[name] = s
	}
	return members
}

// endpointShape has every member of an endpoint that can be set. TestFileKnowsEveryMember compares it with the OpenAPI
// document.
func endpointShape() *shape {
	return &shape{members: with(values("name", "provider", "enabled", "paused", "scan_payloads", "keep_method"),
		[]string{"description", "type_source"}, map[string]*shape{
			"verification": {nullable: true, members: with(values("type", "tolerance_seconds", "mode", "header", "algorithm",
				"encoding", "prefix", "signed_content"), nil,
				map[string]*shape{"secret": {kind: secret}, "secrets": {kind: secrets}})},
			"dedup":        {nullable: true, members: values("key", "window_seconds")},
			"ingest_limit": {nullable: true, members: with(values(), []string{"events_per_second", "bytes_per_second"}, nil)},
			"destinations": {items: destinationShape()},
			"retry_policy": {members: retryPolicy()},
			"alerts": {members: with(values("enabled"), []string{"channels", "consecutive_failures", "failure_rate_percent"},
				map[string]*shape{"muted_until": {nullable: true, kind: timestamp}})},
			"transformation": {nullable: true, kind: operations},
			"response":       {members: values("status", "content_type", "body")},
			"metadata":       {values: &shape{nullable: true}},
		})}
}

// retryPolicy returns the members of all strategies.
func retryPolicy() map[string]*shape {
	members := values("strategy", "max_attempts", "jitter", "respect_retry_after", "max_retry_after_seconds", "retry_on")
	for _, strategy := range config.RetryStrategies() {
		for _, m := range strategy.Members {
			members[m.Name] = &shape{}
		}
	}
	return members
}

func destinationShape() *shape {
	return &shape{members: with(values("enabled", "paused", "timeout_seconds", "max_in_flight"), []string{"name"},
		map[string]*shape{
			"url":        {kind: address},
			"headers":    {values: &shape{nullable: true, kind: header}},
			"rate_limit": {nullable: true, members: values("per_second", "burst")},
			"filter":     {nullable: true, members: with(values(), []string{"types", "body"}, nil)},
			"signing":    {members: with(values("scheme"), nil, map[string]*shape{"secret": {kind: secret}})},
		})}
}
