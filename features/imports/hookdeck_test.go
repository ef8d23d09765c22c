package imports

import (
	"fmt"
	"maps"
)

// hookdeckOf is a source, a destination or a connection.
func hookdeckOf(id string, more ...any) map[string]any {
	o := object("id", id, "name", "the "+id, "team_id", "tm_1", "created_at", at, "updated_at", at)
	maps.Copy(o, object(more...))
	return o
}

// hookdeckWorld lists sources and connections. Lists have no credentials.
func hookdeckWorld(sources []any, connections []any, auth map[string]map[string]any) world {
	w := world{"/sources": sources, "/connections": connections}
	whole := func(path string, part map[string]any) {
		kept := maps.Clone(part)
		config, _ := part["config"].(map[string]any)
		kept["config"] = maps.Clone(config)
		if a := auth[part["id"].(string)]; a != nil {
			kept["config"].(map[string]any)["auth"] = a
		}
		w[path+part["id"].(string)] = kept
	}
	for _, s := range sources {
		whole("/sources/", s.(map[string]any))
	}
	for _, c := range connections {
		whole("/destinations/", c.(map[string]any)["destination"].(map[string]any))
	}
	return w
}

var hookdeckWorlds = one{system: "hookdeck", count: "connection: %d read = %[1]d written + 0 listed",
	small: func() world {
		source := func(id, kind string, more ...any) map[string]any {
			return hookdeckOf(id, append([]any{"type", kind, "url", "https://hkdk.events/" + id, "config", object()},
				more...)...)
		}
		to := func(id string, config ...any) map[string]any {
			return hookdeckOf(id, "type", "HTTP", "config", object(append([]any{"url", "https://" + id + ".example.com/in",
				"path_forwarding_disabled", true, "http_method", nil, "rate_limit", nil, "rate_limit_period", nil}, config...)...))
		}
		connect := func(id string, from, to map[string]any, more ...any) map[string]any {
			return hookdeckOf(id, append([]any{"source", from, "destination", to, "rules", []any{}}, more...)...)
		}
		stripe := source("src_1", "STRIPE")
		plain := source("src_2", "WEBHOOK", "description", "anything", "disabled_at", at)
		hmac := source("src_3", "HMAC")
		other := source("src_4", "FAVRO", "config", object("auth_type", "FAVRO", "custom_response", object("body", "ok")))
		publish := source("src_5", "PUBLISH_API")
		shop := to("des_1", "rate_limit", 120, "rate_limit_period", "minute", "auth_type", "HOOKDECK_SIGNATURE")
		return hookdeckWorld([]any{stripe, plain, hmac, other, publish}, []any{
			connect("web_1", stripe, shop, "paused_at", at, "rules", []any{
				object("type", "retry", "strategy", "exponential", "interval", 30000, "count", 60,
					"response_status_codes", []any{"!404", "500-599"}),
				object("type", "filter", "body", object("type", object("$in", []any{"charge.succeeded"})),
					"headers", object("x-kind", "a"), "path", nil, "query", true)}),
			connect("web_2", stripe, to("des_2", "auth_type", "BEARER_TOKEN", "rate_limit", 3, "rate_limit_period",
				"concurrent"), "rules", []any{object("type", "retry", "strategy", "linear", "interval", 500, "count", 3),
				object("type", "filter", "body", object("a", 1)), object("type", "filter", "query", object("b", "2")),
				object("type", "transform", "transformation_id", "trs_1"), object("type", "delay", "delay", 1000),
				object("type", "deduplicate", "window", 60000)}),
			connect("web_3", plain, to("des_3", "auth_type", "BASIC_AUTH"), "disabled_at", at),
			connect("web_4", hmac, to("des_4", "auth_type", "API_KEY")),
			connect("web_5", other, to("des_5", "auth_type", "OAUTH2_CLIENT_CREDENTIALS", "http_method", "PUT")),
			connect("web_6", publish, to("des_6", "auth_type", "CUSTOM_SIGNATURE", "path_forwarding_disabled", false)),
			connect("web_7", publish, to("des_7", "auth_type", "AWS_SIGNATURE")),
			connect("web_8", publish, hookdeckOf("des_8", "type", "CLI", "config", object("path", "/in"))),
			connect("web_9", publish, to("des_9"), "rules", []any{object("type", "filter", "path", "/a")}),
			connect("web_10", publish, to("des_10", "auth_type", "BEARER_TOKEN")),
		}, map[string]map[string]any{
			"src_1": object("webhook_secret_key", "planted-stripe"),
			"src_3": object("webhook_secret_key", "planted-hmac", "algorithm", "sha256", "header_key", "x-sig", "encoding",
				"hex"),
			"des_2": object("token", "planted-token"),
			"des_3": object("username", "relay", "password", "planted-password"),
			"des_4": object("key", "x-api-key", "api_key", "planted-key", "to", "header"),
			"des_5": object("auth_server", "https://login.example.com/token", "client_id", "relay", "client_secret",
				"planted-client", "scope", "events", "authentication_type", "basic"),
			"des_6": object("key", "x-custom", "signing_secret", "planted-signing"),
			"des_7": object("access_key_id", "AKI", "secret_access_key", "planted-aws"),
		})
	},
	large: func(n int) world {
		var sources, connections []any
		for i := range n {
			source := hookdeckOf(fmt.Sprint("src_", i), "type", "WEBHOOK", "url", "https://hkdk.events/x", "config", object())
			sources = append(sources, source)
			to := hookdeckOf(fmt.Sprint("des_", i), "type", "HTTP", "config", object("url", "https://receiver.example.com",
				"path_forwarding_disabled", true, "http_method", nil, "rate_limit", nil, "rate_limit_period", nil))
			connections = append(connections, hookdeckOf(fmt.Sprint("web_", i), "source", source, "destination", to, "rules",
				[]any{object("type", "deduplicate", "note", fmt.Sprintf("%0200d", i))}))
		}
		return hookdeckWorld(sources, connections, nil)
	},
}
