package main

import "slices"

// kind is a kind of resource, and the operations of the API behind it. Paths have names of attributes in braces.
type kind struct {
	name, description            string
	create, read, update, remove string
	// path are the attributes that the path of create has. They are required, and a change makes another resource.
	path []string
	// id is the member of the answer that names the resource; empty: the last of path does.
	id string
	// within is the member of the answer of read that lists the resource among others.
	within string
	// computed are attributes that only the service sets. Secret ones are in the answer of create alone.
	computed []attribute
	// without are members of the request that the resource does not have.
	without []string
	// defaulted are members that may be null, but have another default.
	defaulted []string
	// replace are members that a change cannot set.
	replace []string
	// reset is the body with which a resource that cannot be deleted gets its defaults.
	reset object
}

type object = map[string]any

func text(name, description string) attribute {
	return attribute{Name: name, Type: "string", Description: description, Computed: true, ReadOnly: true}
}

func secret(name, description string) attribute {
	a := text(name, description)
	a.Sensitive = true
	return a
}

var kinds = []kind{
	{
		name: "endpoint",
		description: "An endpoint receives events, and delivers them to its destinations. It always has one: the others " +
			"are eventrelay_destination.",
		create: "POST /v1/endpoints", read: "GET /v1/endpoints/{id}", update: "PATCH /v1/endpoints/{id}",
		remove: "DELETE /v1/endpoints/{id}", id: "id",
		computed: []attribute{secret("ingest_url", "The address for the provider. Whoever knows it can send events.")},
		without:  []string{"destinations", "url"},
		defaulted: []string{"alerts", "allow_headers", "dedup", "response", "retry_policy", "type_source", "verification",
			"metadata"},
		replace: []string{"webhook_provider", "tenant"},
	},
	{
		name:        "destination",
		description: "A further destination of an endpoint.",
		create:      "POST /v1/endpoints/{endpoint_id}/destinations", read: "GET /v1/endpoints/{endpoint_id}",
		update: "PATCH /v1/endpoints/{endpoint_id}/destinations/{id}",
		remove: "DELETE /v1/endpoints/{endpoint_id}/destinations/{id}", path: []string{"endpoint_id"}, id: "id",
		within: "destinations", defaulted: destinationDefaults,
	},
	{
		name:        "tenant",
		description: "A customer of yours.",
		create:      "PUT /v1/tenants/{tenant}", read: "GET /v1/tenants/{tenant}", update: "PUT /v1/tenants/{tenant}",
		remove: "DELETE /v1/tenants/{tenant}", path: []string{"tenant"},
		defaulted: []string{"limits", "metadata", "portal"},
	},
	{
		name:        "tenant_key",
		description: "An API key of a tenant.",
		create:      "POST /v1/tenants/{tenant}/keys", read: "GET /v1/tenants/{tenant}/keys",
		remove: "DELETE /v1/tenants/{tenant}/keys/{id}", path: []string{"tenant"}, id: "id", within: "data",
		computed: []attribute{secret("key", "The key. It is in the state only.")},
	},
	{
		name:        "event_type",
		description: "An entry of the catalogue of event types.",
		create:      "PUT /v1/event_types/{name}", read: "GET /v1/event_types/{name}", update: "PUT /v1/event_types/{name}",
		remove: "DELETE /v1/event_types/{name}", path: []string{"name"},
	},
	{
		name:        "drain",
		description: "A log drain, whose lines are searched for secrets.",
		create:      "POST /v1/drains", read: "GET /v1/drains/{id}", update: "PATCH /v1/drains/{id}",
		remove: "DELETE /v1/drains/{id}", id: "id",
		computed: []attribute{secret("url", "Where logs are sent. It is in the state only.")},
	},
	{
		name: "alert_settings",
		description: "What alerts are about and where they go. There is one of an account; to destroy it restores the " +
			"defaults.",
		create: "PATCH /v1/alerts", read: "GET /v1/alerts", update: "PATCH /v1/alerts",
		without:   []string{"email", "slack_webhook_url", "webhook_url"},
		defaulted: []string{"channels", "channels.email", "channels.slack", "channels.webhook", "cooldown_seconds", "rules"},
		reset:     object{"rules": nil, "cooldown_seconds": nil, "channels": nil},
	},
}

var destinationDefaults = []string{"filter", "headers", "signing"}

// attributes returns the attributes of the kind.
func (k *kind) attributes() []attribute {
	all := []attribute{text("id", "Identifier, with which the resource is imported.")}
	for _, name := range k.path {
		all = append(all, attribute{Name: name, Type: "string", Required: true, replace: true})
	}
	for _, a := range bodies[k.name] {
		if slices.Contains(k.without, a.Name) || slices.Contains(k.path, a.Name) {
			continue
		}
		if a.Name == "provider" { // a reserved name
			a.Name, a.member = "webhook_provider", a.Name
		}
		a.replace = k.update == "" || slices.Contains(k.replace, a.Name)
		all = append(all, a.of("", k.defaulted))
	}
	if k.name == "endpoint" {
		first := attribute{Name: first, Type: "object", Required: true, Description: "The first destination."}
		first.Members = append(first.Members, text("id", "Identifier of the destination."))
		for _, a := range bodies["destination"] {
			first.Members = append(first.Members, a.of("", destinationDefaults))
		}
		all = append(all, first)
	}
	return append(all, k.computed...)
}
