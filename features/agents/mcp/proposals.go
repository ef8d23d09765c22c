package mcp

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/eventrelay/relay/api/wire"
	"github.com/eventrelay/relay/pkg/config/entity"
	"github.com/eventrelay/relay/pkg/config/leak"
	"github.com/eventrelay/relay/pkg/finding"
	"github.com/eventrelay/relay/pkg/id"
)

// noted is the last argument of all tools that ask for a change.
type noted struct {
	Note string `json:"note,omitempty" jsonschema:"why, for the person who decides" most:"500"`
}

func (n noted) givenNote() string { return n.Note }

type findingUpdateInput struct {
	ID           string `json:"id" jsonschema:"id of the finding (fnd_…)"`
	Status       string `json:"status" jsonschema:"the new status" values:"open,acknowledged,resolved,ignored"`
	Resolution   string `json:"resolution,omitempty" jsonschema:"for resolved" values:"revoked,removed,false_positive"`
	IgnoreReason string `json:"ignore_reason,omitempty" jsonschema:"for ignored" values:"false_positive,used_in_tests,accepted_risk"`
	IgnoreUntil  string `json:"ignore_until,omitempty" jsonschema:"until when it is ignored, RFC 3339 in UTC"`
	noted
}

// propose makes a change that is refused if the finding has another version.
func (in findingUpdateInput) propose(ctx context.Context, c *change) error {
	var f wire.Finding
	if err := c.concerns(ctx, "/v1/findings/"+url.PathEscape(in.ID), &f); err != nil {
		return err
	}
	if err := in.check(&f, c.server.deps.Now()); err != nil {
		return err
	}
	body := map[string]any{"ids": []string{in.ID}, "status": in.Status, "version": f.Version}
	c.summary = fmt.Sprintf("Change the finding %q (%s, %s, %s) from %s to %s", f.Name, f.ID, f.Severity, textOf(f.Masked),
		f.Status, in.Status)
	for _, x := range []struct{ member, text, lead string }{{"resolution", in.Resolution, ", because: "},
		{"ignore_reason", in.IgnoreReason, ", because: "}, {"ignore_until", in.IgnoreUntil, ", until "}} {
		if x.text != "" {
			body[x.member] = x.text
			c.summary += x.lead + x.text
		}
	}
	c.path, c.body = "/v1/findings/update", body
	return nil
}

// check returns why a finding cannot be updated so. Nobody is asked to approve what is then refused.
func (in findingUpdateInput) check(f *wire.Finding, at time.Time) error {
	to := finding.Status(in.Status)
	if !f.Status.MayBecome(to) {
		return &leak.FindingStatusError{From: f.Status, To: to}
	}
	u := leak.FindingUpdate{Status: &to, Resolution: &in.Resolution, IgnoreReason: &in.IgnoreReason}
	if in.IgnoreUntil != "" {
		until, err := time.Parse(time.RFC3339, in.IgnoreUntil)
		if err != nil {
			return errors.New("invalid_request: ignore_until: must be a time such as 2026-08-21T22:24:36Z")
		}
		u.IgnoreUntil = &until
	}
	err := u.Check(&leak.Finding{Status: f.Status, Kind: f.Kind, Fingerprint: textOf(f.Fingerprint)}, at)
	if wrong, ok := errors.AsType[*entity.InvalidError](err); ok {
		return fmt.Errorf("invalid_request: %s: %s", wrong.Param, wrong.Message)
	}
	return err
}

type eventReplayInput struct {
	ID            string `json:"id" jsonschema:"id of the event (evt_…)"`
	DestinationID string `json:"destination_id,omitempty" jsonschema:"only this destination (dst_…)"`
	noted
}

// propose makes a change without a condition: a delivery reads its destination when it is sent, so what is changed
// after the approval counts, whenever it is made.
//
// The summary says first where the event goes. A person approves by this text, and its type, which a stranger may have
// chosen, must not push the destinations out of it.
func (in eventReplayInput) propose(ctx context.Context, c *change) error {
	resource := "/v1/events/" + url.PathEscape(in.ID)
	var e wire.Event
	if err := c.concerns(ctx, resource, &e); err != nil {
		return err
	}
	var endpoint wire.Endpoint
	if err := c.concerns(ctx, "/v1/endpoints/"+url.PathEscape(e.EndpointID), &endpoint); err != nil {
		return err
	}
	to := destinationsOf(endpoint.Destinations, in.DestinationID)
	if to == "" {
		return errors.New("invalid_request: destination_id: is no enabled destination of the event's endpoint")
	}
	body := map[string]any{}
	if in.DestinationID != "" {
		body["destination_id"] = in.DestinationID
	}
	kind := "without a type"
	if e.Type != nil {
		kind = "type " + quoted(*e.Type)
	}
	c.path, c.body = resource+"/replay", body
	c.summary = fmt.Sprintf("Deliver an event of the endpoint %s again, to %s: %s, now %s, %s",
		named(endpoint.Name, endpoint.ID), to, e.ID, e.Status, kind)
	return nil
}

// named returns the name and the id of an endpoint or destination.
func named(name, id string) string {
	if name == "" {
		return id
	}
	return fmt.Sprintf("%s (%s)", quoted(name), id)
}

// maxQuoted bounds a quoted text in a summary, in characters: an escape takes up to ten of them.
const maxQuoted = 60

// quoted quotes a text, and cuts it to maxQuoted characters after that.
func quoted(s string) string {
	q := []rune(fmt.Sprintf("%q", s))
	if len(q) > maxQuoted {
		return string(q[:maxQuoted-2]) + `…"`
	}
	return string(q)
}

// maxDestinationText bounds what a summary names of destinations, in characters. With the endpoint, the event and its
// status it leaves room in maxText.
const maxDestinationText = 250

// destinationsOf names the enabled ones of destinations, or only that one; it is empty if there is none. It names the
// first one whole, as many others as there is room for, and how many more there are.
func destinationsOf(all []wire.Destination, only string) string {
	var text strings.Builder
	more := 0
	for _, d := range all {
		if !d.Enabled || only != "" && d.ID != only {
			continue
		}
		host := ""
		if u, err := url.Parse(d.URL); err == nil {
			host = u.Host
		}
		name := fmt.Sprintf("%s at %q", named(textOf(d.Name), d.ID), host)
		switch {
		case text.Len() == 0:
			text.WriteString(name)
		case more == 0 && utf8.RuneCountInString(text.String()+name) < maxDestinationText:
			text.WriteString(", " + name)
		default:
			more++
		}
	}
	if more > 0 {
		fmt.Fprintf(&text, " and %d more", more)
	}
	return text.String()
}

type recoveryActionInput struct {
	ID     string `json:"recovery_id" jsonschema:"id of the recovery job (rec_…)"`
	Action string `json:"action" jsonschema:"what to do" values:"canary,continue,cancel"`
	noted
}

// recoveryActions says what the actions of a recovery job do.
var recoveryActions = map[string]string{
	"canary": "Send the canary, at most five deliveries, of", "continue": "Send all remaining deliveries of",
	"cancel": "Cancel"}

// propose makes a change that is refused if the job is in another state.
func (in recoveryActionInput) propose(ctx context.Context, c *change) error {
	c.path = "/v1/recoveries/" + url.PathEscape(in.ID)
	var job wire.Recovery
	if err := c.concerns(ctx, c.path, &job); err != nil {
		return err
	}
	c.body = map[string]any{"action": in.Action, "state": job.State}
	c.summary = fmt.Sprintf("%s the recovery job %s of the endpoint %s. It is %s; %d of %d deliveries are not sent",
		recoveryActions[in.Action], job.ID, job.EndpointID, job.State, job.Pending, job.Total)
	return nil
}

type scanStartInput struct {
	Domain string `json:"domain" jsonschema:"host name of a verified domain, such as shop.example.com, or its id (dom_…)"`
	noted
}

// propose makes a change without a condition: a scan asks only names whose proof is there when it does.
func (in scanStartInput) propose(ctx context.Context, c *change) error {
	domain, err := c.domainNamed(ctx, in.Domain)
	if err != nil {
		return err
	}
	var d wire.Domain
	if err := c.concerns(ctx, "/v1/domains/"+url.PathEscape(domain), &d); err != nil {
		return err
	}
	if d.Status != leak.DomainVerified {
		return fmt.Errorf("invalid_state: domain: is %s; a person verifies it in the dashboard, under Domains", d.Status)
	}
	c.path, c.body = "/v1/scans", map[string]any{"domain_id": domain}
	c.summary = fmt.Sprintf("Scan the website of %s (%s) for leaked keys and exposed files: GET requests for at most 50 "+
		"pages and 300 other paths, in at most two minutes", d.Hostname, d.ID)
	return nil
}

// domainNamed returns the id of the domain with that id or host name.
func (c *change) domainNamed(ctx context.Context, name string) (string, error) {
	if strings.HasPrefix(name, id.Domain) {
		return name, nil
	}
	var all wire.List[wire.Domain]
	if _, err := c.server.read(ctx, c.key, "/v1/domains", &all); err != nil { // one page has all
		return "", err
	}
	var verified []string
	for _, d := range all.Data {
		if strings.EqualFold(d.Hostname, name) {
			return d.ID, nil
		}
		if d.Status == leak.DomainVerified {
			verified = append(verified, d.Hostname)
		}
	}
	return "", fmt.Errorf("not_found: domain: is none of this account; verified are: %s",
		cleanText(cmp.Or(strings.Join(verified, ", "), "none"), maxText))
}

// textOf returns a text that may be missing.
func textOf(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}
