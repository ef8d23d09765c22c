package routes

import (
	"embed"
	"encoding/json"

	"github.com/eventrelay/relay/api/wire"
	"github.com/eventrelay/relay/pkg/web"
)

// texts describe the operations in the OpenAPI document, sources the types.
var (
	//go:embed openapi
	texts embed.FS
	//go:embed types.go
	sources embed.FS
)

// Document is the part of the OpenAPI document.
func Document() wire.Part {
	return wire.Part{Texts: texts, Sources: sources, Answers: []any{
		EventType{}, wire.List[EventType]{}, EventTypesImported{}, EventTypesSeen{}, CatalogueSettings{},
	}, Requests: []any{EventType{}, CatalogueSettings{}}}
}

// EventType is an entry of the catalogue of your event types.
type EventType struct {
	Object string `json:"object" const:"event_type"`
	// The `type` of the events. In a path, `/` is written as `%2F`.
	Name string `json:"name" in:"own" ref:"EventTypeName"`
	// For people; Markdown. Default: empty.
	Description string `json:"description" in:"" maxLength:"2000" pattern:"@text"`
	// Groups types in lists. Default: empty.
	Group string `json:"group" example:"Invoices" in:"name" maxLength:"100" pattern:"@text"`
	// `true`: new receivers should not use it. Default `false`.
	Deprecated bool `json:"deprecated" in:""`
	// `true`: it is neither in the public catalogue nor in the portal. Default `false`.
	Internal bool `json:"internal" in:""`
	// Number of the newest version of the schema; `null` without one.
	Version *int `json:"version"`
	// JSON Schema (2020-12) of `data` of sent events, and of the whole body of received ones. Another schema becomes the
	// next version. `$ref` can only name a part of the schema, such as `#/$defs/address`, which does not contain itself.
	Schema json.RawMessage `json:"schema" in:"own" ref:"EventSchema"`
	// Any JSON of at most 32 KiB; test events have it as `data`.
	Example json.RawMessage `json:"example" in:"own" ref:"AnyJSON"`
	// All versions of the schema, oldest first: the last ten, or those that fit into 240 KiB.
	Versions  []EventTypeVersion `json:"versions"`
	CreatedAt web.Time           `json:"created_at"`
	UpdatedAt web.Time           `json:"updated_at"`
	Warnings  []wire.Warning     `json:"warnings,omitempty" ref:"Warnings"`
}

// EventTypeVersion is a version of the schema of an event type.
type EventTypeVersion struct {
	Version   int             `json:"version" minimum:"1"`
	Schema    json.RawMessage `json:"schema" ref:"EventSchema"`
	Example   json.RawMessage `json:"example" ref:"AnyJSON"`
	CreatedAt web.Time        `json:"created_at"`
}

// EventTypesImported is the result of an import.
type EventTypesImported struct {
	Object    string `json:"object" const:"event_types_imported"`
	Created   int    `json:"created" minimum:"0"`
	Updated   int    `json:"updated" minimum:"0"`
	Unchanged int    `json:"unchanged" minimum:"0"`
}

// EventTypesSeen are the types of the newest 1,000 events.
type EventTypesSeen struct {
	Object string          `json:"object" const:"event_types_seen"`
	Types  []EventTypeSeen `json:"types"`
}

// EventTypeSeen is a type of recent events.
type EventTypeSeen struct {
	Name string `json:"name" ref:"EventTypeName"`
	// Number of events with it among the newest 1,000.
	Events int `json:"events" minimum:"1"`
	// Whether the catalogue has it.
	Known bool `json:"known"`
}

// CatalogueSettings say who may see the catalogue.
type CatalogueSettings struct {
	Object string `json:"object" const:"catalogue_settings"`
	// `true`: `/catalogue` and `/catalogue/openapi.json` show it to everybody, without internal types. Default `false`.
	Public bool `json:"public" in:""`
	// Heading of the page and title of the document. Default: Webhooks.
	Title    string         `json:"title" in:"name" maxLength:"100" pattern:"@text"`
	Warnings []wire.Warning `json:"warnings,omitempty" ref:"Warnings"`
}
