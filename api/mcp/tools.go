package mcp

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strconv"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/eventrelay/relay/pkg/config"
)

// defaultPage is the number of rows of a page. The most, fifty rows of events, are about 40 KB.
const defaultPage = 20

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

// listOf returns the query of a list, whose page has limited rows.
func listOf(arguments any, limit int) url.Values {
	q := queryOf(arguments)
	q.Set("limit", strconv.Itoa(cmp.Or(limit, defaultPage)))
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

// request is a call of /v1 and how its answer is shown.
type request struct {
	path   string
	query  url.Values
	shape  shape
	within string // path of the page of the dashboard that shows the same; may be empty
}

// addTools adds all tools. Descriptions are constants.
func (s *Server) addTools(server *sdk.Server) {
	addRead(s, server, "findings_list", "List leaked secrets",
		"Leaked keys and secrets that log drains, stored events, applications, scans or tripwires have shown, newest first. "+
			"Each has its severity, status, masked text, and where it was seen. Use finding_get for all locations.",
		func(in findingsListInput) request {
			return request{path: "/v1/findings", within: "/app/findings", query: listOf(in, in.Limit)}
		})
	addRead(s, server, "finding_get", "Show a leaked secret",
		"One finding (fnd_…): what leaked, where, since when, whether it still leaks, and the provider's page on how to "+
			"rotate the key. The secret itself is never shown.",
		func(in idInput) request {
			id := url.PathEscape(in.ID)
			return request{path: "/v1/findings/" + id, within: "/app/findings/" + id}
		})
	addRead(s, server, "events_list", "List events",
		"Received and sent events, newest first, with the state of each delivery and why it waits or failed. "+
			"Status failed has been given up and needs a recovery; retrying fails and is tried again, by default for three "+
			"days; both: failed,retrying.",
		func(in eventsListInput) request {
			return request{path: "/v1/events", within: "/app/events", query: listOf(in, in.Limit)}
		})
	addRead(s, server, "event_get", "Show an event",
		"One event (evt_…) with its deliveries, attempts, answers of the destinations and processing receipt. The body is "+
			"left out unless include_body is true.",
		func(in eventGetInput) request {
			id := url.PathEscape(in.ID)
			body := 0
			if in.IncludeBody {
				body = 4096
				if in.MaxBytes > 0 {
					body = in.MaxBytes
				}
			}
			return request{path: "/v1/events/" + id, within: "/app/events/" + id, shape: shape{body: body,
				without: []string{"headers_raw", "headers_base64", "data"}}}
		})
	addRead(s, server, "endpoints_list", "List endpoints",
		"Endpoints with their destinations, filters, retry policy and state. Tokens and secrets are masked.",
		func(in endpointsListInput) request {
			return request{path: "/v1/endpoints", within: "/app/endpoints", query: listOf(in, in.Limit)}
		})
	addRead(s, server, "usage_get", "Show the usage",
		"Events, deliveries and bytes of a month, the allowance, and the projection to the month's end.",
		func(in usageGetInput) request {
			q := queryOf(in)
			page := url.URL{Path: "/app/usage", RawQuery: q.Encode()} // of the same month
			return request{path: "/v1/usage", within: page.String(), query: q}
		})
	addRead(s, server, "recoveries_list", "List recovery jobs",
		"Jobs that deliver failed deliveries again, newest first: state, counters, canary and deadline. A person "+
			"prepares them in the dashboard.",
		func(in recoveriesListInput) request {
			return request{path: "/v1/recoveries", within: "/app/recoveries",
				query: listOf(in, in.Limit)}
		})
}

// addRead adds a tool that makes one GET request of /v1.
func addRead[In any](s *Server, server *sdk.Server, name, title, description string, of func(In) request) {
	no := false
	s.tools[name] = argumentsOf[In]()
	sdk.AddTool(server, &sdk.Tool{Name: name, Title: title, InputSchema: schemaOf(s.tools[name]),
		Description: description, Annotations: &sdk.ToolAnnotations{
			Title: title, ReadOnlyHint: true, IdempotentHint: true, DestructiveHint: &no, OpenWorldHint: &no,
		}}, func(ctx context.Context, _ *sdk.CallToolRequest, in In) (*sdk.CallToolResult, any, error) {
		key, _ := ctx.Value(keyOf{}).(*config.Key)
		x := of(in)
		status, header, body := s.deps.API.Call(ctx, key, http.MethodGet, x.path, x.query, nil, "")
		return answerText(s.render(x, status, header, body))
	})
}

// answerText returns a text as the result of a tool; the SDK makes an error a result with isError.
func answerText(text string, err error) (*sdk.CallToolResult, any, error) {
	if err != nil {
		return nil, nil, err
	}
	return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: text}}}, nil, nil
}
