package mcp

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/eventrelay/relay/api/confirm"
	"github.com/eventrelay/relay/pkg/config"
	"github.com/eventrelay/relay/pkg/finding"
	"github.com/eventrelay/relay/pkg/id"
	"github.com/eventrelay/relay/pkg/web"
)

type findingUpdateInput struct {
	ID           string `json:"id" jsonschema:"id of the finding (fnd_…)"`
	Status       string `json:"status" jsonschema:"open, acknowledged, resolved or ignored"`
	Resolution   string `json:"resolution,omitempty" jsonschema:"for resolved: revoked, removed or false_positive"`
	IgnoreReason string `json:"ignore_reason,omitempty" jsonschema:"false_positive, used_in_tests or accepted_risk"`
	IgnoreUntil  string `json:"ignore_until,omitempty" jsonschema:"until when it is ignored, RFC 3339 in UTC"`
	Note         string `json:"note,omitempty" jsonschema:"why, for the person who decides; up to 500 characters"`
}

type eventReplayInput struct {
	ID            string `json:"id" jsonschema:"id of the event (evt_…)"`
	DestinationID string `json:"destination_id,omitempty" jsonschema:"only this destination (dst_…)"`
	Note          string `json:"note,omitempty" jsonschema:"why, for the person who decides; up to 500 characters"`
}

type recoveryActionInput struct {
	ID     string `json:"recovery_id" jsonschema:"id of the recovery job (rec_…)"`
	Action string `json:"action" jsonschema:"canary, continue or cancel"`
	Note   string `json:"note,omitempty" jsonschema:"why, for the person who decides; up to 500 characters"`
}

type actionStatusInput struct {
	ID string `json:"action_id" jsonschema:"action_id of an answer (act_…)"`
}

// change is a change that an agent asks for.
type change struct {
	resource string                        // path of /v1 that it changes
	endpoint bool                          // the endpoint of the resource matters too
	path     string                        // of the POST that makes it
	body     any                           // of the POST
	note     string                        // by the agent
	check    func(v map[string]any) error  // nil: everything is allowed; v is the resource now
	summary  func(v map[string]any) string // says what will happen; v has its endpoint as member "endpoint"
}

// destinationsOf names the enabled destinations of an endpoint, or only that one; it is empty if there is none.
func destinationsOf(endpoint any, only string) string {
	const most = 10
	e, _ := endpoint.(map[string]any)
	list, _ := e["destinations"].([]any)
	var names []string
	for _, each := range list {
		d, _ := each.(map[string]any)
		id, _ := d["id"].(string)
		if d["enabled"] != true || only != "" && id != only {
			continue
		}
		host := ""
		if u, err := url.Parse(fmt.Sprint(d["url"])); err == nil {
			host = u.Host
		}
		names = append(names, fmt.Sprintf("%s at %q", id, host))
	}
	if len(names) > most {
		names = append(names[:most], fmt.Sprintf("%d more", len(names)-most))
	}
	return strings.Join(names, ", ")
}

func oneOf(name, value string, words []string) error {
	if value == "" || slices.Contains(words, value) {
		return nil
	}
	return fmt.Errorf("invalid_request: %s: must be one of %s", name, strings.Join(words, ", "))
}

func timeOrNone(name, value string) error {
	if _, err := time.Parse(time.RFC3339, value); value != "" && err != nil {
		return fmt.Errorf("invalid_request: %s: must be a time such as 2026-08-21T22:24:36Z", name)
	}
	return nil
}

// recoveryActions says what the actions of a recovery job do.
var recoveryActions = map[string]string{"canary": "Send the canary of", "continue": "Send all remaining deliveries of",
	"cancel": "Cancel"}

// changing are the tools that ask for changes. A key that may only read does not see them.
var changing = []string{"finding_update", "event_replay", "recovery_action"}

// addChanges adds the tools that ask for changes, and the one that says what became of them.
func (s *Server) addChanges(server *sdk.Server) {
	s.addFindingUpdate(server)
	addChange(s, server, false, "event_replay", "Deliver an event again",
		"Asks a person to deliver one stored event again, to all enabled destinations of its endpoint or to one.",
		func(in eventReplayInput) change {
			body := map[string]any{}
			if in.DestinationID != "" {
				body["destination_id"] = in.DestinationID
			}
			resource := "/v1/events/" + url.PathEscape(in.ID)
			return change{resource: resource, endpoint: true, path: resource + "/replay", body: body, note: in.Note,
				summary: func(v map[string]any) string {
					return fmt.Sprintf("Deliver the event %v (type %q, now %v) of the endpoint %v again, to %s", v["id"], v["type"],
						v["status"], v["endpoint_id"], destinationsOf(v["endpoint"], in.DestinationID))
				}, check: func(v map[string]any) error {
					if destinationsOf(v["endpoint"], in.DestinationID) == "" {
						return errors.New("invalid_request: destination_id: is no enabled destination of the event's endpoint")
					}
					return nil
				}}
		})
	addChange(s, server, true, "recovery_action", "Move a recovery job on",
		"Asks a person to start the canary of a recovery job, to continue with all its deliveries, or to cancel it.",
		func(in recoveryActionInput) change {
			resource := "/v1/recoveries/" + url.PathEscape(in.ID)
			return change{resource: resource, path: resource, body: map[string]any{"action": in.Action}, note: in.Note,
				check: func(map[string]any) error {
					if recoveryActions[in.Action] == "" {
						return errors.New("invalid_request: action: must be canary, continue or cancel")
					}
					return nil
				},
				summary: func(v map[string]any) string {
					return fmt.Sprintf("%s the recovery job %v of the endpoint %v: %v deliveries, now %v",
						recoveryActions[in.Action], v["id"], v["endpoint_id"], v["total"], v["state"])
				}}
		})
	s.addStatus(server)
}

// addFindingUpdate adds the tool that asks for another status of a finding.
func (s *Server) addFindingUpdate(server *sdk.Server) {
	addChange(s, server, false, "finding_update", "Change the status of a finding",
		"Asks a person to acknowledge, resolve, ignore or open a finding again. resolved needs a resolution, "+
			"ignored a reason.",
		func(in findingUpdateInput) change {
			body := map[string]any{"ids": []string{in.ID}, "status": in.Status}
			for name, v := range map[string]string{"resolution": in.Resolution, "ignore_reason": in.IgnoreReason,
				"ignore_until": in.IgnoreUntil} {
				if v != "" {
					body[name] = v
				}
			}
			return change{resource: "/v1/findings/" + url.PathEscape(in.ID), path: "/v1/findings/update", body: body,
				note: in.Note, check: func(v map[string]any) error {
					from, to := finding.Status(fmt.Sprint(v["status"])), finding.Status(in.Status)
					if !slices.Contains(finding.Statuses, to) {
						return errors.New("invalid_request: status: must be open, acknowledged, resolved or ignored")
					}
					if !from.MayBecome(to) {
						return &config.FindingStatusError{From: from, To: to}
					}
					return errors.Join(oneOf("resolution", in.Resolution, finding.Resolutions),
						oneOf("ignore_reason", in.IgnoreReason, finding.IgnoreReasons), timeOrNone("ignore_until", in.IgnoreUntil))
				}, summary: func(v map[string]any) string {
					text := fmt.Sprintf("Change the finding %q (%v, %v, %v) from %v to %s", v["name"], v["id"],
						v["severity"], v["masked"],
						v["status"], in.Status)
					for _, why := range []string{in.Resolution, in.IgnoreReason} {
						if why != "" {
							text += ", because: " + why
						}
					}
					if in.IgnoreUntil != "" {
						text += ", until " + in.IgnoreUntil
					}
					return text
				}}
		})
}

// addChange adds a tool that asks for a change.
func addChange[In any](s *Server, server *sdk.Server, destructive bool, name, title, description string,
	of func(In) change) {
	no := false
	s.tools[name] = true
	sdk.AddTool(server, &sdk.Tool{Name: name, Title: title,
		Description: description + " It returns a link for the person; nothing is changed before.",
		Annotations: &sdk.ToolAnnotations{Title: title, DestructiveHint: &destructive, OpenWorldHint: &no},
	}, func(ctx context.Context, _ *sdk.CallToolRequest, in In) (*sdk.CallToolResult, any, error) {
		key, _ := ctx.Value(keyOf{}).(*config.Key)
		return answerText(s.ask(ctx, key, name, in, of(in)))
	})
}

// ask creates the act for a change, and returns the text of the result.
func (s *Server) ask(ctx context.Context, key *config.Key, tool string, in any, x change) (string, error) {
	if key.Scope != config.ReadWrite {
		return "", errors.New("insufficient_scope: the API key may only read; a person connects an agent that may ask " +
			"for changes in the dashboard, under Settings, Agents")
	}
	if wait := s.deps.Writes.Claim(ctx, key.ID, changesPerMinute); wait > 0 {
		return "", fmt.Errorf("rate_limited: a key may ask for %d changes a minute; try again after %.0f s", changesPerMinute,
			max(1, wait.Seconds()))
	}
	resources, answers := []string{x.resource}, make([][]byte, 1, 2)
	v, body, err := s.read(ctx, key, x.resource)
	if err != nil {
		return "", err
	}
	answers[0] = body
	if x.endpoint {
		path := "/v1/endpoints/" + url.PathEscape(fmt.Sprint(v["endpoint_id"]))
		endpoint, body, err := s.read(ctx, key, path)
		if err != nil {
			return "", err
		}
		v["endpoint"], resources, answers = endpoint, append(resources, path), append(answers, body)
	}
	revision := confirm.Revision(answers...)
	if revision == "" {
		return "", errUnreadable
	}
	if x.check != nil {
		if err := x.check(v); err != nil {
			return "", err
		}
	}
	request, err := json.Marshal(x.body)
	if err != nil {
		return "", err
	}
	arguments, err := json.Marshal(in)
	if err != nil {
		return "", err
	}

	info := web.InfoFrom(ctx)
	a := &config.Act{
		Meta: config.Meta{ID: id.Random(id.Act), Account: key.Account}, Key: key.ID, KeyName: key.Name,
		Tool:      tool,
		Arguments: string(arguments), Summary: cleanText(x.summary(v), maxText),
		Note: cleanText(x.note, maxText), Path: x.path, Body: string(request), Resources: resources,
		Revision: revision, RemoteIP: info.Client.String(),
	}
	if len(a.Arguments)+len(a.Body) > maxArguments {
		return "", fmt.Errorf("invalid_request: the arguments may have at most %d bytes", maxArguments/2)
	}
	ctx = config.WithOrigin(ctx, config.Origin{Actor: key.ID, RequestID: info.ID, RemoteIP: info.Client})
	if a, err = s.deps.Acts.CreateAct(ctx, a); errors.Is(err, config.ErrTooManyActs) {
		return "", fmt.Errorf("rate_limited: %w", err)
	} else if err != nil {
		s.deps.Log.Warn("cannot create a confirmation", "key", key.ID, "error", err)
		return "", errors.New("unavailable: the configuration log does not answer at the moment; try again")
	}
	return s.describe(a), nil
}

// read returns a resource of /v1, decoded and as it came.
func (s *Server) read(ctx context.Context, key *config.Key, path string) (v map[string]any, body []byte, err error) {
	status, header, body := s.deps.API.Call(ctx, key, http.MethodGet, path, nil, nil, "")
	decoder := json.NewDecoder(bytes.NewReader(body))
	decoder.UseNumber()
	if err := decoder.Decode(&v); err != nil {
		return nil, nil, errUnreadable
	}
	if status != http.StatusOK {
		return nil, nil, failure(v, header)
	}
	return v, body, nil
}

// maxArguments bounds the arguments and the request of an act together, in bytes.
const maxArguments = 8 << 10

// describe returns the text of a result about an act.
func (s *Server) describe(a *config.Act) string {
	state := a.StateAt(s.deps.Now())
	v := map[string]any{"action_id": a.ID, "state": state, "summary": a.Summary, "result": cleanText(a.Result, maxText)}
	if state == config.ActPending {
		v["status"], v["confirm_url"] = "confirmation_required", s.cfg.DashboardURL+confirm.Path+a.ID
		v["expires_at"] = web.Time(a.ExpiresAt())
		v["next"] = "Ask the person to open confirm_url, then call action_status with the action_id."
	}
	return string(web.Encode(v))
}

// addStatus adds the tool that says what became of a change.
func (s *Server) addStatus(server *sdk.Server) {
	no, name, title := false, "action_status", "Show what became of a change"
	s.tools[name] = true
	sdk.AddTool(server, &sdk.Tool{Name: name, Title: title,
		Description: "The state of a change that this key asked for: pending, approved, done, failed, declined, expired or " +
			"conflict (the resource was changed meanwhile: read it and ask again).",
		Annotations: &sdk.ToolAnnotations{Title: title, ReadOnlyHint: true, IdempotentHint: true, DestructiveHint: &no,
			OpenWorldHint: &no},
	}, func(ctx context.Context, _ *sdk.CallToolRequest, in actionStatusInput) (*sdk.CallToolResult, any, error) {
		key, _ := ctx.Value(keyOf{}).(*config.Key)
		a, presence := s.deps.Acts.Act(in.ID)
		if presence != config.Present || a.Key != key.ID {
			return answerText("", errors.New("not_found: this key asked for no such change in the last 24 hours"))
		}
		return answerText(s.describe(a), nil)
	})
}

// hideChanges leaves the tools that ask for changes out of the list for a key that may only read.
func hideChanges(next sdk.MethodHandler) sdk.MethodHandler {
	return func(ctx context.Context, method string, req sdk.Request) (sdk.Result, error) {
		result, err := next(ctx, method, req)
		key, _ := ctx.Value(keyOf{}).(*config.Key)
		list, ok := result.(*sdk.ListToolsResult)
		if err != nil || !ok || key == nil || key.Scope == config.ReadWrite {
			return result, err
		}
		shown := *list
		shown.Tools = slices.DeleteFunc(slices.Clone(list.Tools), func(t *sdk.Tool) bool {
			return slices.Contains(changing, t.Name)
		})
		return &shown, nil
	}
}
