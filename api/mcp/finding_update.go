package mcp

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/eventrelay/relay/pkg/config"
	"github.com/eventrelay/relay/pkg/finding"
)

type findingUpdateInput struct {
	ID           string `json:"id" jsonschema:"id of the finding (fnd_…)"`
	Status       string `json:"status" jsonschema:"the new status" values:"open,acknowledged,resolved,ignored"`
	Resolution   string `json:"resolution,omitempty" jsonschema:"for resolved" values:"revoked,removed,false_positive"`
	IgnoreReason string `json:"ignore_reason,omitempty" jsonschema:"for ignored" values:"false_positive,used_in_tests,accepted_risk"`
	IgnoreUntil  string `json:"ignore_until,omitempty" jsonschema:"until when it is ignored, RFC 3339 in UTC"`
	Note         string `json:"note,omitempty" jsonschema:"why, for the person who decides" most:"500"`
}

// addFindingUpdate adds the tool that asks for another status of a finding.
func (s *Server) addFindingUpdate(server *sdk.Server) {
	addChange(s, server, false, "finding_update", "Change the status of a finding",
		"Asks a person to acknowledge, resolve, ignore or open a finding again. resolved needs a resolution, "+
			"ignored a reason.",
		func(_ context.Context, _ *config.Key, in findingUpdateInput) (change, error) {
			return change{"/v1/findings/" + url.PathEscape(in.ID), false, "/v1/findings/update", in.Note,
				findingUpdate{in, s.deps.Now()}}, nil
		})
}

// findingUpdate is a change that is asked for at a time.
type findingUpdate struct {
	findingUpdateInput
	at time.Time
}

// body is refused if the finding has another version.
func (in findingUpdateInput) body(v map[string]any) any {
	body := map[string]any{"ids": []string{in.ID}, "status": in.Status, "version": v["version"]}
	for name, text := range map[string]string{"resolution": in.Resolution, "ignore_reason": in.IgnoreReason,
		"ignore_until": in.IgnoreUntil} {
		if text != "" {
			body[name] = text
		}
	}
	return body
}

// check returns why a finding cannot be updated so. Nobody is asked to approve what is then refused.
func (in findingUpdate) check(v map[string]any) error {
	to := finding.Status(in.Status)
	if !slices.Contains(finding.Statuses, to) {
		return errors.New("invalid_request: status: must be open, acknowledged, resolved or ignored")
	}
	if from := finding.Status(fmt.Sprint(v["status"])); !from.MayBecome(to) {
		return &config.FindingStatusError{From: from, To: to}
	}
	u := config.FindingUpdate{Status: &to, Resolution: &in.Resolution, IgnoreReason: &in.IgnoreReason}
	if in.IgnoreUntil != "" {
		until, err := time.Parse(time.RFC3339, in.IgnoreUntil)
		if err != nil {
			return errors.New("invalid_request: ignore_until: must be a time such as 2026-08-21T22:24:36Z")
		}
		u.IgnoreUntil = &until
	}
	f := &config.Finding{Status: finding.Status(fmt.Sprint(v["status"])), Kind: finding.Kind(fmt.Sprint(v["kind"]))}
	f.Fingerprint, _ = v["fingerprint"].(string)
	err := u.Check(f, in.at)
	if wrong, ok := errors.AsType[*config.InvalidError](err); ok {
		return fmt.Errorf("invalid_request: %s: %s", wrong.Param, wrong.Message)
	}
	return err
}

func (in findingUpdateInput) summary(v map[string]any) string {
	text := fmt.Sprintf("Change the finding %q (%v, %v, %v) from %v to %s", v["name"], v["id"], v["severity"], v["masked"],
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
}
