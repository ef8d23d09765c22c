package dispatcher

import (
	"fmt"
	"slices"
	"testing"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"github.com/eventrelay/relay/pkg/config"
	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/id"
	"github.com/eventrelay/relay/test/is"
	"github.com/eventrelay/relay/test/must"
)

// Each destination gets the event in its format, signed as it is sent. An earlier version has stored no format: its
// deliveries stay as they were.
func TestFormatsOfDestinations(t *testing.T) {
	bubble(t, 1, func(t *testing.T, w *bubbleWorld) {
		formats := []string{"", config.FormatStandard, config.FormatRaw, config.FormatCloudEvents,
			config.FormatCloudEventsBinary}
		var urls, dests []string
		got := map[string]*sink{}
		for i, format := range formats {
			s := &sink{}
			url, _ := w.serve(80+i, s)
			got[format] = s
			urls, dests = append(urls, url), append(dests, fmt.Sprintf("dst_%d", i+1))
		}
		w.endpoint(urls...)
		w.view.change(testEndpoint, func(e *config.Endpoint) {
			e.Destinations = slices.Clone(e.Destinations)
			for i, format := range formats {
				e.Destinations[i].Format = format
			}
		})
		w.start(testConfig())
		const data = `{ "n": 1.50, "a": "é" }`
		ev := w.newEvent("", dests...)
		ev.Source, ev.Type = event.SourceAPI, "order.paid é"
		eventID, at := ev.ID.Text(id.Event), ev.ReceivedAt().UTC().Format("2006-01-02T15:04:05.000Z")
		envelope := `{"id":"` + eventID + `","type":"order.paid","timestamp":"` + at + `","data":` + data + `}`
		ev.Body = []byte(envelope)
		ev.Header = append(ev.Header, event.Field{Name: "Ce-Subject", Value: "another"})
		w.accept(ev)
		w.outcomes(count(len(formats), event.Delivered))
		const json, subject = "application/json", "another"
		for format, want := range map[string]struct{ body, mediaType, subject, kind string }{
			"":                    {envelope, json, subject, ""},
			config.FormatStandard: {envelope, json, subject, ""},
			config.FormatRaw:      {data, json, "", ""},
			config.FormatCloudEvents: {`{"specversion":"1.0","id":"` + eventID + `","source":"/v1/endpoints/` + testEndpoint +
				`","type":"order.paid é","time":"` + at + `","datacontenttype":"application/json","data":{"n":1.50,"a":"é"}}`,
				"application/cloudevents+json", "", ""},
			config.FormatCloudEventsBinary: {data, json, "", "order.paid%20%C3%A9"},
		} {
			r := got[format].all()[0]
			if string(r.body) != want.body || r.header.Get("Content-Type") != want.mediaType ||
				r.header.Get("Ce-Subject") != want.subject || r.header.Get("Ce-Type") != want.kind {
				t.Errorf("%q: %s %v, want %v", format, r.body, r.header, want)
			}
			is.OK(t, must.Get(standardwebhooks.NewWebhook(w.secret.Reveal()))(t).VerifyIgnoringTimestamp(r.body, r.header),
				"signature with the format %q", format)
		}
	})
}
