package imports

import (
	"fmt"
	"maps"
	"strings"
)

func svixApplication(id string, more ...any) map[string]any {
	app := object("id", id, "name", "Shop "+id, "metadata", object(), "createdAt", at, "updatedAt", at)
	maps.Copy(app, object(more...))
	return app
}

func svixHook(id string, more ...any) map[string]any {
	e := object("id", id, "url", "https://receiver.example.com/"+id, "description", "", "metadata", object(), "version", 1,
		"createdAt", at, "updatedAt", at)
	maps.Copy(e, object(more...))
	return e
}

var svixWorlds = one{system: "svix", count: "endpoint: %d read = %[1]d written + 0 listed",
	small: func() world {
		const apps = "/api/v1/app"
		one, two := apps+"/app_1/endpoint", apps+"/app_2/endpoint"
		none := object("headers", object(), "sensitive", []any{})
		return world{
			"/api/v1/event-type": []any{
				object("name", "order.paid", "description", "An order was paid.", "deprecated", false, "createdAt", at,
					"updatedAt", at, "schemas", object("1", object("type", "string"), "12", object("type", "object"))),
				object("name", "order.old", "description", "", "archived", true, "deprecated", false, "createdAt", at,
					"updatedAt", at),
				object("name", "order.odd", "description", "", "deprecated", false, "createdAt", at, "updatedAt", at,
					"schemas", object("1", object("type", "no type"))),
			},
			apps: []any{
				svixApplication("app_1", "uid", "customer-1", "rateLimit", 50, "metadata", object("plan", "pro")),
				svixApplication("app_2"),
				svixApplication("app_3"),
			},
			one: []any{
				svixHook("ep_1", "uid", "main", "filterTypes", []any{"order.paid"}, "rateLimit", 5, "description", "for the shop"),
				svixHook("ep_2", "disabled", true, "channels", []any{"project-1"}, "metadata", object("team", "a")),
				svixHook("ep_3"),
			},
			two:                      []any{svixHook("ep_4")},
			apps + "/app_3/endpoint": []any{},
			one + "/ep_1/secret":     object("key", "whsec_cGxhbnRlZC1zZWNyZXQtb2YtdGhlLWVuZHBvaW50"),
			one + "/ep_2/secret":     object("key", "cGxhbnRlZC1zZWNyZXQtb2YtYW5vdGhlci1lbmRwb2ludA=="),
			one + "/ep_3/secret":     object("key", "whsec_cGxhbnRlZC1zZWNyZXQtb2YtdGhlLXRoaXJk"),
			two + "/ep_4/secret":     object("key", "whsec_"+strings.Repeat("A", 96)),
			one + "/ep_1/headers": object("headers", object("X-Shop", "de", "X-Api-Key", "planted"), "sensitive",
				[]any{}),
			one + "/ep_2/headers":        none,
			one + "/ep_3/headers":        object("headers", object(), "sensitive", []any{"Authorization"}),
			two + "/ep_4/headers":        none,
			one + "/ep_3/transformation": object("enabled", true, "code", "handler(webhook)"),
		}
	},
	large: func(n int) world {
		w := world{"/api/v1/event-type": []any{}}
		apps := []any{}
		for i := range n {
			id := fmt.Sprint("app_", i)
			hook := "/api/v1/app/" + id + "/endpoint"
			apps = append(apps, svixApplication(id))
			w[hook] = []any{svixHook("ep_"+id, "description", fmt.Sprintf("%0400d", i))}
			w[hook+"/ep_"+id+"/secret"] = object("key", "whsec_cGxhbnRlZC1zZWNyZXQtb2YtdGhlLWVuZHBvaW50")
			w[hook+"/ep_"+id+"/headers"] = object("headers", object(), "sensitive", []any{})
		}
		w["/api/v1/app"] = apps
		return w
	},
}
