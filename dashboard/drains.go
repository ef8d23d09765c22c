package dashboard

import (
	"errors"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/eventrelay/relay/pkg/apikey"
	"github.com/eventrelay/relay/pkg/web"
)

// Paths of the pages of log drains.
const (
	drainsPath = "/app/drains"
	drainPath  = drainsPath + "/{drain}"
)

// drainData is a drain of the API.
type drainData struct {
	ID             string  `json:"id"`
	Name           string  `json:"name"`
	State          string  `json:"status"`
	URL            string  `json:"url"`
	OwnPlatform    string  `json:"platform"`
	Platform       *string `json:"detected_platform"`
	LastReceivedAt string  `json:"last_received_at"`
	Requests       *int64  `json:"requests_24h"`
	Lines          *int64  `json:"lines_24h"`
	Bytes          *int64  `json:"bytes_24h"`
	Hits           *int64  `json:"hits_24h"`
	Rejected       *int64  `json:"rejected_24h"`
	LastError      *string `json:"last_error"`
	Signed         bool    `json:"signing_secret_set"`
	Verifies       bool    `json:"verify_code_set"`
	Version        int     `json:"version"`
	CreatedAt      string  `json:"created_at"`
}

// Path is the page of the drain.
func (d *drainData) Path() string { return drainsPath + "/" + url.PathEscape(d.ID) }

func (d *drainData) api() string { return "/v1/drains/" + url.PathEscape(d.ID) }

// OnlyHere reports whether the URL names this machine alone, so no platform on the internet reaches it.
func (d *drainData) OnlyHere() bool { return isOnlyHere(d.URL) }

// Paused reports whether the drain drops what it receives.
func (d *drainData) Paused() bool { return d.State == "paused" }

// Unknown reports whether the store, which knows what the drain has received, does not answer.
func (d *drainData) Unknown() bool { return d.Requests == nil }

// LineCount and the counts beside it are those of the last 24 hours.
func (d *drainData) LineCount() int64 { return count(d.Lines) }

// ByteCount is after decompression.
func (d *drainData) ByteCount() int { return int(count(d.Bytes)) }

// HitCount counts each secret as often as it occurred.
func (d *drainData) HitCount() int64 { return count(d.Hits) }

// RejectedCount counts requests.
func (d *drainData) RejectedCount() int64 { return count(d.Rejected) }

func count(n *int64) int64 {
	if n == nil {
		return 0
	}
	return *n
}

// drainErrors says what to do about a request that a drain has refused, by the word of the API.
var drainErrors = map[string]string{
	"rate_limited":         "It came faster than a drain accepts. Send more lines in each request.",
	"too_large":            "It was too large: at most 64 MiB, or 10 MiB as gzip. Send fewer lines in each request.",
	"too_slow":             "It did not arrive in time. Check the network between the client and this service.",
	"unsupported_encoding": "It was compressed with something else than gzip. Send gzip or plain text.",
	"unreadable":           "Its gzip data was corrupt, or it did not arrive completely.",
	"bad_signature":        "Vercel's signature was missing or wrong. Paste the signature secret again that Vercel shows.",
	"unavailable":          "The log of this service did not answer. The client should have sent it again.",
}

// Trouble is why the newest refused request was refused, in a sentence; empty if none was.
func (d *drainData) Trouble() string {
	if d.LastError == nil {
		return ""
	}
	if text := drainErrors[*d.LastError]; text != "" {
		return text
	}
	return "It was refused: " + *d.LastError + "."
}

// drainsPage is the data of the list of drains.
type drainsPage struct {
	Drains []*drainData
	Form   *form
	First  bool
	Next   string // path of the next page; empty: there is none
}

func listDrains(v *visit) error { return showDrains(v, newForm(url.Values{}, "")) }

func showDrains(v *visit, f *form) error {
	var list struct {
		Data       []*drainData `json:"data"`
		NextCursor string       `json:"next_cursor"`
	}
	query, p := url.Values{"limit": {"50"}}, drainsPage{First: true, Form: f}
	if cursor := v.r.URL.Query().Get("cursor"); cursor != "" && v.r.Method == http.MethodGet {
		query.Set("cursor", cursor)
		p.First = false
	}
	if err := v.get("/v1/drains", query, &list); err != nil {
		return err
	}
	p.Drains = list.Data
	if list.NextCursor != "" {
		p.Next = drainsPath + "?" + url.Values{"cursor": {list.NextCursor}}.Encode()
	}
	return v.page("drains", p)
}

// createDrain creates a drain and opens its page, which says how to send lines to it.
func createDrain(v *visit) error {
	f, err := v.form()
	if err != nil {
		return err
	}
	body := map[string]any{}
	if name := strings.TrimSpace(f.Value("name")); name != "" {
		body["name"] = name
	}
	var d drainData
	err = v.send("POST", "/v1/drains", body, f.Nonce, &d)
	if x, ok := errors.AsType[*apiError](err); ok && (x.Status == http.StatusBadRequest || x.Status >= 500) {
		v.status = f.setError(x)
		return showDrains(v, f)
	} else if err != nil {
		return err
	}
	return v.redirect(d.Path(), "Drain created")
}

// drainPageData is the data of the page of one drain.
type drainPageData struct {
	*drainData
	Form      *form
	Decoy     string // a key that is marked as a test wherever it is found
	Platforms []option
}

// readDrain returns the drain in the path.
func readDrain(v *visit) (*drainData, error) {
	d := &drainData{}
	err := v.get("/v1/drains/"+v.vars["drain"], nil, d)
	if x, ok := errors.AsType[*apiError](err); ok && x.Status == http.StatusNotFound {
		return nil, web.Missing("There is no such drain.")
	}
	return d, err
}

// showDrain shows how to send lines to a drain, and what it has received.
func showDrain(v *visit) error {
	d, err := readDrain(v)
	if err != nil {
		return err
	}
	return showDrainForm(v, d, newForm(url.Values{"name": {d.Name}, "platform": {d.OwnPlatform}}, strconv.Itoa(d.Version)))
}

// showDrainForm shows the page of a drain; f holds its settings.
func showDrainForm(v *visit, d *drainData, f *form) error {
	return v.page("drain", &drainPageData{d, f, apikey.NewDecoy(), drainPlatforms})
}

// badRequest returns the answer of the API if it refused what a person has entered.
func badRequest(err error) (*apiError, bool) {
	x, ok := errors.AsType[*apiError](err)
	return x, ok && x.Status == http.StatusBadRequest
}

// actOnDrain calls the API about the drain in the path and returns to its page.
func actOnDrain(v *visit, method, path string, body any, message string) error {
	f, err := v.form()
	if err != nil {
		return err
	}
	d, err := readDrain(v)
	if err != nil {
		return err
	}
	if err := v.send(method, d.api()+path, body, f.Nonce, nil); err != nil {
		return err
	}
	return v.redirect(d.Path(), message)
}

func pauseDrain(v *visit) error {
	return actOnDrain(v, "PATCH", "", map[string]any{"status": "paused"}, "Paused. What arrives is dropped.")
}

func unpauseDrain(v *visit) error {
	return actOnDrain(v, "PATCH", "", map[string]any{"status": "active"}, "Unpaused. What arrives is scanned.")
}

func rotateDrain(v *visit) error {
	return actOnDrain(v, "POST", "/rotate", map[string]any{}, "Rotated. The previous URL works no more.")
}

func deleteDrain(v *visit) error {
	if _, err := v.form(); err != nil {
		return err
	}
	d, err := readDrain(v)
	if err != nil {
		return err
	}
	if err := v.send("DELETE", d.api(), nil, "", nil); err != nil {
		return err
	}
	return v.redirect(drainsPath, "Deleted. Its findings stay.")
}
