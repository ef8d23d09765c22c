package mcp

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"unicode/utf8"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/eventrelay/relay/pkg/config"
)

type eventReplayInput struct {
	ID            string `json:"id" jsonschema:"id of the event (evt_…)"`
	DestinationID string `json:"destination_id,omitempty" jsonschema:"only this destination (dst_…)"`
	Note          string `json:"note,omitempty" jsonschema:"why, for the person who decides" most:"500"`
}

// addEventReplay adds the tool that asks for another delivery of an event.
func (s *Server) addEventReplay(server *sdk.Server) {
	addChange(s, server, false, "event_replay", "Deliver an event again",
		"Asks a person to deliver one stored event again, to all enabled destinations of its endpoint or to one.",
		func(_ context.Context, _ *config.Key, in eventReplayInput) (change, error) {
			resource := "/v1/events/" + url.PathEscape(in.ID)
			return change{resource, true, resource + "/replay", in.Note, in}, nil
		})
}

// body has no condition: a delivery reads its destination when it is sent, so a change after the approval counts,
// whenever it is made.
func (in eventReplayInput) body(map[string]any) any {
	if in.DestinationID == "" {
		return map[string]any{}
	}
	return map[string]any{"destination_id": in.DestinationID}
}

// check returns why an event cannot be delivered again so.
func (in eventReplayInput) check(v map[string]any) error {
	endpoint, _ := v["endpoint"].(map[string]any)
	if destinationsOf(endpoint, in.DestinationID) == "" {
		return errors.New("invalid_request: destination_id: is no enabled destination of the event's endpoint")
	}
	return nil
}

// summary says first where the event goes. A person approves by this text, and its type, which a stranger may have
// chosen, must not push the destinations out of it.
func (in eventReplayInput) summary(v map[string]any) string {
	endpoint, _ := v["endpoint"].(map[string]any)
	kind := "without a type"
	if text, ok := v["type"].(string); ok {
		kind = "type " + quoted(text)
	}
	return fmt.Sprintf("Deliver an event of the endpoint %s again, to %s: %v, now %v, %s", named(endpoint),
		destinationsOf(endpoint, in.DestinationID), v["id"], v["status"], kind)
}

// named returns the name and the id of an endpoint or destination.
func named(v map[string]any) string {
	if name, _ := v["name"].(string); name != "" {
		return fmt.Sprintf("%s (%v)", quoted(name), v["id"])
	}
	return fmt.Sprint(v["id"])
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

// destinationsOf names the enabled destinations of an endpoint, or only that one; it is empty if there is none. It
// names the first one whole, as many others as there is room for, and how many more there are.
func destinationsOf(endpoint map[string]any, only string) string {
	list, _ := endpoint["destinations"].([]any)
	var text strings.Builder
	more := 0
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
		name := fmt.Sprintf("%s at %q", named(d), host)
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
