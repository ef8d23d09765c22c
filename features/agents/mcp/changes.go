package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/eventrelay/relay/features/agents/confirm"
	"github.com/eventrelay/relay/pkg/config"
	"github.com/eventrelay/relay/pkg/config/entity"
	"github.com/eventrelay/relay/pkg/id"
	"github.com/eventrelay/relay/pkg/web"
)

// change is a change that an agent asks for.
type change struct {
	server    *Server
	key       *config.Key
	resources []string // paths of what it is about; when one was changed meanwhile, it is not made
	answers   [][]byte // these, as they are now
	path      string   // of the POST that makes it
	body      any      // of the POST
	summary   string   // says what will happen
}

// proposer are the arguments of a tool that asks for a change: propose sets path, body and summary of the change, or
// says why it cannot be done.
type proposer interface {
	propose(ctx context.Context, c *change) error
	givenNote() string // by the agent
}

// addChanges adds the tools that ask for changes, and the one that says what became of them.
func (s *Server) addChanges() {
	addChange[findingUpdateInput](s, false, "finding_update", "Change the status of a finding",
		"Asks a person to acknowledge, resolve, ignore or open a finding again. resolved needs a resolution, "+
			"ignored a reason.")
	addChange[eventReplayInput](s, false, "event_replay", "Deliver an event again",
		"Asks a person to deliver one stored event again, to all enabled destinations of its endpoint or to one.")
	addChange[recoveryActionInput](s, true, "recovery_action", "Move a recovery job on",
		"Asks a person to start the canary of a recovery job, to continue with all its deliveries, or to cancel it.")
	addChange[scanStartInput](s, false, "scan_start", "Start a leak scan",
		"Asks a person to start a scan of the website of a verified domain for leaked keys and exposed files. It takes up "+
			"to two minutes; findings_list with source scan shows what it found. Five scans can be started in 24 hours.")
	addRead(s, "action_status", "Show what became of a change",
		"The state of a change that this key asked for: pending, approved, done, failed, declined, expired, "+
			"refused (result says why) or conflict (the resource was changed meanwhile: read it and ask again).", s.status)
}

// addChange adds a tool that asks for a change.
func addChange[In proposer](s *Server, destructive bool, name, title, description string) {
	addTool(s, name, title, description+" It returns a link for the person; nothing is changed before.",
		sdk.ToolAnnotations{DestructiveHint: &destructive},
		func(ctx context.Context, key *config.Key, in In) (string, error) {
			if err := s.mayAsk(ctx, key); err != nil {
				return "", err
			}
			return s.ask(ctx, key, name, in)
		})
}

// mayAsk returns why a key cannot ask for a change now.
func (s *Server) mayAsk(ctx context.Context, key *config.Key) error {
	if key.Scope != config.ReadWrite {
		return errors.New("insufficient_scope: the API key may only read; a person connects an agent that may ask " +
			"for changes in the dashboard, under Settings, Agents")
	}
	if wait := s.deps.Writes.Claim(ctx, key.ID, changesPerMinute); wait > 0 {
		return fmt.Errorf("rate_limited: a key may ask for %d changes a minute; try again after %.0f s", changesPerMinute,
			max(1, wait.Seconds()))
	}
	return nil
}

// ask creates the action for a change, and returns the text of the result.
func (s *Server) ask(ctx context.Context, key *config.Key, tool string, in proposer) (string, error) {
	x := &change{server: s, key: key}
	if err := in.propose(ctx, x); err != nil {
		return "", err
	}
	revision := confirm.Revision(x.answers...)
	if revision == "" {
		return "", errUnreadable
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
	a := &config.Action{
		Meta: entity.Meta{ID: id.Random(id.Act), Account: key.Account}, Key: key.ID, KeyName: key.Name, Tool: tool,
		Tenant:    key.Tenant,
		Arguments: string(arguments), Summary: cleanText(x.summary, maxText), Note: cleanText(in.givenNote(), maxText),
		Path: x.path, Body: string(request), Resources: x.resources, Revision: revision, RemoteIP: info.Client.String(),
	}
	if len(a.Arguments)+len(a.Body) > maxArguments {
		return "", fmt.Errorf("invalid_request: the arguments may have at most %d bytes", maxArguments/2)
	}
	ctx = config.WithOrigin(ctx, config.Origin{Actor: key.ID, RequestID: info.ID, RemoteIP: info.Client})
	if a, err = s.deps.Actions.CreateAction(ctx, a); errors.Is(err, config.ErrTooManyActions) {
		return "", fmt.Errorf("rate_limited: %w", err)
	} else if err != nil {
		s.deps.Log.Warn("cannot create a confirmation", "key", key.ID, "error", err)
		return "", errors.New("unavailable: the configuration log does not answer at the moment; try again")
	}
	return s.describe(a), nil
}

// concerns reads a resource of /v1 that the change is about into v.
func (c *change) concerns(ctx context.Context, path string, v any) error {
	body, err := c.server.read(ctx, c.key, path, v)
	c.resources, c.answers = append(c.resources, path), append(c.answers, body)
	return err
}

// read reads a resource of /v1 into v, and returns it as it came.
func (s *Server) read(ctx context.Context, key *config.Key, path string, v any) ([]byte, error) {
	status, header, body := s.deps.API.Call(ctx, key, http.MethodGet, path, nil, nil, "")
	if status != http.StatusOK {
		return nil, failure(body, header)
	}
	if json.Unmarshal(body, v) != nil {
		return nil, errUnreadable
	}
	if confirm.IsIncomplete(path, header) {
		return nil, errors.New("unavailable: the newest attempts of the event cannot be read at the moment; try again")
	}
	return body, nil
}

// maxArguments bounds the arguments and the request of an action together, in bytes.
const maxArguments = 8 << 10

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
			return !t.Annotations.ReadOnlyHint
		})
		return &shown, nil
	}
}

type actionStatusInput struct {
	ID string `json:"action_id" jsonschema:"action_id of an answer (act_…)"`
}

// status says what became of a change.
func (s *Server) status(_ context.Context, key *config.Key, in actionStatusInput) (string, error) {
	a, presence := s.deps.Actions.Action(in.ID)
	if presence != entity.Present || a.Key != key.ID {
		return "", errors.New("not_found: this key asked for no such change in the last 24 hours")
	}
	return s.describe(a), nil
}

// describe returns the text of a result about an action.
func (s *Server) describe(a *config.Action) string {
	state := a.StateAt(s.deps.Now())
	v := map[string]any{"action_id": a.ID, "state": state, "summary": a.Summary, "result": cleanText(a.Result, maxText),
		"next": nextSteps[state]}
	switch state {
	case config.ActionDone:
		v["next"] = afterwards[a.Tool]
	case config.ActionPending:
		v["status"], v["confirm_url"] = "confirmation_required", s.cfg.DashboardURL+confirm.Path+a.ID
		if a.Tenant != "" {
			v["confirm_url"] = s.cfg.PortalURL + confirm.PortalPath + a.ID
		}
		v["expires_at"] = web.Time(a.ExpiresAt())
	}
	return string(web.Encode(v))
}

// nextSteps says what an agent does after it has read the state of an action.
var nextSteps = map[config.ActionState]string{
	config.ActionPending:  "Ask the person to open confirm_url, then call action_status with the action_id.",
	config.ActionApproved: "It is being done: call action_status again in a few seconds.",
	config.ActionFailed:   "Tell the person why it failed. Read what it is about before you ask again.",
	config.ActionDeclined: "The person said no. Do not ask for the same again.",
	config.ActionExpired:  "Nobody decided within ten minutes. Tell the person before you ask again.",
	config.ActionConflict: "What it is about was changed meanwhile: read it, and ask again if it is still needed.",
	config.ActionRefused: "The result says why it was not done. Tell the person, and read what it is about before you " +
		"ask again.",
}

// afterwards says where an agent sees the effect of a tool.
var afterwards = map[string]string{
	"finding_update":  "finding_get shows the finding.",
	"event_replay":    "The result is a run: events_list with run_id shows what became of the deliveries.",
	"recovery_action": "recoveries_list shows how the job goes on; events_list with run_id shows its deliveries.",
	"scan_start":      "The scan takes up to two minutes; then findings_list with source scan shows what it found.",
}
