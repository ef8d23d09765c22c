package imports

import (
	"fmt"
	"maps"
)

const convoyProject = "/api/v1/projects/prj_1"

func convoyHook(id string, more ...any) map[string]any {
	e := object("uid", id, "name", "hook "+id, "url", "https://receiver.example.com/"+id, "owner_id", "",
		"status", "active",
		"secrets", []any{object("uid", "sec", "value", "planted-secret-of-"+id, "expires_at", nil)}, "rate_limit", 0,
		"rate_limit_duration", 0, "http_timeout", 30, "authentication", nil, "created_at", at, "updated_at", at)
	maps.Copy(e, object(more...))
	return e
}

// convoySubOf is a subscription; "" for no source.
func convoySubOf(id, endpoint, source string, more ...any) map[string]any {
	s := object("uid", id, "name", "sub "+id, "type", "api", "endpoint_metadata", object("uid", endpoint,
		"name", "x", "url", "x"), "source_metadata", nil, "filter_config",
		object("event_types", []any{"*"}, "filter", object()))
	if source != "" {
		s["source_metadata"] = object("uid", source)
	}
	maps.Copy(s, object(more...))
	return s
}

func convoyWorld(endpoints, subscriptions []any, more ...any) world {
	answer := func(data any) map[string]any { return object("status", true, "message", "fetched", "data", data) }
	w := world{
		convoyProject: answer(object("uid", "prj_1", "config", object("strategy", object("type", "linear", "duration", 100,
			"retry_count", 10), "signature", object("header", "X-Shop-Signature", "versions", []any{
			object("uid", "1", "hash", "SHA512", "encoding", "base64"), object("uid", "2", "hash", "SHA256", "encoding",
				"hex")})))),
		convoyProject + "/event-types": answer([]any{object("uid", "1", "name", "*"), object("uid", "2", "name", "order.paid",
			"description", "An order was paid.", "category", "Orders", "json_schema", object(), "deprecated_at", nil)}),
		convoyProject + "/sources":       []any{},
		convoyProject + "/endpoints":     endpoints,
		convoyProject + "/subscriptions": subscriptions,
	}
	for path, data := range object(more...) {
		if list, isList := data.([]any); isList && path == "/sources" {
			w[convoyProject+path] = list
		} else {
			w[convoyProject+path] = answer(data)
		}
	}
	return w
}

var convoyWorlds = one{system: "convoy", args: []string{"--project", "prj_1"},
	count: "endpoint: %d read = %[1]d written + 0 listed",
	small: func() world {
		return convoyWorld([]any{
			convoyHook("ep_1", "owner_id", "customer-1", "advanced_signatures", true, "rate_limit", 120, "rate_limit_duration",
				60, "slack_webhook_url", "https://slack.example.com/planted", "support_email", "a@example.com"),
			convoyHook("ep_2", "owner_id", "customer-1", "status", "paused", "authentication", object("type", "api_key",
				"api_key", object("header_name", "X-Api-Key", "header_value", "planted-key"))),
			convoyHook("ep_3", "status", "inactive", "authentication", object("type", "basic_auth", "basic_auth",
				object("username", "relay", "password", "planted-password")), "http_timeout", 90),
			convoyHook("ep_4", "mtls_client_cert", object("client_cert", "x"), "content_type",
				"application/x-www-form-urlencoded", "authentication", object("type", "oauth2", "oauth2", object("url", "x"))),
			convoyHook("ep_5", "secrets", []any{object("uid", "sec", "value", "planted-old", "expires_at", at)}),
			convoyHook("ep_6"),
		}, []any{
			convoySubOf("sub_1", "ep_1", "", "filter_config", object("event_types", []any{"order.paid", "order.*"}, "filter",
				object()), "retry_config", object("type", "exponential", "duration", 3, "retry_count", 5)),
			convoySubOf("sub_2", "ep_2", "", "filter_config", object("event_types", []any{"*"}, "filter", object("body",
				object("order.amount", object("$gte", 100), "order", object("currency", "EUR")), "headers", object("x-kind",
					"a"))), "rate_limit_config", object("count", 1, "duration", 100)),
			convoySubOf("sub_3", "ep_3", "src_1", "function", "function transform(x) { return x }", "filter_config",
				object("event_types", []any{"*"}, "filter", object("body", object("items.$.sku", "a")))),
			convoySubOf("sub_4", "ep_4", ""),
			convoySubOf("sub_5", "ep_5", "src_2"),
			convoySubOf("sub_6", "ep_9", ""),
			convoySubOf("sub_7", "ep_1", "", "type", "cli", "endpoint_metadata", nil),
		}, "/sources", []any{
			object("uid", "src_1", "name", "github", "type", "http", "provider", "github", "verifier", object("type", "hmac",
				"hmac", object("header", "X-Hub-Signature-256", "hash", "SHA256", "secret", "planted-github", "encoding", "hex"))),
			object("uid", "src_2", "name", "other", "type", "http", "provider", "", "is_disabled", true, "verifier",
				object("type", "hmac", "hmac", object("header", "X-Sig", "hash", "SHA512", "secret", "planted-hmac", "encoding",
					"base64"))),
			object("uid", "src_3", "name", "basic", "type", "http", "provider", "", "verifier", object("type", "basic_auth",
				"basic_auth", object("username", "a", "password", "planted-basic"))),
			object("uid", "src_4", "name", "queue", "type", "pub_sub", "provider", ""),
		}, "/subscriptions/sub_1/filters", []any{
			object("uid", "flt_1", "event_type", "order.paid", "enabled_at", at, "body", object("amount", object("$gt", 5)),
				"headers", object()),
			object("uid", "flt_2", "event_type", "*", "enabled_at", at, "body", object("test", object("$exist", false))),
		})
	},
	large: func(n int) world {
		var endpoints, subscriptions []any
		for i := range n {
			id := fmt.Sprint("ep_", i)
			endpoints = append(endpoints, convoyHook(id, "owner_id", fmt.Sprint("customer-", i)))
			subscriptions = append(subscriptions, convoySubOf(fmt.Sprint("sub_", i), id, "", "function",
				"function transform(x) { return x }"))
		}
		return convoyWorld(endpoints, subscriptions)
	},
}
