package routes

import (
	"testing"
	"time"

	"github.com/eventrelay/relay/api/frame"
	"github.com/eventrelay/relay/pkg/config"
	"github.com/eventrelay/relay/test/is"
	"github.com/eventrelay/relay/test/must"
)

// What is read from any document is read again from the document that is made of it.
func FuzzReadDocument(f *testing.F) {
	f.Add(`{"openapi":"3.1.0","webhooks":{"a.b":{"post":{"summary":"s","tags":["g"],"requestBody":{"content":{` +
		`"application/json":{"schema":{"$ref":"#/components/schemas/x"},"example":{"a":1}}}}}}},` +
		`"components":{"schemas":{"x":{"properties":{"a":{"$ref":"#/components/schemas/x"}}}}}}`)
	f.Add(`{"openapi":"3.1.1","webhooks":{"a":{"$ref":"#/webhooks/a"}}}`)
	area := Catalogue{Core: &frame.Core{Clock: time.Now}}
	x := &config.EventType{Name: "order.paid", Group: "orders", Deprecated: true}
	x.SetSchema([]byte(`{"type":"object"}`), []byte(`{"id":1}`), time.Now())
	x.SetSchema([]byte(`{"$ref":"#/$defs/o","$defs":{"o":{"type":"object"}}}`), nil, time.Now())
	f.Add(string(must.Get(documentOf([]*config.EventType{x}, "title", false))(f)))
	f.Fuzz(func(t *testing.T, body string) {
		all, err := readDocument([]byte(body))
		if err != nil {
			return
		}
		types := make([]*config.EventType, len(all))
		for i := range all {
			types[i] = &config.EventType{Name: all[i].of.Name}
			area.take(&all[i], types[i])
		}
		again := must.Get(readDocument(must.Get(documentOf(types, "title", false))(t)))(t)
		is.Equal(t, len(again), len(all), "types")
		for i := range again {
			is.Equal(t, again[i].of.Name, all[i].of.Name, "name")
			is.Equal(t, len(again[i].versions), len(types[i].Versions), "versions of "+again[i].of.Name)
		}
	})
}
