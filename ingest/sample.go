package ingest

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"slices"

	"github.com/eventrelay/relay/pkg/config"
	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/id"
	"github.com/eventrelay/relay/pkg/verify"
)

// ErrUnknownProvider is returned for a provider that has no sample.
var ErrUnknownProvider = errors.New("unknown provider")

// Sample builds a test event as the provider would send it to the endpoint. kind is the event type; empty for the
// default type of the provider's sample. eventID is the event's id, whose time becomes the time of the sample. The
// event is signed with the endpoint's secret if the endpoint verifies that provider, otherwise it is unsigned. Sample
// does not store it.
func (g *Ingest) Sample(ep *config.Endpoint, provider, kind string, eventID id.ID) (*event.Event, error) {
	scheme := verify.ByName(provider)
	if scheme.Name != provider {
		return nil, fmt.Errorf("%w %q", ErrUnknownProvider, provider)
	}
	p, err := g.preparer.get(ep)
	if err != nil {
		return nil, err
	}
	s := &scheme.Sample
	x := verify.SampleValues{Type: cmp.Or(kind, s.Type), ID: eventID.String(), At: eventID.Time()}
	header := http.Header{"Content-Type": {s.ContentType}, "User-Agent": {s.UserAgent}, "Accept": {"*/*"}}
	for name, value := range s.Header {
		header.Set(name, x.Fill(value))
	}
	e := &event.Event{
		ID: eventID, Account: ep.Account, Endpoint: ep.ID, Source: event.SourceTest, Verdict: event.VerdictUnverified,
		Method: http.MethodPost,
		Dests:  p.dests, Body: []byte(x.Fill(string(s.Body))),
	}
	if len(e.Dests) == 0 {
		e.Reason = event.NoDestination
	}
	if p.verify != nil && p.verify.Type == provider && p.verify.CanSign() {
		if err := g.signSample(ep, p, scheme.IDHeader(), e, header); err != nil {
			return nil, err
		}
		e.Verdict = event.VerdictVerified
	}
	e.Type = cmp.Or(kind, p.types.Of(header, e.Body), s.Type)
	for name, values := range header {
		e.Header = append(e.Header, event.Field{Name: name, Value: values[0]})
	}
	p.maskSecret(e)
	slices.SortFunc(e.Header, func(a, b event.Field) int { return cmp.Compare(a.Name, b.Name) })
	return e, nil
}

// signSample adds the provider's signature to the headers of a sample.
func (g *Ingest) signSample(
	ep *config.Endpoint, p *prepared, idHeader string, e *event.Event, header http.Header) error {
	if idHeader != "" {
		header.Set(idHeader, "msg_"+e.ID.String())
	}
	address, err := g.signedURL(ep.ID, ep.Token, "")
	if err != nil {
		return err
	}
	return verify.Sign(*p.verify,
		verify.Request{Method: e.Method, URL: address, Header: header, Body: e.Body, Now: e.ReceivedAt()})
}
