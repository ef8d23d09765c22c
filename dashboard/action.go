package dashboard

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
)

// thing returns the function that reads what the API has at path, which has variables of the route.
func thing[T any](path string) func(*visit) (*T, error) {
	return func(v *visit) (*T, error) {
		out := new(T)
		return out, v.get(path, nil, out)
	}
}

// show returns the handler of a page about the thing that read returns.
func show[T any](read func(*visit) (T, error), page func(*visit, T) error) func(*visit) error {
	return func(v *visit) error {
		x, err := read(v)
		if err != nil {
			return err
		}
		return page(v, x)
	}
}

// submit returns the handler of a form.
func submit(do func(*visit, *form) error) func(*visit) error {
	return func(v *visit) error {
		f, err := v.form()
		if err != nil {
			return err
		}
		return do(v, f)
	}
}

// change returns the handler of a form about the thing that read returns.
func change[T any](read func(*visit) (T, error), do func(*visit, *form, T) error) func(*visit) error {
	return submit(func(v *visit, f *form) error {
		x, err := read(v)
		if err != nil {
			return err
		}
		return do(v, f, x)
	})
}

// leadTo returns the handler of a path that leads to another page.
func leadTo(path string) func(*visit) error {
	return func(v *visit) error { return v.redirect(path, "") }
}

// act returns the handler of a button: it makes one call of the API, such as PATCH /v1/drains/{drain}, and opens the
// page to with a message. Both paths have variables of the route.
func act(call string, body map[string]any, to, message string) func(*visit) error {
	return submit(func(v *visit, f *form) error {
		if err := v.do(call, f, body, nil); err != nil {
			return err
		}
		return v.redirect(v.fill(to), message)
	})
}

// create returns the handler of a form that makes a thing with a page of its own, and opens that page with a message.
// again shows the form with what is wrong with it; without it, that is an error.
func create(call string, body func(*visit, *form) members, again func(*visit, *form) error,
	message string) func(*visit) error {
	return submit(func(v *visit, f *form) error {
		var made struct{ ID string }
		err := v.do(call, f, body(v, f), &made)
		if again == nil && err != nil {
			return err
		}
		return v.answer(f, err, func() error { return again(v, f) }, func() error {
			return v.redirect(pageOf(made.ID), message)
		})
	})
}

// members is an object of the API.
type members = map[string]any

// do makes a changing call of the API, such as PATCH /v1/drains/{drain}, for a form: its nonce is the Idempotency-Key
// of a POST, so that a second submit does nothing twice.
func (v *visit) do(call string, f *form, body map[string]any, out any) error {
	method, path, _ := strings.Cut(call, " ")
	switch {
	case method == http.MethodDelete:
		return v.send(method, path, nil, "", out)
	case method == http.MethodPost && body == nil:
		body = members{}
	}
	nonce := ""
	if method == http.MethodPost {
		nonce = f.Nonce
	}
	return v.send(method, path, body, nonce, out)
}

// fill puts the variables of the route into a path.
func (v *visit) fill(path string) string {
	if !strings.Contains(path, "{") {
		return path
	}
	pairs := make([]string, 0, 2*len(v.vars))
	for name, value := range v.vars {
		pairs = append(pairs, "{"+name+"}", value)
	}
	return strings.NewReplacer(pairs...).Replace(path)
}

// refused reports whether the API has refused what a form asks for, or has not confirmed it, and shows that in the
// form. That somebody may not do it, or that the thing does not exist, is a page of its own.
func (v *visit) refused(f *form, err error) bool {
	switch x, ok := errors.AsType[*apiError](err); {
	case !ok, x.Status == http.StatusUnauthorized, x.Status == http.StatusForbidden, x.Status == http.StatusNotFound:
		return false
	default:
		v.status = f.reject(x)
		return true
	}
}

// answer answers a form whose call has ended with err: again shows the form with what is wrong with it, and then what
// follows if it is done.
func (v *visit) answer(f *form, err error, again, then func() error) error {
	switch {
	case v.refused(f, err):
		return again()
	case err != nil:
		return err
	}
	return then()
}

// ask makes the call that a form asks for, and answers the form.
func (v *visit) ask(call string, f *form, body map[string]any, out any, again, then func() error) error {
	return v.answer(f, v.do(call, f, body, out), again, then)
}

// opens returns the function that opens a page with a message.
func opens(v *visit, path, message string) func() error {
	return func() error { return v.redirect(path, message) }
}

// saving is a form that changes a stored thing.
type saving struct {
	form   *form
	stored url.Values     // what its fields show of the stored thing
	body   map[string]any // the members that it changes
	call   string         // of the API, such as PATCH /v1/alerts
	out    any            // gets the answer
	back   string         // path of the page
	again  func() error   // shows the page with the form
	then   func() error   // what follows if it is saved
}

// save saves a form. If nothing was changed, or the form is stale, nothing is saved.
func (v *visit) save(s saving) error {
	if len(s.body) == 0 {
		return v.redirect(s.back, s.form.unchanged(s.stored))
	}
	if status, stale := s.form.isStale(s.stored); stale {
		v.status = status
		return s.again()
	}
	return v.ask(s.call, s.form, s.body, s.out, s.again, s.then)
}

// tryGet is get for a part of a page: while the service cannot answer, the page says why and shows the rest.
func (v *visit) tryGet(path string, query url.Values, out any) (unavailable string, err error) {
	if err = v.get(path, query, out); isUnavailable(err) {
		return messageOf(err), nil
	}
	return "", err
}

// statusOf returns the status of an error of the API; 0 for other errors and for none.
func statusOf(err error) int {
	if x, ok := errors.AsType[*apiError](err); ok {
		return x.Status
	}
	return 0
}

// isUnavailable reports whether a part of the service does not answer at the moment, so that a page can show what still
// works.
func isUnavailable(err error) bool {
	status := statusOf(err)
	return status == http.StatusServiceUnavailable || status == http.StatusGatewayTimeout
}

// badRequest returns the answer of the API if it refused what a person has entered.
func badRequest(err error) (*apiError, bool) {
	x, ok := errors.AsType[*apiError](err)
	return x, ok && x.Status == http.StatusBadRequest
}

// fault is what a page itself finds wrong with a field, as the API would say it.
func fault(param, format string, args ...any) error {
	return &apiError{Status: http.StatusBadRequest, Param: param, Message: fmt.Sprintf(format, args...)}
}

// messageOf returns the message of an error of the API as a sentence.
func messageOf(err error) string {
	if x, ok := errors.AsType[*apiError](err); ok {
		return sentence(x.Message)
	}
	return ""
}
