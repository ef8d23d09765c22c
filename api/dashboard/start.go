package dashboard

import (
	"errors"
	"net/url"
)

// startPage is the data of the start page.
type startPage struct {
	HasEndpoints bool
	Unavailable  string // why the endpoints could not be read
	Pages        map[string]bool
}

// openStart leads to the start page.
func openStart(v *visit) error { return v.redirect("/app", "") }

// showStart shows what to do first.
func showStart(v *visit) error {
	var list struct {
		Data []struct{} `json:"data"`
	}
	err := v.get("/v1/endpoints", url.Values{"limit": {"1"}}, &list)
	p := startPage{HasEndpoints: len(list.Data) > 0, Pages: map[string]bool{}}
	if e, ok := errors.AsType[*apiError](err); ok && e.isUnavailable() {
		p.Unavailable = e.Message
	} else if err != nil {
		return err
	}
	for path := range v.routes {
		p.Pages[path] = v.has(path)
	}
	return v.page("start", p)
}
