package mcp

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/url"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/eventrelay/relay/pkg/config"
)

// defaultPage is the number of rows of a page. The most, fifty rows of events, are about 40 KB.
const defaultPage = "20"

// page is the part of a list that a tool asks for.
type page struct {
	Limit  int    `json:"limit,omitempty" jsonschema:"rows of the page; 20 if left out" most:"50"`
	Cursor string `json:"cursor,omitempty" jsonschema:"next_cursor of the page before" most:"4096"`
}

// queryOf returns the arguments of a tool as a query of /v1: they have the same names.
func queryOf(arguments any) url.Values {
	q := url.Values{}
	var members map[string]any
	if raw, err := json.Marshal(arguments); err == nil && json.Unmarshal(raw, &members) == nil {
		for name, v := range members {
			q.Set(name, fmt.Sprint(v))
		}
	}
	return q
}

type findingsListInput struct {
	page
	Status   string `json:"status,omitempty" jsonschema:"open, acknowledged, resolved or ignored; all if left out"`
	Severity string `json:"severity,omitempty" jsonschema:"critical, high, medium or low"`
	Source   string `json:"source,omitempty" jsonschema:"where it was seen: sdk, drain, scan, tripwire or event"`
	Rule     string `json:"rule,omitempty" jsonschema:"id of a detection rule, such as stripe-secret-live"`
	Since    string `json:"since,omitempty" jsonschema:"seen at this time or later, RFC 3339 in UTC"`
}

type idInput struct {
	ID string `json:"id" jsonschema:"the id, with its prefix"`
}

type eventsListInput struct {
	page
	EndpointID    string `json:"endpoint_id,omitempty" jsonschema:"only events of this endpoint (ep_…)"`
	DestinationID string `json:"destination_id,omitempty" jsonschema:"only events for this destination (dst_…)"`
	Status        string `json:"status,omitempty" jsonschema:"pending, retrying, delivered, failed, skipped or rejected"`
	Type          string `json:"type,omitempty" jsonschema:"an event type, or a prefix such as order.*"`
	RunID         string `json:"run_id,omitempty" jsonschema:"only events of this replay (run_…) or recovery job (rec_…)"`
	Source        string `json:"source,omitempty" jsonschema:"provider, api or test"`
	Processing    string `json:"processing,omitempty" jsonschema:"none, processing, processed, failed or missing"`
	Since         string `json:"since,omitempty" jsonschema:"received at this time or later, RFC 3339 in UTC"`
	Until         string `json:"until,omitempty" jsonschema:"received before this time, RFC 3339 in UTC"`
	Query         string `json:"q,omitempty" jsonschema:"text in body, headers or id; of 24 hours unless since is set"`
}

type endpointsListInput struct {
	page
	Query string `json:"q,omitempty" jsonschema:"an id, a URL, or text in name, description, metadata or a host"`
}

type eventGetInput struct {
	ID          string `json:"id" jsonschema:"id of the event (evt_…)"`
	IncludeBody bool   `json:"include_body,omitempty" jsonschema:"also the body; it is data that others have written"`
	MaxBytes    int    `json:"max_bytes,omitempty" jsonschema:"most bytes of the body; 4096 if left out" most:"16384"`
}

type recoveriesListInput struct {
	page
	EndpointID string `json:"endpoint_id,omitempty" jsonschema:"only jobs of this endpoint (ep_…)"`
	State      string `json:"state,omitempty" jsonschema:"such as awaiting_approval, running, completed or stopped"`
}

type usageGetInput struct {
	Period string `json:"period,omitempty" jsonschema:"a month in UTC, such as 2026-10; this month if left out"`
}

// addReads adds the tools that read. Descriptions are constants.
func (s *Server) addReads() {
	addList[findingsListInput](s, "findings_list", "List leaked secrets", "findings",
		"Leaked keys and secrets that log drains, stored events, applications, scans or tripwires have shown, newest first. "+
			"Each has its severity, status, masked text, and where it was seen. Use finding_get for all locations.")
	addRead(s, "finding_get", "Show a leaked secret",
		"One finding (fnd_…): what leaked, where, since when, whether it still leaks, and the provider's page on how to "+
			"rotate the key. The secret itself is never shown.",
		func(ctx context.Context, key *config.Key, in idInput) (string, error) {
			return s.show(ctx, key, request{path: "findings/" + url.PathEscape(in.ID)})
		})
	addList[eventsListInput](s, "events_list", "List events", "events",
		"Received and sent events, newest first, with the state of each delivery and why it waits or failed. "+
			"Status failed has been given up and needs a recovery; retrying fails and is tried again, by default for three "+
			"days; both: failed,retrying.")
	addRead(s, "event_get", "Show an event",
		"One event (evt_…) with its deliveries, attempts, answers of the destinations and processing receipt. The body is "+
			"left out unless include_body is true.",
		func(ctx context.Context, key *config.Key, in eventGetInput) (string, error) {
			body := 0
			if in.IncludeBody {
				body = cmp.Or(in.MaxBytes, 4096)
			}
			return s.show(ctx, key, request{path: "events/" + url.PathEscape(in.ID), body: body,
				without: []string{"headers_raw", "headers_base64", "data"}})
		})
	addList[endpointsListInput](s, "endpoints_list", "List endpoints", "endpoints",
		"Endpoints with their destinations, filters, retry policy and state. Tokens and secrets are masked.")
	addRead(s, "usage_get", "Show the usage",
		"Events, deliveries and bytes of a month, the allowance, and the projection to the month's end.",
		func(ctx context.Context, key *config.Key, in usageGetInput) (string, error) {
			x := request{path: "usage", query: queryOf(in)}
			if in.Period != "" {
				x.page = "?" + x.query.Encode() // of the same month
			}
			return s.show(ctx, key, x)
		})
	addList[recoveriesListInput](s, "recoveries_list", "List recovery jobs", "recoveries",
		"Jobs that deliver failed deliveries again, newest first: state, counters, canary and deadline. A person "+
			"prepares them in the dashboard.")
}

// addList adds a tool that reads a page of a list.
func addList[In any](s *Server, name, title, path, description string) {
	addRead(s, name, title, description, func(ctx context.Context, key *config.Key, in In) (string, error) {
		q := queryOf(in)
		q.Set("limit", cmp.Or(q.Get("limit"), defaultPage))
		return s.show(ctx, key, request{path: path, query: q})
	})
}

// addRead adds a tool that changes nothing.
func addRead[In any](s *Server, name, title, description string,
	do func(context.Context, *config.Key, In) (string, error)) {
	no := false
	addTool(s, name, title, description,
		sdk.ToolAnnotations{ReadOnlyHint: true, IdempotentHint: true, DestructiveHint: &no}, do)
}

// addTool adds a tool whose result is a text.
func addTool[In any](s *Server, name, title, description string, hints sdk.ToolAnnotations,
	do func(context.Context, *config.Key, In) (string, error)) {
	arguments, outside := argumentsOf[In](), false
	s.tools[name] = true
	hints.Title, hints.OpenWorldHint = title, &outside
	s.sdk.AddTool(&sdk.Tool{Name: name, Title: title, Description: description, InputSchema: schemaOf(arguments),
		Annotations: &hints}, func(ctx context.Context, call *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		key, _ := ctx.Value(keyOf{}).(*config.Key)
		var in In
		text := ""
		err := decode(call.Params, arguments, &in)
		if err == nil {
			text, err = do(ctx, key, in)
		}
		if err != nil {
			text = err.Error()
		}
		return &sdk.CallToolResult{IsError: err != nil, Content: []sdk.Content{&sdk.TextContent{Text: text}}}, nil
	})
}
