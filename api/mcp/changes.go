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

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/eventrelay/relay/api/confirm"
	"github.com/eventrelay/relay/pkg/config"
	"github.com/eventrelay/relay/pkg/id"
	"github.com/eventrelay/relay/pkg/web"
)

// change is a change that an agent asks for.
type change struct {
	resource string // path of /v1 that it changes
	endpoint bool   // the endpoint of the resource matters too
	path     string // of the POST that makes it
	note     string // by the agent
	proposal
}

// proposal is what a tool makes of its arguments. v is the resource now; it has its endpoint as member "endpoint" if
// that matters.
type proposal interface {
	check(v map[string]any) error    // why it cannot be done
	body(v map[string]any) any       // of the POST
	summary(v map[string]any) string // says what will happen
}

// changing are the tools that ask for changes. A key that may only read does not see them.
var changing = []string{"finding_update", "event_replay", "recovery_action", "scan_start"}

// addChanges adds the tools that ask for changes, and the one that says what became of them.
func (s *Server) addChanges(server *sdk.Server) {
	s.addFindingUpdate(server)
	s.addEventReplay(server)
	s.addRecoveryAction(server)
	s.addScanStart(server)
	s.addStatus(server)
}

// addChange adds a tool that asks for a change.
func addChange[In any](s *Server, server *sdk.Server, destructive bool, name, title, description string,
	of func(context.Context, *config.Key, In) (change, error)) {
	no := false
	s.tools[name] = argumentsOf[In]()
	sdk.AddTool(server, &sdk.Tool{Name: name, Title: title, InputSchema: schemaOf(s.tools[name]),
		Description: description + " It returns a link for the person; nothing is changed before.",
		Annotations: &sdk.ToolAnnotations{Title: title, DestructiveHint: &destructive, OpenWorldHint: &no},
	}, func(ctx context.Context, _ *sdk.CallToolRequest, in In) (*sdk.CallToolResult, any, error) {
		key, _ := ctx.Value(keyOf{}).(*config.Key)
		if err := s.mayAsk(ctx, key); err != nil {
			return nil, nil, err
		}
		x, err := of(ctx, key, in)
		if err != nil {
			return nil, nil, err
		}
		return answerText(s.ask(ctx, key, name, in, x))
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

// ask creates the act for a change, and returns the text of the result.
func (s *Server) ask(ctx context.Context, key *config.Key, tool string, in any, x change) (string, error) {
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
	if err := x.check(v); err != nil {
		return "", err
	}
	request, err := json.Marshal(x.body(v))
	if err != nil {
		return "", err
	}
	arguments, err := json.Marshal(in)
	if err != nil {
		return "", err
	}

	info := web.InfoFrom(ctx)
	a := &config.Act{
		Meta: config.Meta{ID: id.Random(id.Act), Account: key.Account}, Key: key.ID, KeyName: key.Name, Tool: tool,
		Arguments: string(arguments), Summary: cleanText(x.summary(v), maxText), Note: cleanText(x.note, maxText),
		Path: x.path, Body: string(request), Resources: resources, Revision: revision, RemoteIP: info.Client.String(),
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
	if confirm.IsIncomplete(path, header) {
		return nil, nil, errors.New("unavailable: the newest attempts of the event cannot be read at the moment; try again")
	}
	return v, body, nil
}

// maxArguments bounds the arguments and the request of an act together, in bytes.
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
			return slices.Contains(changing, t.Name)
		})
		return &shown, nil
	}
}
