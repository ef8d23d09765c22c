// Package confirm does the changes that agents ask for, after a person has approved them (config.Action): each exactly
// once, through the handlers of /v1, as the person who has approved. The request of an action has the action's id as
// its Idempotency-Key. So it may be made again, by any node, when the node that began it was killed. What a key asked
// for ends with the key: it is checked when a person approves, and before each try right before the change is made.
//
// Begin reading at Confirmer.Approve; Run finishes what a killed node has begun.
package confirm

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/eventrelay/relay/pkg/config"
	"github.com/eventrelay/relay/pkg/config/entity"
	"github.com/eventrelay/relay/pkg/crash"
	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/wait"
	"github.com/eventrelay/relay/pkg/web"
)

// Path precedes the id of an action in the path of the page that confirms it.
const Path = "/app/confirm/"

// PortalPath does so for an action of a tenant's key, below the address of the portal.
const PortalPath = "/requests/"

// Deps are the dependencies of a Confirmer. All are required.
type Deps struct {
	Log     *slog.Logger
	Actions Actions
	API     API
	Now     func() time.Time
}

// Actions reads and changes actions, see config.Action, and who may sign in or use the portal.
type Actions interface {
	Account() *entity.Account
	Users() []*config.User
	PortalSession(id string) (*config.PortalSession, error)
	Action(id string) (*config.Action, entity.Presence)
	Actions(account string, keep func(*config.Action) bool) []*config.Action
	PendingActions(account string) []*config.Action
	DecideAction(ctx context.Context, id, person string, to config.ActionState) (*config.Action, error)
	EndAction(ctx context.Context, id string, to config.ActionState, result string) (*config.Action, error)
	RefusalOf(a *config.Action) (config.ActionRefusal, error)
	RefuseAction(ctx context.Context, known *config.Action, person string, why config.ActionRefusal, result string) (
		*config.Action, error)
}

// API answers requests of /v1 in this process; see api.API.Call.
type API interface {
	Call(ctx context.Context, principal *config.Key, method, path string, query url.Values, body []byte,
		idempotencyKey string) (status int, header http.Header, json []byte)
}

// Times of Run.
const (
	// checkEvery is how often Run looks for actions that another node has left.
	checkEvery = 5 * time.Second
	// leftAfter is the time from an approval after which another node finishes the action. It is longer than a request.
	leftAfter = 45 * time.Second
	// giveUpAfter is the time from an approval after which an action is not tried again: what a person approved then may
	// not be what is right now.
	giveUpAfter = 5 * time.Minute
	// callTimeout bounds one request of an action.
	callTimeout = 30 * time.Second
	// storeWait is how long an approval waits for a store that is behind, for all resources together. storePause is the
	// pause between two reads.
	storeWait, storePause = 15 * time.Second, 500 * time.Millisecond
)

// maxResult bounds what is kept of an answer, in bytes.
const maxResult = 500

// Confirmer approves, declines and finishes actions.
type Confirmer struct{ deps Deps }

// New validates its argument. It starts nothing.
func New(deps Deps) (*Confirmer, error) {
	if deps.Log == nil || deps.Actions == nil || deps.API == nil || deps.Now == nil {
		return nil, errors.New("confirmations: a dependency is missing")
	}
	return &Confirmer{deps}, nil
}

// Action returns an action of an account; nil if there is none.
func (c *Confirmer) Action(account, id string) *config.Action {
	a, presence := c.deps.Actions.Action(id)
	if presence != entity.Present || a.Account != account {
		return nil
	}
	return a
}

// Pending returns the actions of an account that wait for a person, newest first. Those of keys that have ended do not.
func (c *Confirmer) Pending(account string) []*config.Action {
	now := c.deps.Now()
	return slices.DeleteFunc(c.deps.Actions.PendingActions(account), func(a *config.Action) bool {
		return a.StateAt(now) != config.ActionPending || c.Refusal(a) != ""
	})
}

// Recent returns the newest settled actions of an account.
func (c *Confirmer) Recent(account string) []*config.Action {
	const most = 20
	now := c.deps.Now()
	all := c.deps.Actions.Actions(account, func(a *config.Action) bool { return a.StateAt(now) != config.ActionPending })
	return all[:min(len(all), most)]
}

// Refusal returns why a pending action cannot be approved any more, as a clause: its key has ended. Empty: it can be,
// or this node cannot know at the moment.
func (c *Confirmer) Refusal(a *config.Action) string {
	why, _ := c.deps.Actions.RefusalOf(a) // an approval checks it again
	return why.Text()
}

// Approve does what an action asks for, as the person, and returns how it ended. If its resources were changed since
// the agent asked, it ends as a conflict and nothing is done; if its key has ended, or an equal change was approved in
// the last minute, it is refused. Of several decisions one wins, the others get config.ErrActionDecided. An action that
// is approved and not ended is done later: a part of the service does not answer.
func (c *Confirmer) Approve(ctx context.Context, person *config.Key, a *config.Action) (*config.Action, error) {
	if a.StateAt(c.deps.Now()) != config.ActionPending {
		return nil, config.ErrActionDecided
	}
	why, err := c.deps.Actions.RefusalOf(a)
	if err != nil {
		return nil, web.ServiceUnavailable(nil, "this node cannot confirm API keys at the moment; try again")
	}
	if why != (config.ActionRefusal{}) {
		return c.deps.Actions.RefuseAction(ctx, a, person.ID, why, why.Text())
	}
	revision, err := c.revision(ctx, person, a)
	if err != nil {
		return nil, err
	}
	if check := config.SessionCheck(ctx); check != nil { // it may have waited for the store
		now, err := check()
		if err != nil {
			return nil, err
		}
		if now.Scope != config.ReadWrite {
			return nil, &web.Error{Status: http.StatusForbidden, Type: web.InsufficientScope,
				Message: "you may not make changes any more"}
		}
	}
	to := config.ActionApproved
	if revision != a.Revision {
		to = config.ActionConflict
	}
	decided, err := c.deps.Actions.DecideAction(ctx, a.ID, person.ID, to)
	if errors.Is(err, config.ErrActionRepeated) {
		why = config.ActionRefusal{SameChange: true}
		return c.deps.Actions.RefuseAction(ctx, a, person.ID, why, why.Text())
	}
	if err != nil || to != config.ActionApproved {
		return decided, err
	}
	return c.do(ctx, person, decided, false)
}

// Decline ends an action without doing it.
func (c *Confirmer) Decline(ctx context.Context, person *config.Key, a *config.Action) (*config.Action, error) {
	return c.deps.Actions.DecideAction(ctx, a.ID, person.ID, config.ActionDeclined)
}

// revision returns the revision of the resources of an action now.
func (c *Confirmer) revision(ctx context.Context, person *config.Key, a *config.Action) (string, error) {
	answers := make([][]byte, len(a.Resources))
	waiting, cancel := context.WithTimeout(ctx, storeWait)
	defer cancel()
	for i := 0; i < len(a.Resources); {
		path := a.Resources[i]
		status, header, body := c.deps.API.Call(ctx, person, http.MethodGet, path, nil, nil, "")
		switch {
		case status != http.StatusOK && status != http.StatusNotFound:
			return "", failure(status, header, body)
		case !IsIncomplete(path, header):
			answers[i] = body
			i++
		case wait.For(waiting, storePause) != nil:
			return "", web.ServiceUnavailable(nil, "the newest attempts of the event cannot be read at the moment; try again")
		}
	}
	return Revision(answers...), nil
}

// IsIncomplete reports whether an answer of /v1 has no revision because the store is behind: an event may lack its
// newest attempts. The revisions of all other resources are in the configuration.
func IsIncomplete(path string, header http.Header) bool {
	return strings.HasPrefix(path, "/v1/events/") && header.Get("Relay-Data-As-Of") != ""
}

// Revision returns the parts of answers of /v1 that change when their resources do: the version of a finding, the state
// of a recovery job, the status and the last attempt of an event, when an endpoint was changed, the status of a domain.
// The check of a domain each day changes its updated_at, and nothing that matters here. Of an event that is
// being retried it has the numbers of its destinations by state in place of the last attempt: one more failed attempt
// does not matter, one more destination that has got it does. The revision is empty if a resource is gone.
func Revision(answers ...[]byte) string {
	var all []string
	for _, answer := range answers {
		var r struct {
			Object        string `json:"object"`
			Version       int    `json:"version"`
			State         string `json:"state"`
			Status        string `json:"status"`
			LastAttemptAt string `json:"last_attempt_at"`
			UpdatedAt     string `json:"updated_at"`
			// Of an event: numbers by state.
			Destinations json.RawMessage `json:"destinations"`
		}
		if json.Unmarshal(answer, &r) != nil || r.Object == "" {
			return ""
		}
		switch {
		case r.Object == "domain":
			r.UpdatedAt = ""
		case r.Status == string(event.Retrying):
			r.LastAttemptAt = string(r.Destinations)
		}
		all = append(all, fmt.Sprintf("%s %d %s %s %s %s", r.Object, r.Version, r.State, r.Status, r.LastAttemptAt,
			r.UpdatedAt))
	}
	return strings.Join(all, ", ")
}

// do makes the request of an approved action, and records how it ended. again says that it may have been made before.
func (c *Confirmer) do(ctx context.Context, person *config.Key, a *config.Action, again bool) (*config.Action, error) {
	if !again { // the person's browser may go; what is approved is done
		ctx = context.WithoutCancel(ctx)
	} // else a stop ends it, and another node does it again
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	var refused config.ActionRefusal
	called := config.WithOrigin(ctx, config.Origin{Related: a.ID}) // the API names the person
	called = config.WithSessionCheck(called, func() (*config.Key, error) {
		var err error
		if refused, err = c.deps.Actions.RefusalOf(a); err == nil && refused != (config.ActionRefusal{}) {
			err = &web.Error{Status: http.StatusForbidden, Type: web.InsufficientScope, Message: refused.Text()}
		}
		return person, err
	})
	crash.At("approved " + a.Tool)
	status, header, body := c.deps.API.Call(called, person, http.MethodPost, a.Path, nil, []byte(a.Body), a.ID)
	crash.At("answered " + a.Tool)
	switch {
	case status < http.StatusBadRequest:
		to, result := resultOf(body)
		return c.deps.Actions.EndAction(ctx, a.ID, to, result)
	case refused != (config.ActionRefusal{}):
		return c.refuse(ctx, a, refused, again)
	case status >= http.StatusInternalServerError || status == http.StatusTooManyRequests && endsSoon(header):
		c.deps.Log.Warn("cannot do an approved act yet; it is tried again", "act", a.ID, "status", status)
		return a, nil
	}
	refusal := failure(status, header, body)
	return c.deps.Actions.EndAction(ctx, a.ID, stateOf(refusal.Type), refusal.Error())
}

// refuse ends an approved action whose key has ended. The audit log names the service if no person's request does it.
func (c *Confirmer) refuse(ctx context.Context, a *config.Action, why config.ActionRefusal, again bool) (
	*config.Action, error) {
	result := why.Text()
	if again {
		result += "; it is not known whether an earlier try has made the change: look before you ask again"
	}
	if config.OriginOf(ctx).Actor == "" {
		ctx = config.WithOrigin(ctx, config.Origin{Actor: "confirm"})
	}
	refused, err := c.deps.Actions.RefuseAction(ctx, a, "", why, result)
	if errors.Is(err, config.ErrActionDecided) { // another node was faster
		refused, _ = c.deps.Actions.Action(a.ID)
		return refused, nil
	}
	return refused, err
}

// stateOf returns how an action ends whose request is refused with an error of that type.
func stateOf(errorType string) config.ActionState {
	if errorType == web.Conflict { // changed after the revisions were compared
		return config.ActionConflict
	}
	return config.ActionFailed
}

// endsSoon reports whether a refusal of too many requests ends before an action is given up. That of scans in a day may
// not.
func endsSoon(header http.Header) bool {
	seconds, err := strconv.Atoi(header.Get("Retry-After"))
	return err != nil || time.Duration(seconds)*time.Second < giveUpAfter-leftAfter
}

// resultOf returns how an action ended whose request was answered, and what is kept of the answer. An update of
// findings succeeds also if its only finding could not be updated.
func resultOf(body []byte) (config.ActionState, string) {
	var r struct {
		Object string `json:"object"`
		ID     string `json:"id"`
		RunID  string `json:"run_id"`
		State  string `json:"state"`
		Failed []struct {
			Type    string `json:"type"`
			Message string `json:"message"`
		} `json:"failed"`
	}
	_ = json.Unmarshal(body, &r) // a recovery job has a number as failed; what was decoded counts
	switch {
	case len(r.Failed) > 0:
		return stateOf(r.Failed[0].Type), cut(web.SanitizeLine(r.Failed[0].Message))
	case r.RunID != "":
		return config.ActionDone, r.RunID
	case r.Object == "scan":
		return config.ActionDone, r.ID
	case r.State != "":
		return config.ActionDone, "the job is " + strings.ReplaceAll(r.State, "_", " ")
	}
	return config.ActionDone, ""
}

// failure returns the error of an answer of /v1.
func failure(status int, header http.Header, body []byte) *web.Error {
	var r struct {
		Error web.ErrorView `json:"error"`
	}
	_ = json.Unmarshal(body, &r) // an error without a body keeps its status
	e := &web.Error{Status: status, Type: r.Error.Type, Message: cut(web.SanitizeLine(r.Error.Message))}
	if header.Get("Retry-After") != "" {
		e.RetryAfter = time.Second
	}
	return e
}

func cut(s string) string {
	if len(s) > maxResult {
		return strings.ToValidUTF8(s[:maxResult], "") + "…"
	}
	return s
}

// Run finishes approved actions that their node has left, until ctx ends. Every node may: the request of an action is
// done once.
func (c *Confirmer) Run(ctx context.Context) error {
	for wait.For(ctx, checkEvery) == nil {
		c.finish(ctx)
	}
	return nil
}

// finish does the approved actions that have not ended for a while.
func (c *Confirmer) finish(ctx context.Context) {
	left := c.deps.Now().Add(-leftAfter)
	for _, a := range c.deps.Actions.Actions(c.deps.Actions.Account().ID, func(a *config.Action) bool {
		return a.State == config.ActionApproved && a.DecidedAt.Before(left)
	}) {
		if err := c.finishOne(ctx, c.person(a.DecidedBy), a); err != nil && ctx.Err() == nil {
			c.deps.Log.Warn("cannot finish an approved act", "act", a.ID, "error", err)
		}
	}
}

// person returns who has approved an action, as a caller of the API; nil: the person was removed, or the session in the
// portal has ended.
func (c *Confirmer) person(id string) *config.Key {
	if s, err := c.deps.Actions.PortalSession(id); err == nil {
		return s.Principal(s.Scope())
	}
	for _, u := range c.deps.Actions.Users() {
		if u.ID == id {
			return &config.Key{ID: u.ID, Account: u.Account, Name: u.Email, Scope: u.Scope}
		}
	}
	return nil
}

// finishOne does an action as the person who has approved it, who may have been removed since; nil = removed.
func (c *Confirmer) finishOne(ctx context.Context, person *config.Key, a *config.Action) error {
	if c.deps.Now().Sub(a.DecidedAt) > giveUpAfter {
		_, err := c.deps.Actions.EndAction(ctx, a.ID, config.ActionFailed,
			"it could not be done in five minutes, and it is not known whether it was done; look before you ask again")
		return err
	}
	if person == nil || person.Scope != config.ReadWrite {
		_, err := c.deps.Actions.EndAction(ctx, a.ID, config.ActionFailed,
			"the person who approved it may not make changes any more, and it is not known whether it was done")
		return err
	}
	_, err := c.do(ctx, person, a, true)
	return err
}
