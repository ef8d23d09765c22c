package destination

import (
	"bytes"
	"cmp"
	"encoding/json"
	"net/url"
	"regexp"

	"github.com/eventrelay/relay/pkg/config"
	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/id"
	"github.com/eventrelay/relay/pkg/web"
)

// Media types of CloudEvents 1.0 in JSON.
const (
	contentType     = "Content-Type"
	cloudEventType  = "application/cloudevents+json"
	cloudEventsType = "application/cloudevents-batch+json"
)

// prefixCloudEvents begins the headers of the attributes of an event in binary mode. Received ones would be attributes
// of another event.
const prefixCloudEvents = "Ce-"

// InFormat returns the message with the body and headers of the destination's format.
func (o *Opened) InFormat(m Message) Message {
	if o.Format == "" || o.Format == config.FormatStandard {
		return m
	}
	m.Content.Format = o.Format
	ev := m.Work.Event
	if ev.Source == event.SourceAPI {
		m.Content.Body = dataOf(m.Content.Body)
	}
	if o.Format == config.FormatRaw {
		return m
	}
	x := cloudEvent{SpecVersion: "1.0", ID: ev.ID.Text(id.Event), Source: "/v1/endpoints/" + ev.Endpoint,
		Type: cmp.Or(ev.Type, "event"), Time: web.Time(ev.ReceivedAt()), DataType: ev.HeaderValue(contentType)}
	if o.Format == config.FormatCloudEventsBinary {
		for name, value := range map[string]string{"Specversion": x.SpecVersion, "Id": x.ID, "Source": x.Source,
			"Type": notInHeader.ReplaceAllStringFunc(x.Type, url.PathEscape), "Time": x.Time.String()} {
			m.Content.Header = append(m.Content.Header, event.Field{Name: prefixCloudEvents + name, Value: value})
		}
		return m
	}
	x.Encoding = ev.HeaderValue("Content-Encoding")
	switch body := m.Content.Body; {
	case len(body) == 0:
	case jsonType.MatchString(x.DataType) && web.IsPortable(body):
		x.Data = body
	default:
		x.DataBase64 = body
	}
	m.Content.Body = bytes.TrimSpace(web.Encode(x))
	m.Content.Header = append(m.Content.Header, event.Field{Name: contentType, Value: cloudEventType})
	return m
}

// cloudEvent is an event in the JSON format of CloudEvents 1.0. Its source is the path of the endpoint in the API: it
// stays when the relay moves to another host, and receivers recognise repeats by source and id. An event without a type
// has one here, which CloudEvents requires.
type cloudEvent struct {
	SpecVersion string          `json:"specversion"`
	ID          string          `json:"id"`
	Source      string          `json:"source"`
	Type        string          `json:"type"`
	Time        web.Time        `json:"time"`
	DataType    string          `json:"datacontenttype,omitempty"`
	Encoding    string          `json:"contentencoding,omitempty"` // an extension
	Data        json.RawMessage `json:"data,omitempty"`
	DataBase64  []byte          `json:"data_base64,omitempty"`
}

// dataOf returns the data of an envelope, or the whole body if a transformation has left none.
func dataOf(body []byte) []byte {
	members, _ := web.ParseEnvelope(body)
	for _, m := range members {
		if m.Name == "data" {
			return m.Value
		}
	}
	return body
}

// jsonType matches a media type of JSON, or none.
var jsonType = regexp.MustCompile(`(?i)^\s*(application/json|[^;]*\+json)?\s*(;|$)`)

// notInHeader matches what is percent-encoded in the header of an attribute (HTTP protocol binding, 3.1.3.2).
var notInHeader = regexp.MustCompile(`[^!#$&-~]`)

// isMade reports whether the body is not the stored one, so that headers which describe that one are not sent. The data
// of an event that was sent through the API is as its headers say.
func (c Content) isMade() bool { return c.Changed || c.Format == config.FormatCloudEvents }
