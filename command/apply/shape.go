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

func object(members map[string]*shape) *shape { return &shape{members: members} }

// optional marks a value that may be null.
func optional(s *shape) *shape {
	s.nullable = true
	return s
}

func value() *shape { return &shape{} }

func of(k kind) *shape { return &shape{kind: k} }

// values returns members without any rule of their own, by their names.
func values(names ...string) map[string]*shape {
	out := map[string]*shape{}
	for _, name := range names {
		out[name] = value()
	}
	return out
}

// with adds members to others.
func with(members map[string]*shape, name string, s *shape) map[string]*shape {
	members[name] = s
	return members
}

// endpointShape has every member of an endpoint that can be set. TestFileKnowsEveryMember compares it with the OpenAPI
// document.
func endpointShape() *shape {
	verification := with(with(values("type", "tolerance_seconds", "mode", "header", "algorithm", "encoding", "prefix",
		"signed_content"), "secret", of(secret)), "secrets", of(secrets))
	limit := map[string]*shape{"events_per_second": optional(value()), "bytes_per_second": optional(value())}
	alerts := map[string]*shape{"enabled": value(), "channels": optional(value()),
		"consecutive_failures": optional(value()), "failure_rate_percent": optional(value()),
		"muted_until": optional(of(timestamp))}
	return object(map[string]*shape{
		"name": value(), "description": optional(value()), "provider": value(),
		"verification": optional(object(verification)), "type_source": optional(value()),
		"dedup":          optional(object(values("key", "window_seconds"))),
		"ingest_limit":   optional(object(limit)),
		"destinations":   {items: destinationShape()},
		"retry_policy":   object(retryPolicy()),
		"alerts":         object(alerts),
		"transformation": optional(of(operations)),
		"response":       object(values("status", "content_type", "body")),
		"enabled":        value(), "paused": value(), "scan_payloads": value(), "keep_method": value(),
		"metadata": {values: optional(value())},
	})
}

// retryPolicy returns the members of all strategies.
func retryPolicy() map[string]*shape {
	members := values("strategy", "max_attempts", "jitter", "respect_retry_after", "max_retry_after_seconds", "retry_on")
	for _, strategy := range config.RetryStrategies() {
		for _, m := range strategy.Members {
			members[m.Name] = value()
		}
	}
	return members
}

func destinationShape() *shape {
	return object(map[string]*shape{
		"name": optional(value()), "url": of(address), "enabled": value(), "paused": value(), "timeout_seconds": value(),
		"headers":       {values: optional(of(header))},
		"rate_limit":    optional(object(values("per_second", "burst"))),
		"max_in_flight": value(),
		"filter":        optional(object(map[string]*shape{"types": optional(value()), "body": optional(value())})),
		"signing":       object(with(values("scheme"), "secret", of(secret))),
	})
}
