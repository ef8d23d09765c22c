package imports

import (
	"fmt"
	"maps"
)

const at = "2026-02-15T10:00:00Z"

var outpostWorlds = one{system: "outpost", count: "destination: %d read = %[1]d written + 0 listed",
	small: func() world {
		destination := func(id, kind string, topics any, config, credentials map[string]any, more ...any) map[string]any {
			d := map[string]any{"id": id, "type": kind, "topics": topics, "config": config, "credentials": credentials,
				"created_at": at, "updated_at": at, "disabled_at": nil}
			maps.Copy(d, object(more...))
			return d
		}
		hook := func(id string, topics any, more ...any) map[string]any {
			return destination(id, "webhook", topics, map[string]any{"url": "https://" + id + ".example.com/in"},
				map[string]any{"secret": "planted-secret-of-" + id}, more...)
		}
		return world{
			"/topics": []string{"order.paid", "order.shipped", "not a type"},
			"/tenants": []any{
				map[string]any{"id": "customer-1", "metadata": map[string]any{"plan": "pro"}, "created_at": at},
				map[string]any{"id": "Größe 2", "metadata": nil},
				map[string]any{"id": "customer-3"},
			},
			"/tenants/customer-1/destinations": []any{
				destination("des_1", "webhook", []string{"order.paid", "order.*"},
					map[string]any{"url": "https://shop.example.com/in",
						"custom_headers": `{"X-Shop":"de","Authorization":"Bearer planted-header","Host":"other"}`},
					map[string]any{"secret": "whsec_planted-secret-of-des_1", "previous_secret": "planted-old",
						"previous_secret_invalid_at": at},
					"filter", map[string]any{"data": map[string]any{"amount": map[string]any{"$gte": 100}},
						"$or": []any{map[string]any{"topic": "order.paid"}, map[string]any{"$not": map[string]any{"data": "x"}}}},
					"delivery_metadata", map[string]any{"app": "shop"}, "metadata", map[string]any{"team": "a"}),
				hook("des_2", "*", "disabled_at", at),
				hook("des_3", []string{"*.paid"}),
				hook("des_4", "*", "filter", map[string]any{"metadata": map[string]any{"source": "crm"}}),
				destination("des_5", "aws_sqs", "*", map[string]any{"queue_url": "https://sqs.example.com/q"},
					map[string]any{"key": "AKI*****", "secret": "****"}),
			},
			"/tenants/Gr%C3%B6%C3%9Fe%202/destinations": []any{hook("des_6", "*")},
			"/tenants/customer-3/destinations":          []any{},
		}
	},
	large: func(n int) world {
		w := world{"/topics": []string{}}
		var tenants []any
		for i := range n {
			id := fmt.Sprint("customer-", i)
			tenants = append(tenants, map[string]any{"id": id})
			w["/tenants/"+id+"/destinations"] = []any{map[string]any{"id": "des_" + id, "type": "webhook", "topics": "*",
				"config":      map[string]any{"url": "https://receiver.example.com/" + id},
				"credentials": map[string]any{"secret": "planted-" + id}, "created_at": at, "updated_at": at,
				"disabled_at": nil,
				"metadata":    map[string]any{"note": "a note that makes the file larger, so that there are several of them"}}}
		}
		w["/tenants"] = tenants
		return w
	},
}
