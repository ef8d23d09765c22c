package mcp

import (
	"context"
	"errors"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/eventrelay/relay/api/confirm"
	"github.com/eventrelay/relay/pkg/config"
	"github.com/eventrelay/relay/pkg/web"
)

type actionStatusInput struct {
	ID string `json:"action_id" jsonschema:"action_id of an answer (act_…)"`
}

// addStatus adds the tool that says what became of a change.
func (s *Server) addStatus(server *sdk.Server) {
	no, name, title := false, "action_status", "Show what became of a change"
	s.tools[name] = argumentsOf[actionStatusInput]()
	sdk.AddTool(server, &sdk.Tool{Name: name, Title: title, InputSchema: schemaOf(s.tools[name]),
		Description: "The state of a change that this key asked for: pending, approved, done, failed, declined, expired, " +
			"refused (result says why) or conflict (the resource was changed meanwhile: read it and ask again).",
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

// describe returns the text of a result about an act.
func (s *Server) describe(a *config.Act) string {
	state := a.StateAt(s.deps.Now())
	v := map[string]any{"action_id": a.ID, "state": state, "summary": a.Summary, "result": cleanText(a.Result, maxText),
		"next": nextStep(a.Tool, state)}
	if state == config.ActPending {
		v["status"], v["confirm_url"] = "confirmation_required", s.cfg.DashboardURL+confirm.Path+a.ID
		v["expires_at"] = web.Time(a.ExpiresAt())
	}
	return string(web.Encode(v))
}

// nextStep says what an agent does after it has read the state of an act.
func nextStep(tool string, state config.ActState) string {
	switch state {
	case config.ActPending:
		return "Ask the person to open confirm_url, then call action_status with the action_id."
	case config.ActApproved:
		return "It is being done: call action_status again in a few seconds."
	case config.ActDone:
		return afterwards[tool]
	case config.ActFailed:
		return "Tell the person why it failed. Read what it is about before you ask again."
	case config.ActDeclined:
		return "The person said no. Do not ask for the same again."
	case config.ActExpired:
		return "Nobody decided within ten minutes. Tell the person before you ask again."
	case config.ActConflict:
		return "What it is about was changed meanwhile: read it, and ask again if it is still needed."
	case config.ActRefused:
		return "The result says why it was not done. Tell the person, and read what it is about before you ask again."
	}
	return ""
}

// afterwards says where an agent sees the effect of a tool.
var afterwards = map[string]string{
	"finding_update":  "finding_get shows the finding.",
	"event_replay":    "The result is a run: events_list with run_id shows what became of the deliveries.",
	"recovery_action": "recoveries_list shows how the job goes on; events_list with run_id shows its deliveries.",
	"scan_start":      "The scan takes up to two minutes; then findings_list with source scan shows what it found.",
}
