package events

import (
	"bytes"
	"context"
	"net/http"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/eventrelay/relay/api/frame"
	"github.com/eventrelay/relay/api/wire"
	"github.com/eventrelay/relay/pkg/config"
	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/id"
	"github.com/eventrelay/relay/pkg/verify"
	"github.com/eventrelay/relay/pkg/web"
)

// maxExplanations is how many signatures a node explains at the same time. One takes milliseconds for a common body and
// up to a second of a processor for 10 MiB. A further one waits for explanationWait.
const maxExplanations, explanationWait = 2, 2 * time.Second

// signatures explains the signatures of received events.
type signatures struct {
	*events
	turns frame.Turns
}

// explainSignature shows how the signature of an event compares with the endpoint's current verification, and what is
// probably wrong. It contains no secret and at most eight characters of an expected signature.
func (a *signatures) explainSignature(w http.ResponseWriter, r *http.Request, key *config.Key) error {
	d, err := a.detail(r, key)
	if err != nil {
		return err
	}
	ep, err := a.verifiedEndpoint(d.Event)
	if err != nil {
		return err
	}
	out, err := a.explainSoon(r.Context(), ep, d.Event)
	if err != nil {
		return err
	}
	frame.SetAsOf(w, d.AsOf)
	return a.answers.write(r.Context(), w, explanationBytes(d.Event, out), func() any {
		return explanationViewOf(a.ViewerOf(key), ep, d.Event, out)
	})
}

// explainSoon explains a signature when fewer than maxExplanations are being explained.
func (a *signatures) explainSoon(ctx context.Context, ep *config.Endpoint, e *event.Event) (
	*verify.Explanation, error) {
	end, ok := a.turns.Take(ctx)
	if !ok {
		return nil, web.ServiceUnavailable(nil, "this node is explaining other signatures; try again")
	}
	defer end()
	out, err := a.Explain(ep, e)
	if err == nil && out == nil {
		err = errNoVerification()
	}
	return out, err
}

// verifiedEndpoint returns the endpoint of an event whose signature can be explained, or the 400.
func (a *signatures) verifiedEndpoint(e *event.Event) (*config.Endpoint, error) {
	if e.Source != event.SourceProvider {
		return nil, web.WrongState("", "the event was sent through the API and carries no signature of a provider; read the "+
			"signature of an event that came to the ingest URL")
	}
	if !a.Erasures.ErasedAt(e.ID).IsZero() {
		return nil, web.WrongState("", "the payload of the event was erased, and its signature with it; let the provider "+
			"send the event again")
	}
	ep := a.PresentEndpoint(e.Endpoint, e.Account)
	switch {
	case ep == nil:
		return nil, web.WrongState("", "the endpoint of the event was deleted, and its secrets with it; let the provider "+
			"send the event to another endpoint")
	case ep.Verification == nil:
		return nil, errNoVerification()
	}
	return ep, nil
}

func errNoVerification() error {
	return web.WrongState("", "the endpoint verifies no signatures; set its verification with the provider's secret")
}

func explanationViewOf(by frame.Viewer, ep *config.Endpoint, e *event.Event,
	out *verify.Explanation) wire.SignatureExplanation {
	v := wire.SignatureExplanation{
		Object: "signature", EventID: e.ID.Text(id.Event), Scheme: out.Scheme, Verdict: event.VerdictVerified,
		Reason: frame.OrNull(event.Reason(out.Reason)), Headers: make([]wire.Header, len(out.Headers)),
		ReceivedPrefix: frame.OrNull(out.ReceivedPrefix), Secrets: make([]wire.SecretResult, len(out.Secrets)),
		Findings: []wire.SignatureFinding{},
	}
	switch {
	case out.Reason != "" && ep.Verification.Mode == "observe":
		v.Verdict = event.VerdictObserved
	case out.Reason != "":
		v.Verdict = event.VerdictRejected
	}
	for i, name := range out.Headers {
		v.Headers[i] = wire.Header{Name: name, Values: []string{}}
		for _, f := range e.Header {
			if f.Name == name {
				value := f.Value
				if out.SecretSent && i == 0 {
					value = frame.Mask
				}
				v.Headers[i].Values = append(v.Headers[i].Values, value)
			}
		}
	}
	for i, s := range out.Secrets {
		v.Secrets[i] = wire.SecretResult{Last4: frame.OrNull(s.Last4), ExpectedPrefix: frame.OrNull(s.ExpectedPrefix),
			Matches: s.Matches}
	}
	for _, f := range out.Findings {
		v.Findings = append(v.Findings, wire.SignatureFinding(f))
	}
	if e.Verdict == event.VerdictRejected && (out.Reason == "" || out.Reason == verify.TimestampOutsideTolerance) {
		v.Findings = append(v.Findings, wire.SignatureFinding{Code: "valid_for_replay",
			Message: "The endpoint's current secret made the signature: replay the event to deliver it; " +
				"a replay ignores the age."})
	}
	addContent(&v, by, out)
	addTime(&v, ep, e, out)
	return v
}

// addContent sets the signed text and the URL. The token in the URL is masked for readers.
func addContent(v *wire.SignatureExplanation, by frame.Viewer, out *verify.Explanation) {
	v.SignedContentEncoding = "utf8"
	content, url := out.Content, out.URL
	if v.SignedContentTruncated = len(content) < out.ContentSize; v.SignedContentTruncated {
		content = wholeRunes(content)
	}
	if token := frame.URLToken(url); token != "" && !by.Capabilities {
		masked := frame.MaskText(token)
		url = strings.ReplaceAll(url, token, masked)
		content = bytes.ReplaceAll(content, []byte(token), []byte(masked))
		v.SignedContentMasked = true
	}
	if masked := by.MaskTokens(content); !bytes.Equal(masked, content) { // in what the provider sent
		content, v.SignedContentMasked = masked, true
	}
	v.URL = frame.OrNull(url)
	if out.Content == nil {
		return
	}
	text, encoding := frame.BodyText(content)
	v.SignedContent, v.SignedContentEncoding, v.SignedSizeBytes = &text, encoding, &out.ContentSize
}

// addTime sets the signed time and how old it was when the request came.
func addTime(v *wire.SignatureExplanation, ep *config.Endpoint, e *event.Event, out *verify.Explanation) {
	if !out.TimeSigned {
		return
	}
	v.Timestamp, v.ToleranceSeconds = frame.OrNull(out.Timestamp), &ep.Verification.ToleranceSeconds
	if !out.SignedAt.IsZero() {
		age := int64(e.ReceivedAt().Sub(out.SignedAt) / time.Second)
		v.SignedAt, v.AgeSeconds = web.Time(out.SignedAt), &age
	}
}

// wholeRunes returns text without the part of a character at its end, if it is UTF-8 otherwise.
func wholeRunes(text []byte) []byte {
	for n := range utf8.UTFMax {
		if n < len(text) && utf8.Valid(text[:len(text)-n]) {
			return text[:len(text)-n]
		}
	}
	return text
}

// explanationFrame bounds the JSON of an explanation without the texts that senders chose.
const explanationFrame = 16 << 10

// explanationBytes is an upper bound of an explanation as JSON.
func explanationBytes(e *event.Event, out *verify.Explanation) int {
	n := len(out.Content) + len(out.URL) + len(out.Timestamp)
	for _, f := range e.Header {
		n += len(f.Value)
	}
	return escapedByte*n + explanationFrame
}
