package api

import (
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/gorilla/mux"

	"github.com/eventrelay/relay/pkg/control"
	"github.com/eventrelay/relay/pkg/sign"
	"github.com/eventrelay/relay/pkg/web"
)

// destinationOf is the endpoint and the destination that the path names.
func (a *API) destinationOf(r *http.Request, key *control.Key) (*control.Endpoint, string, error) {
	e, err := a.endpointOf(r, key)
	if err != nil {
		return nil, "", err
	}
	name := mux.Vars(r)["destination"]
	if e.Destination(name) == nil {
		return nil, "", errNoDestination()
	}
	return e, name, nil
}

func errNoDestination() error { return web.Missing("there is no such destination") }

// changeDestination applies merge to one destination and answers with it.
func (a *API) changeDestination(w http.ResponseWriter, r *http.Request, e *control.Endpoint, name string,
	merge func(in *endpointInput, d control.Destination) control.Destination,
) error {
	after, in, err := a.change(r.Context(), e, func(in *endpointInput, e *control.Endpoint) {
		i := slices.IndexFunc(e.Destinations, func(d control.Destination) bool { return d.ID == name })
		if i < 0 { // deleted since the path was read
			in.err = errNoDestination()
			return
		}
		e.Destinations = slices.Clone(e.Destinations)
		e.Destinations[i] = merge(in, e.Destinations[i])
	})
	if err != nil {
		return err
	}
	return a.answerDestination(w, http.StatusOK, after.Destination(name), in)
}

func (a *API) answerDestination(w http.ResponseWriter, status int, d *control.Destination, in *endpointInput) error {
	view, err := a.destinationView(d, in.revealed)
	if err != nil {
		return err
	}
	view.Warnings = in.warnings
	for i := range view.Warnings { // the request was one destination, not a list of them
		_, member, inside := strings.Cut(view.Warnings[i].Param, "].")
		if inside && strings.HasPrefix(view.Warnings[i].Param, "destinations[") {
			view.Warnings[i].Param = member
		}
	}
	web.WriteJSON(w, status, view)
	return nil
}

func (a *API) createDestination(w http.ResponseWriter, r *http.Request, key *control.Key) error {
	e, err := a.endpointOf(r, key)
	if err != nil {
		return err
	}
	body, err := a.body(w, r)
	if err != nil {
		return err
	}
	var created string
	after, in, err := a.change(r.Context(), e, func(in *endpointInput, e *control.Endpoint) {
		o := in.newObject("", body)
		d := in.mergeDestination(o, in.newDestination())
		created = d.ID
		switch {
		case in.err != nil:
		case d.URL == "":
			in.fail("url", "is required")
		case len(e.Destinations) >= maxDestinations:
			in.fail("destinations", "an endpoint has at most %d", maxDestinations)
		default:
			e.Destinations = append(slices.Clone(e.Destinations), d)
		}
	})
	if err != nil {
		return err
	}
	return a.answerDestination(w, http.StatusCreated, after.Destination(created), in)
}

func (a *API) updateDestination(w http.ResponseWriter, r *http.Request, key *control.Key) error {
	e, name, err := a.destinationOf(r, key)
	if err != nil {
		return err
	}
	body, err := a.body(w, r)
	if err != nil {
		return err
	}
	return a.changeDestination(w, r, e, name, func(in *endpointInput, d control.Destination) control.Destination {
		return in.mergeDestination(in.newObject("", body), d)
	})
}

func (a *API) deleteDestination(w http.ResponseWriter, r *http.Request, key *control.Key) error {
	e, name, err := a.destinationOf(r, key)
	if err != nil {
		return err
	}
	_, _, err = a.change(r.Context(), e, func(in *endpointInput, e *control.Endpoint) {
		rest := slices.DeleteFunc(slices.Clone(e.Destinations), func(d control.Destination) bool { return d.ID == name })
		switch len(rest) {
		case len(e.Destinations):
			in.err = errNoDestination()
		case 0:
			in.fail("destinations", "must keep at least one; delete the endpoint, or disable the destination")
		default:
			e.Destinations = rest
		}
	})
	if err != nil {
		return err
	}
	web.WriteJSON(w, http.StatusOK, deleted{name, "destination", true})
	return nil
}

// Bounds of a rotation: a week is longer than any receiver should need to learn a new secret.
const (
	defaultOverlap = 86400  // seconds
	maxOverlap     = 604800 // seconds
)

// rotateSecret makes a new signing secret. The one before it signs beside it until the overlap ends.
func (a *API) rotateSecret(w http.ResponseWriter, r *http.Request, key *control.Key) error {
	e, name, err := a.destinationOf(r, key)
	if err != nil {
		return err
	}
	body, err := a.body(w, r)
	if err != nil {
		return err
	}
	return a.changeDestination(w, r, e, name, func(in *endpointInput, d control.Destination) control.Destination {
		overlap := defaultOverlap
		o := in.newObject("", body)
		o.whole("overlap_seconds", 0, maxOverlap, &overlap)
		o.done()
		before := d.Secrets[0]
		in.setSecret(&d, sign.NewSecret())
		if overlap > 0 {
			before.Until = a.now().Add(time.Duration(overlap) * time.Second)
			d.Secrets = append(d.Secrets, before)
		}
		return d
	})
}
