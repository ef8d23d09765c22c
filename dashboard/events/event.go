package events

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/eventrelay/relay/api/wire"
	"github.com/eventrelay/relay/dashboard/model"
	"github.com/eventrelay/relay/dashboard/ui"
	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/verify"
	"github.com/eventrelay/relay/pkg/web"
)

// eventPage is the data of the page of one event.
type eventPage struct {
	*eventDetail
	Endpoint    string // its name; empty: it was deleted
	HasEndpoint bool
	Targets     []replayTarget // destinations that a replay can go to
	History     []step
	Shown       bodyView
	Curl        string
	Signature   *signatureData // nil: it was not asked for
	// Unverified says that a provider sent the event to an endpoint that verifies no signatures.
	Unverified  bool
	MaxAttempts int // that the endpoint's retry policy makes; 0: not known
	// Transformed says that destinations get another body, made by the endpoint's transformation.
	Transformed bool
	// Lead says why the event is in its state, Others what is known of its other destinations.
	Lead, Others []ui.Passage
	BaseURL      string
	Live         bool             // its state can still change
	Unknown      bool             // what became of it cannot be read at the moment; see hasNoOutcome
	Actions      []ui.EventAction // of features
}

// replayTarget is a destination that a replay can go to.
type replayTarget struct {
	ui.Option
	Status *ui.Status // of the event's delivery there; nil: it was not sent there
}

// ChosenText names the destination that a replay goes to unless a person chooses others, or says how many they are.
func (p *eventPage) ChosenText() string {
	chosen := slices.DeleteFunc(slices.Clone(p.Targets), func(t replayTarget) bool { return !t.Chosen })
	if len(chosen) == 1 {
		return ui.Plain(chosen[0].Text)
	}
	return ui.Plural(len(chosen), "destination", "destinations")
}

// chooseTargets chooses the destinations that do not have the event and that it is not on its way to; if there is none,
// all of them: a person who opens the dialog then wants it again.
func (p *eventPage) chooseTargets() {
	for i := range p.Targets {
		t := &p.Targets[i]
		t.Chosen = true
		for _, d := range p.Deliveries {
			if d.DestinationID == t.Value {
				status := ui.NewStatus(ui.TextOf(d.Status))
				t.Status = &status
				t.Chosen = d.Status == "failed" || d.Status == "skipped"
			}
		}
	}
	if !slices.ContainsFunc(p.Targets, func(t replayTarget) bool { return t.Chosen }) {
		for i := range p.Targets {
			p.Targets[i].Chosen = true
		}
	}
}

// CanReplay reports whether the API replays the event, as far as the page knows.
func (p *eventPage) CanReplay() bool {
	return p.HasEndpoint && p.PayloadErasedAt.IsZero() && !p.SignatureRefused()
}

// SignatureRefused reports whether the event was rejected and its signature is not accepted with the current secrets
// either, so that a replay would be refused.
func (p *eventPage) SignatureRefused() bool {
	return p.Status == "rejected" && p.Signature != nil && p.Signature.Refused == "" && !p.Signature.isAccepted()
}

// Mismatched reports whether another secret than the endpoint's may have made the signature.
func (p *eventPage) Mismatched() bool {
	return p.Signature != nil && ui.TextOf(p.Signature.Reason) == string(event.SignatureMismatch)
}

// Diagnosis is what the signature's first finding says to do; empty if there is none.
func (p *eventPage) Diagnosis() string {
	if p.Signature == nil || len(p.Signature.Findings) == 0 {
		return ""
	}
	text := ui.Sentence(p.Signature.Findings[0].Message)
	if p.Signature.Findings[0].Code == "no_cause" { // then the usual mistake helps most
		text += " " + verify.ByName(p.Signature.Scheme).Mistake
	}
	return strings.TrimSpace(text)
}

// showEvent shows one event: the reason for its state, its attempts with their answers, and the request that came.
func showEvent(v *ui.Visit) error {
	e := &eventDetail{}
	if err := v.Get(eventAPI, nil, e); err != nil {
		return err
	}
	p := &eventPage{eventDetail: e, BaseURL: v.Config.BaseURL, Live: e.Status == "pending" || e.Status == "retrying",
		Unknown: v.AsOf != "" && e.hasNoOutcome()}
	if err := nameDestinations(v, p); err != nil {
		return err
	}
	for _, d := range e.Deliveries { // the attempts that were planned are not made
		if !e.PayloadErasedAt.IsZero() || d.WhyDetails.Halt(d.Status) != "" {
			d.NextAttemptAt = web.Time{}
		}
	}
	for _, a := range e.Attempts {
		for _, d := range e.Deliveries {
			if d.DestinationID == a.DestinationID {
				d.Made = append(d.Made, a)
			}
		}
	}
	for _, d := range e.Deliveries {
		model.CompareAttempts(d.Made)
		if n := len(d.Made); n > 0 {
			setCurl(d.Made[n-1], e)
		}
	}
	p.History = e.history(v.Now())
	p.Shown = newBodyView(e.bytes(), v.R.URL.Query().Get("body"))
	p.Curl = e.localCurl()
	for _, area := range v.Areas {
		for _, a := range area.EventActions {
			if a.Fits(e.bytes()) {
				p.Actions = append(p.Actions, a)
			}
		}
	}
	explainStatus(v, p)
	explain := e.Verification != "verified" || v.R.URL.Query().Get("signature") == "1"
	if e.Source == "provider" && !p.Unverified && explain {
		if err := addSignature(v, p); err != nil {
			return err
		}
	}
	if p.Status == event.Rejected && p.Signature != nil && p.Signature.isAccepted() {
		p.Lead = []ui.Passage{{Text: "Rejected when it arrived. The endpoint accepts its signature now: replay it."}}
	}
	return v.Page("event", p)
}

// eventAPI is the path of an event in the API.
const eventAPI = "/v1/events/{event}"

// nameDestinations reads the endpoint for the names of the destinations. Those that were deleted keep their ids.
func nameDestinations(v *ui.Visit, p *eventPage) error {
	endpoint := &model.Endpoint{}
	err := v.Get(ui.APIOf(p.EndpointID), nil, endpoint)
	if ui.StatusOf(err) == http.StatusNotFound {
		err = nil
	} else if err == nil {
		p.Endpoint, p.HasEndpoint, p.MaxAttempts = endpoint.Name, true, endpoint.RetryPolicy.Attempts()
		p.Unverified = p.Source == "provider" && endpoint.Verification == nil
		p.Transformed = endpoint.Transformation != nil
		if slices.ContainsFunc(endpoint.Destinations, func(d model.Destination) bool { return d.RetryPolicy != nil }) {
			p.MaxAttempts = 0
		}
	}
	names := map[string]string{}
	for i := range endpoint.Destinations {
		d := &endpoint.Destinations[i]
		names[d.ID] = d.Title()
		address := d.Address()
		if address == names[d.ID] {
			address = ""
		}
		if d.Enabled {
			p.Targets = append(p.Targets, replayTarget{Option: ui.Option{Value: d.ID, Text: names[d.ID], Hint: address}})
		}
		for _, x := range p.Deliveries {
			if x.DestinationID == d.ID {
				x.Address = address
			}
		}
	}
	p.chooseTargets()
	for _, d := range p.Deliveries {
		d.Name = model.DestinationName(names, d.DestinationID)
		d.Open = d.Status != "delivered" && d.Status != "skipped" || len(p.Deliveries) == 1
	}
	return err
}

// signatureData is how the signature of an event was checked, as the API recomputes it.
type signatureData struct {
	wire.SignatureExplanation
	// Refused is why the signature cannot be recomputed; all else is empty then.
	Refused string `json:"-"`
}

// isAccepted reports whether a replay of the rejected event is accepted.
func (s *signatureData) isAccepted() bool {
	return slices.ContainsFunc(s.Findings, func(f wire.SignatureFinding) bool { return f.Code == "valid_for_replay" })
}

// visibleSpace shows the characters of a signed text that are easily overlooked: a signature covers each of them.
var visibleSpace = strings.NewReplacer(" ", "·", "\t", "→")

// Content is the signed text with visible white space. The ends of lines are tokens of the class tag, with letters that
// every font has.
func (s *signatureData) Content() (tokens []token) {
	if s.SignedContent == nil {
		return nil
	}
	text := visibleSpace.Replace(*s.SignedContent)
	for text != "" {
		n := strings.IndexAny(text, "\r\n")
		switch {
		case n < 0:
			return append(tokens, token{"", text})
		case n > 0:
			tokens = append(tokens, token{"", text[:n]})
		}
		if text[n] == '\r' {
			tokens = append(tokens, token{"tag", "CR"})
		} else {
			tokens = append(tokens, token{"tag", "LF"}, token{"", "\n"})
		}
		text = text[n+1:]
	}
	return tokens
}

// addSignature recomputes the signature on the server.
func addSignature(v *ui.Visit, p *eventPage) error {
	p.Signature = &signatureData{}
	err := v.Get(eventAPI+"/signature", nil, p.Signature)
	if ui.StatusOf(err) == http.StatusBadRequest || ui.IsUnavailable(err) {
		p.Signature.Refused, err = ui.MessageOf(err), nil
	}
	return err
}

// replayEvent delivers the event again, to the destinations that are chosen.
func replayEvent(v *ui.Visit, f *ui.Form) error {
	chosen := f.Values["destination_id"]
	if len(chosen) == 0 {
		return web.Invalid("destination_id", "Nothing was sent: choose at least one destination.")
	}
	var queued wire.ReplayResult
	if err := v.Do("POST "+eventAPI+"/replay", f, map[string]any{"destination_id": chosen}, &queued); err != nil {
		return err
	}
	message := "Queued " + strconv.Itoa(queued.Queued) + " deliveries."
	switch queued.Queued {
	case 0:
		message = "Nothing was queued: no destination is enabled."
	case 1:
		message = "Queued one delivery."
	}
	return v.Redirect(v.Fill(ui.EventPath), message)
}

// erasePayload erases what the event and its attempts hold of the request, for good.
func erasePayload(v *ui.Visit) error {
	if v.Values.Get("confirm") != "erase" {
		return web.Invalid("", "Nothing was erased: type the word erase to confirm.")
	}
	if err := v.Send("DELETE", eventAPI+"/payload", nil, "", nil); err != nil {
		return err
	}
	return v.Redirect(v.Fill(ui.EventPath), "Body, headers and query are erased, on every node.")
}

// downloadBody sends the body as it was received, as a file that no browser shows.
func downloadBody(v *ui.Visit) error {
	e := &eventDetail{}
	if err := v.Get(eventAPI, nil, e); err != nil {
		return err
	}
	ui.SendFile(v, "event-body.bin", "application/octet-stream", e.bytes())
	return nil
}

// attemptsPage is the data of the page of all attempts of an event.
type attemptsPage struct {
	ui.ListPage[*attemptData]
	ID string
}

// listAttempts shows all attempts of an event, in pages.
func listAttempts(v *ui.Visit) error {
	list, err := ui.ReadList[*attemptData](v, eventAPI+"/attempts", v.Fill(ui.EventPath)+"/attempts", nil, nil)
	if err != nil {
		return err
	}
	nameAttempts(v, list.Rows)
	return v.Page("attempts", attemptsPage{list, v.Vars["event"]})
}

// maxNamed bounds the endpoints among which the destinations of a page are looked for.
const maxNamed = 10_000

// nameAttempts sets the names of the destinations, from memory. Those that were deleted keep their ids.
func nameAttempts(v *ui.Visit, all []*attemptData) {
	names := map[string]string{}
	for _, a := range all {
		names[a.DestinationID] = a.DestinationID
	}
	endpoints, _ := v.Deps.Control.Endpoints(v.Person.Account, 0, maxNamed)
	for _, e := range endpoints {
		for i := range e.Destinations {
			if d := &e.Destinations[i]; names[d.ID] != "" {
				names[d.ID] = ui.NameOfDestination(d)
			}
		}
	}
	for _, a := range all {
		a.Name = names[a.DestinationID]
	}
}

// token is a part of a line of JSON. Class is that of the style sheet: k for a name, s for a string, d for a number, l
// for a literal; empty for punctuation.
type token struct{ Class, Text string }

// bodyLine is a line of a tree. One that opens a fold has the lines up to the one that closes it below itself.
type bodyLine struct {
	Tokens        []token
	Opens, Closes bool
	// Path is the list of the events with the same value at the same place, for the last name, string or number; empty:
	// the search has no words for that place.
	Path string
}

// Largest part of a body that a page shows, in bytes. The whole body can be downloaded.
const (
	maxShownBody = 64 << 10
	maxShownHex  = 8 << 10
)

// bodyView is how a page shows a body.
type bodyView struct {
	As    string     // tree, raw or hex
	Lines []bodyLine // of a tree
	Text  string     // of raw and hex
	Cut   bool       // only the beginning is shown
	JSON  bool       // it can be shown as a tree
	Size  int        // in bytes
}

// newBodyView shows a body as it was asked for, or as its content suggests: JSON as a tree, other text raw, bytes in
// hexadecimal.
func newBodyView(body []byte, as string) bodyView {
	v := bodyView{As: as, Size: len(body)}
	v.JSON = len(body) <= maxShownBody && json.Valid(body) && utf8.Valid(body) && event.JSONDepth(body) <= web.MaxDepth
	if as != "raw" && as != "hex" {
		switch {
		case v.JSON:
			v.As = "tree"
		case utf8.Valid(body):
			v.As = "raw"
		default:
			v.As = "hex"
		}
	}
	switch v.As {
	case "tree":
		v.Lines = jsonLines(body)
	case "raw":
		v.Cut = len(body) > maxShownBody
		v.Text = string(body[:min(len(body), maxShownBody)])
	case "hex":
		v.Cut = len(body) > maxShownHex
		v.Text = hex.Dump(body[:min(len(body), maxShownHex)])
	}
	return v
}

// jsonToken matches a name or string, a number, a literal, or what stands between them.
var jsonToken = regexp.MustCompile(`("(?:\\.|[^"\\])*":?)|(-?[0-9][-+.0-9eE]*)|([a-z]+)|[^"a-z0-9-]+`)

// jsonTokens splits one line of indented JSON.
func jsonTokens(line string) (tokens []token) {
	for _, m := range jsonToken.FindAllStringSubmatch(line, -1) {
		name, isName := strings.CutSuffix(m[1], ":")
		switch {
		case isName:
			tokens = append(tokens, token{"k", name}, token{"", ":"})
		case m[1] != "":
			tokens = append(tokens, token{"s", m[1]})
		case m[2] != "":
			tokens = append(tokens, token{"d", m[2]})
		case m[3] != "":
			tokens = append(tokens, token{"l", m[3]})
		default:
			tokens = append(tokens, token{"", m[0]})
		}
	}
	return tokens
}

// maxCurlBody bounds the body of a command, in bytes.
const maxCurlBody = 16 << 10

// localCurl returns a command that sends the event as it came to a local server.
func (e *eventDetail) localCurl() string {
	return curl(e, e.Method, "http://localhost:3000/", e.HeaderLines())
}

// curl returns a command that sends the event's body with the headers to a URL; empty if the body is too large or not
// text. Headers of the connection are left out. The body is --data-raw: other options read a file if it begins with @.
func curl(e *eventDetail, method, to string, headers [][2]string) string {
	body := e.bytes()
	isText := utf8.Valid(body) && bytes.IndexByte(body, 0) < 0
	if len(body) > maxCurlBody || !isText || !e.PayloadErasedAt.IsZero() {
		return ""
	}
	var b strings.Builder
	b.WriteString("curl -X " + quoteShell(method) + " " + to)
	for _, h := range headers {
		switch strings.ToLower(h[0]) {
		case "host", "content-length", "connection", "transfer-encoding", "expect", "accept-encoding":
			continue
		}
		b.WriteString(" \\\n  -H " + quoteShell(h[0]+": "+h[1]))
	}
	if len(body) > 0 {
		b.WriteString(" \\\n  --data-raw " + quoteShell(string(body)))
	}
	return b.String()
}

// quoteShell quotes a text for a POSIX shell. Characters that a terminal acts on when the command is pasted, such as
// the end of the line or of a paste, and invisible ones become escapes in $'...': the sender has chosen the text.
// Shells without $'...' take the escapes literally, so an apostrophe is an escape too: none ends the quotes there.
func quoteShell(text string) string {
	isUnsafe := func(r rune) bool { return r != '\n' && (r == '\t' || r == utf8.RuneError || ui.IsHidden(r)) }
	if !strings.ContainsFunc(text, isUnsafe) {
		return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'"
	}
	var b strings.Builder
	b.WriteString("$'")
	for len(text) > 0 {
		r, n := utf8.DecodeRuneInString(text)
		switch {
		case r == '\'' || r == '\\' || isUnsafe(r):
			for _, c := range []byte(text[:n]) {
				fmt.Fprintf(&b, `\%03o`, c)
			}
		default:
			b.WriteString(text[:n])
		}
		text = text[n:]
	}
	return b.String() + "'"
}
