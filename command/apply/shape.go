package apply

import (
	"reflect"
	"strings"

	"github.com/eventrelay/relay/api/wire"
	"github.com/eventrelay/relay/pkg/config/seal"
	"github.com/eventrelay/relay/pkg/web"
)

// shape says which members a value of the file may have, and how it is compared with what the service shows.
type shape struct {
	members map[string]*shape // of an object with fixed members
	values  *shape            // of an object with free names, such as headers
	items   *shape            // of a list whose elements are objects
	kind    kind
	// nullable says that null is a value: it removes what is there. Other members always have a value in the service.
	nullable bool
}

type kind int

const (
	plain      kind = iota // any JSON, compared as a whole
	secret                 // a reference to a secret; the service shows its last four characters at most
	secrets                // a list of references to secrets
	masked                 // a reference to a secret; the service shows its mask
	address                // a URL or a reference to one
	header                 // the value of a header, or a reference to one
	timestamp              // compared as a time
	operations             // a list, or an object with the list as its member ops
)

// shapeOf returns the shape of a type of the API: the members that requests may set.
func shapeOf(t reflect.Type) *shape {
	s := &shape{nullable: t.Kind() == reflect.Pointer}
	if s.nullable {
		t = t.Elem()
	}
	switch {
	case t == reflect.TypeFor[web.Time]():
		s.kind = timestamp
	case t == reflect.TypeFor[seal.Secret]():
		s.kind = masked
	case t == reflect.TypeFor[wire.Transformation]():
		s.kind = operations
	case t == reflect.TypeFor[map[string]string]():
		s.values = &shape{nullable: true}
	case t.Kind() == reflect.Slice && t.Elem().Kind() == reflect.Struct:
		s.items = shapeOf(t.Elem())
	case t.Kind() == reflect.Struct:
		s.members = map[string]*shape{}
		for _, f := range wire.Members(t) {
			if name, _, _ := strings.Cut(f.Tag.Get("json"), ","); wire.Has(f, "") {
				s.members[name] = shapeOfMember(name, f)
			}
		}
	}
	return s
}

func shapeOfMember(name string, f reflect.StructField) *shape {
	s := shapeOf(f.Type)
	s.nullable = s.nullable || f.Tag.Get("nullable") == "true"
	switch name {
	case "url":
		s.kind = address
	case "headers":
		s.values.kind = header
	case "secret":
		s.kind = secret
	case "secrets":
		s.kind = secrets
	}
	return s
}

// endpointShape has every member of an endpoint that can be set. TestFileKnowsEveryMember compares it with the OpenAPI
// document.
func endpointShape() *shape { return shapeOf(reflect.TypeFor[wire.Endpoint]()) }
