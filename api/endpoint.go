package api

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/eventrelay/relay/pkg/config"
	"github.com/eventrelay/relay/pkg/id"
	"github.com/eventrelay/relay/pkg/verify"
	"github.com/eventrelay/relay/pkg/web"
)

// body reads the JSON body of a write, `{}` when there is none, and judges the headers that go with it.
func (a *API) body(w http.ResponseWriter, r *http.Request) ([]byte, error) {
	if _, err := idempotencyKey(r); err != nil {
		return nil, err
	}
	if err := web.CheckContentType(r); err != nil {
		return nil, err
	}
	var buf bytes.Buffer
	if err := web.ReadBody(r, &buf, a.cfg.MaxBody); err != nil {
		return nil, err
	}
	if buf.Len() == 0 {
		return []byte("{}"), nil
	}
	return buf.Bytes(), nil
}

func (a *API) now() time.Time { return a.deps.Now().UTC().Truncate(time.Millisecond) }

// nameTail is how much of its id an endpoint without a name is called by.
const nameTail = 8

func (a *API) createEndpoint(w http.ResponseWriter, r *http.Request, key *config.Key) error {
	body, err := a.body(w, r)
	if err != nil {
		return err
	}
	e := &config.Endpoint{
		ID: newID(r, id.Endpoint), Account: key.Account, Provider: verify.Generic, RetryPolicy: config.DefaultRetryPolicy(),
		Response: defaultResponse(verify.Generic), Enabled: true, Metadata: map[string]string{}, CreatedAt: a.now(),
	}
	e.Name = e.ID[len(e.ID)-nameTail:]
	e.Token = a.newToken(e.ID)
	in := a.newEndpointInput(true)
	if in.merge(body, e); in.err != nil {
		return in.err
	}
	created, err := a.deps.Config.CreateEndpoint(r.Context(), e)
	if errors.Is(err, config.ErrConflict) { // the first call with the Idempotency-Key has created it
		if created, _ = a.deps.Config.Endpoint(e.ID); created != nil {
			err = a.reveal(in, created)
		}
	}
	if err != nil {
		return err
	}
	a.warnAddresses(r.Context(), in, nil, created)
	return a.answerEndpoint(w, r, key, http.StatusCreated, created, in)
}

// reveal lets the answer show the signing secrets of destinations that an earlier call under the same key has made:
// nobody has got its answer.
func (a *API) reveal(in *endpointInput, e *config.Endpoint) error {
	clear(in.revealed) // of what this call has made in vain
	for i := range e.Destinations {
		d := &e.Destinations[i]
		secret, err := a.deps.Keyring.OpenString(d.ID, config.FieldSecret, d.Secrets[0].Secret)
		if err != nil {
			return err
		}
		in.revealed[d.ID] = secret
	}
	return nil
}

func (a *API) answerEndpoint(w http.ResponseWriter, r *http.Request, key *config.Key, status int, e *config.Endpoint,
	in *endpointInput,
) error {
	view, err := a.endpointView(viewerOf(key), e, in.revealed, a.held(r.Context(), e))
	if err != nil {
		return err
	}
	view.Warnings = in.warnings
	web.WriteJSON(w, status, view)
	return nil
}

func (a *API) readEndpoint(w http.ResponseWriter, r *http.Request, key *config.Key) error {
	a.upToDate(r.Context())
	e, err := a.endpointOf(r, key)
	if err != nil {
		return err
	}
	return a.answerEndpoint(w, r, key, http.StatusOK, e, &endpointInput{})
}

func (a *API) listEndpoints(w http.ResponseWriter, r *http.Request, key *config.Key) error {
	q := newQuery(r, "endpoints "+key.Account)
	limit, last := q.page()
	if q.err != nil {
		return q.err
	}
	if last == (rowKey{}) {
		a.upToDate(r.Context())
	}
	endpoints, more := a.deps.Config.Endpoints(key.Account, last.seq(), limit)
	out := list[*endpointView]{Data: make([]*endpointView, len(endpoints))}
	held := a.held(r.Context(), endpoints...)
	for i, e := range endpoints {
		var err error
		if out.Data[i], err = a.endpointView(viewerOf(key), e, nil, held); err != nil {
			return err
		}
	}
	if more {
		out.NextCursor = q.hash.cursor(seqKey(endpoints[len(endpoints)-1].Seq))
	}
	web.WriteJSON(w, http.StatusOK, out)
	return nil
}

// change applies one change of an endpoint. merge is called anew after a conflict, with the value that won.
func (a *API) change(ctx context.Context, before *config.Endpoint, merge func(in *endpointInput, e *config.Endpoint),
) (*config.Endpoint, *endpointInput, error) {
	var in *endpointInput
	after, err := a.deps.Config.UpdateEndpoint(ctx, before.ID, func(e *config.Endpoint) error {
		in = a.newEndpointInput(false)
		merge(in, e)
		return in.err
	})
	if err != nil {
		return nil, nil, err
	}
	a.warnAddresses(ctx, in, before, after)
	return after, in, nil
}

func (a *API) updateEndpoint(w http.ResponseWriter, r *http.Request, key *config.Key) error {
	e, err := a.endpointOf(r, key)
	if err != nil {
		return err
	}
	body, err := a.body(w, r)
	if err != nil {
		return err
	}
	after, in, err := a.change(r.Context(), e, func(in *endpointInput, e *config.Endpoint) { in.merge(body, e) })
	if err != nil {
		return err
	}
	return a.answerEndpoint(w, r, key, http.StatusOK, after, in)
}

// deleted is the answer to every DELETE.
type deleted struct {
	ID      string `json:"id"`
	Object  string `json:"object"`
	Deleted bool   `json:"deleted"`
}

func (a *API) deleteEndpoint(w http.ResponseWriter, r *http.Request, key *config.Key) error {
	e, err := a.endpointOf(r, key)
	if err != nil {
		return err
	}
	if err := a.deps.Config.DeleteEndpoint(r.Context(), e.ID); err != nil {
		return err
	}
	web.WriteJSON(w, http.StatusOK, deleted{e.ID, "endpoint", true})
	return nil
}
