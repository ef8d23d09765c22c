package config

import (
	"embed"

	"github.com/eventrelay/relay/pkg/config/require"
)

// FieldSources is this file: its comments are sentences of the OpenAPI document.
//
//go:embed fields.go
var FieldSources embed.FS

// EndpointSettings are settings of an endpoint that the API shows as they are stored. One field here is all that a
// setting needs besides its use. Its comment is its sentence in the OpenAPI document. Its tags are those of package
// wire, preset (its value in a new endpoint), and label and hint of its input on pages, where entry:"words" is a list
// in one line.
type EndpointSettings struct {
	// Response to the provider after an event was stored. `null` resets it to the default.
	Response Response `json:"response" in:"null"`
	// `false`: the ingest URL gets 404 and sends are refused. Stored events stay, and deliveries that wait go on:
	// `paused` holds them, and `enabled: false` of a destination ends them.
	Enabled bool `json:"enabled" in:"" preset:"true" label:"Enabled" hint:"Disabled: the ingest URL answers 404 and nothing can be sent. Stored events stay, and waiting deliveries go on: pause the endpoint to hold them"`
	// `true`: events are stored and held until the endpoint is unpaused.
	Paused bool `json:"paused" in:"" preset:"false" label:"Paused" hint:"Paused: requests are accepted and stored; deliveries wait until you unpause"`
	// Deliver received events with the method they came with (`PUT`, `PATCH` or `DELETE`). Without it every delivery is a
	// `POST`: no provider signs the method.
	KeepMethod bool `json:"keep_method" in:"" preset:"false" label:"Keep the request method" hint:"Deliver PUT, PATCH and DELETE requests as such. Off: every delivery is a POST. Providers sign no method"`
	// Received headers to forward: names, or their beginnings, which end in a hyphen, such as `X-Shop-`. Where
	// `verification` is that of a known provider, the headers that it sends are forwarded, and these. Otherwise all are
	// but `Authorization`, `Cookie` and `X-Api-Key`, or only these if there are some. Headers of the content are always
	// forwarded; those by which a sender could pose as someone else never are.
	AllowHeaders []string `json:"allow_headers" in:"null" maxItems:"50" items.maxLength:"128" items.pattern:"^[A-Za-z0-9-]+$" entry:"words" label:"Received headers to forward" hint:"Names, or beginnings that end in a hyphen, such as X-Shop-, separated by spaces. With a provider’s signature: beside its own headers. Otherwise only these; leave empty for all but Authorization, Cookie and X-Api-Key"`
}

// DestinationSettings are settings of a destination that the API shows as they are stored, as [EndpointSettings] are.
type DestinationSettings struct {
	Enabled bool `json:"enabled" in:"" preset:"true" label:"Enabled" hint:"Disabled: new events are not sent to it, and queued deliveries end as skipped (destination_disabled), which enabling does not undo"`
	Paused  bool `json:"paused" in:"" preset:"false"`
	// Time limit of one attempt, in seconds.
	TimeoutSeconds int `json:"timeout_seconds" in:"" minimum:"1" maximum:"60" preset:"15" label:"Timeout" hint:"1s to 60s"`
	// What a delivery has as its body. `standard`: the stored body, which for an event that was sent through the API is
	// its envelope. `raw`: of such an event `data` alone; another one as `standard`. `cloudevents`: CloudEvents 1.0 in
	// the structured mode, `application/cloudevents+json`; a body that is not JSON is `data_base64`. `cloudevents_binary`:
	// the body as with `raw`, and the attributes in headers `ce-*`; not for `http_batch`, `s3` and `sqs`, where an event
	// has no headers of its own.
	Format string `json:"format" in:"" enum:"standard,raw,cloudevents,cloudevents_binary" preset:"standard" label:"Format of the body" hint:"standard: as it is stored. raw: data of an event that was sent through the API, without its envelope. cloudevents: CloudEvents 1.0 as JSON. cloudevents_binary: its attributes in headers"`
	// Maximum number of concurrent requests.
	MaxInFlight int `json:"max_in_flight" in:"" minimum:"1" maximum:"1000" preset:"64" label:"Requests at the same time" hint:"1 to 1,000"`
}

// Values of DestinationSettings.Format.
const (
	FormatStandard          = "standard"
	FormatRaw               = "raw"
	FormatCloudEvents       = "cloudevents"
	FormatCloudEventsBinary = "cloudevents_binary"
)

// NewEndpointSettings are those of a new endpoint with that provider.
func NewEndpointSettings(provider string) EndpointSettings {
	s := EndpointSettings{Response: DefaultResponse(provider), AllowHeaders: []string{}}
	require.Preset(&s)
	return s
}

// NewDestinationSettings are those of a new destination.
func NewDestinationSettings() (s DestinationSettings) {
	require.Preset(&s)
	return s
}
