package mcp

import (
	"context"
	"errors"
	"fmt"
	"net/url"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/eventrelay/relay/pkg/config"
)

type recoveryActionInput struct {
	ID     string `json:"recovery_id" jsonschema:"id of the recovery job (rec_…)"`
	Action string `json:"action" jsonschema:"what to do" values:"canary,continue,cancel"`
	Note   string `json:"note,omitempty" jsonschema:"why, for the person who decides" most:"500"`
}

// recoveryActions says what the actions of a recovery job do.
var recoveryActions = map[string]string{
	"canary": "Send the canary, at most five deliveries, of", "continue": "Send all remaining deliveries of",
	"cancel": "Cancel"}

// addRecoveryAction adds the tool that asks for an action on a recovery job.
func (s *Server) addRecoveryAction(server *sdk.Server) {
	addChange(s, server, true, "recovery_action", "Move a recovery job on",
		"Asks a person to start the canary of a recovery job, to continue with all its deliveries, or to cancel it.",
		func(_ context.Context, _ *config.Key, in recoveryActionInput) (change, error) {
			resource := "/v1/recoveries/" + url.PathEscape(in.ID)
			return change{resource, false, resource, in.Note, in}, nil
		})
}

// body is refused if the job is in another state.
func (in recoveryActionInput) body(v map[string]any) any {
	return map[string]any{"action": in.Action, "state": v["state"]}
}

// check returns why the action is none.
func (in recoveryActionInput) check(map[string]any) error {
	if recoveryActions[in.Action] == "" {
		return errors.New("invalid_request: action: must be canary, continue or cancel")
	}
	return nil
}

func (in recoveryActionInput) summary(v map[string]any) string {
	return fmt.Sprintf("%s the recovery job %v of the endpoint %v. It is %v; %v of %v deliveries are not sent",
		recoveryActions[in.Action], v["id"], v["endpoint_id"], v["state"], v["pending"], v["total"])
}
