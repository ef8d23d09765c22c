package apply

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"net/url"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/eventrelay/relay/api/wire"
	"github.com/eventrelay/relay/pkg/config/seal"
	"github.com/eventrelay/relay/pkg/egress"
	"github.com/eventrelay/relay/pkg/web"
)

// What is done with an endpoint.
const (
	Create    = "create"
	Update    = "change"
	Delete    = "delete"
	Unchanged = "unchanged"
)

// Change is what the file makes of one endpoint, or of a tenant if it has no name.
type Change struct {
	Action string  `json:"action"`
	Name   string  `json:"name"`
	Tenant string  `json:"tenant,omitempty"`
	ID     string  `json:"id,omitempty"`
	Fields []Field `json:"fields"`
	Done   bool    `json:"done"`
	// Warnings are those of the service, and what an operator must know about secrets.
	Warnings []string `json:"warnings,omitempty"`

	index int            // of the endpoint in the file
	body  map[string]any // of the request
	tag   string         // ETag of the endpoint that was compared
	// hidden is whether the body has secrets, which the service compares when it gets them.
	hidden bool
	// ofNewTenant is whether a change before creates its tenant. The service cannot validate it before.
	ofNewTenant bool
}

func (x *Change) isTenant() bool { return x.Name == "" }

func (x *Change) thing() string {
	if x.isTenant() {
		return "tenant " + x.Tenant
	}
	return "endpoint " + x.Name
}

// Field is one difference. Secrets are shown as their references and as the service masks them.
type Field struct {
	Path string `json:"path"`
	Old  string `json:"old"`
	New  string `json:"new"`
}

// absent is shown for a value that is not there.
const absent = "(none)"

// create returns the change that creates an endpoint.
func create(index int, e *entry) *Change {
	x := &Change{Action: Create, Name: e.text("name"), Tenant: e.text("tenant"), index: index}
	x.compare(e, nil, "", false)
	x.body = maps.Clone(e.members)
	var list []any
	for _, d := range e.destinations {
		list = append(list, d.members)
		x.compare(d, nil, labelOf(d), false)
		if d.from("signing.secret") == "" {
			x.Warnings = append(x.Warnings, labelOf(d)+": its signing secret is generated and not shown here; give one as "+
				"signing.secret: env:NAME, or rotate it to see a new one")
		}
	}
	x.hidden, x.body["destinations"] = false, list
	return x
}

// update returns the change that makes have, an endpoint of the service, what the entry says.
func update(index int, e *entry, have map[string]any, tag string, prune bool) (*Change, error) {
	x := &Change{
		Action: Update, Name: e.text("name"), Tenant: textOf(have, "tenant"), ID: textOf(have, "id"), index: index, tag: tag}
	x.body = x.compare(e, have, "", prune)
	if e.destinations != nil {
		if err := x.destinations(e.destinations, have, prune); err != nil {
			return nil, err
		}
	}
	if len(x.Fields) == 0 {
		x.Action = Unchanged
	}
	return x, nil
}

// destinations adds the differences of the destinations, and the complete list to the body.
func (x *Change) destinations(want []*entry, have map[string]any, prune bool) error {
	matched, left, err := match(want, have)
	if err != nil {
		return err
	}
	before := len(x.Fields)
	var list []any
	for i, d := range want {
		body := x.compare(d, matched[i], labelOf(d), prune)
		if matched[i] == nil {
			body = d.members
		} else {
			body["id"] = matched[i]["id"]
		}
		list = append(list, body)
	}
	for _, other := range left {
		id := textOf(other, "id")
		if !prune {
			list = append(list, map[string]any{"id": id})
			continue
		}
		label := cmp.Or(textOf(other, "name"), origin(textOf(other, "url")))
		x.Fields = append(x.Fields, Field{"destinations[" + label + "]", id, absent})
	}
	if len(x.Fields) > before || x.hidden {
		x.body["destinations"] = list
	}
	return nil
}

// match finds the destination of the service for each of the file: by name, else by URL. It also returns those that are
// left.
func match(want []*entry, have map[string]any) (matched, left []map[string]any, err error) {
	list, _ := have["destinations"].([]any)
	for _, each := range list {
		d, _ := each.(map[string]any)
		left = append(left, d)
	}
	matched = make([]map[string]any, len(want))
	take := func(i int, same func(map[string]any) bool) {
		if j := slices.IndexFunc(left, same); j >= 0 && matched[i] == nil {
			matched[i] = left[j]
			left = slices.Delete(left, j, j+1)
		}
	}
	for i, d := range want {
		name := d.text("name")
		named := func(x map[string]any) bool { return textOf(x, "name") == name }
		if name == "" {
			continue
		}
		take(i, named)
		if j := slices.IndexFunc(left, named); j >= 0 {
			return nil, nil, fmt.Errorf("two destinations have the name %q: %s and %s; rename or remove one of them", name,
				textOf(matched[i], "id"), textOf(left[j], "id"))
		}
	}
	for i, d := range want {
		take(i, func(x map[string]any) bool { return sameURL(textOf(x, "url"), d.text("url")) })
	}
	return matched, left, nil
}

// compare adds the differences between an entry and have, what the service shows of it; nil = there is nothing yet. It
// returns the members that differ, and those with secrets: only the service can compare them.
func (x *Change) compare(e *entry, have map[string]any, label string, prune bool) (body map[string]any) {
	if label != "" {
		label += "."
	}
	members, leaves := e.members, slices.Clone(e.leaves)
	if prune {
		members, leaves = e.pruned(have)
	}
	slices.SortFunc(leaves, func(a, b *leaf) int { return cmp.Compare(a.order(), b.order()) })
	body = map[string]any{}
	for _, l := range leaves {
		shown := l.find(have)
		differs := l.removed || l.differs(shown)
		if differs {
			x.Fields = append(x.Fields, Field{label + l.path(), l.before(shown), l.after()})
		}
		if name := l.keys[0]; differs || l.from != "" && len(l.keys) > 1 {
			body[name] = members[name]
		}
		x.hidden = x.hidden || l.from != ""
	}
	return body
}

// pruned returns the members and leaves of an entry together with what it removes from have: free names, such as those
// of headers, that it does not name.
func (e *entry) pruned(have map[string]any) (members map[string]any, leaves []*leaf) {
	members, leaves = maps.Clone(e.members), slices.Clone(e.leaves)
	for name, s := range e.shape.members {
		given, isObject := e.members[name].(map[string]any)
		if s.values == nil || !isObject {
			continue
		}
		free := maps.Clone(given)
		current, _ := have[name].(map[string]any)
		for other := range current {
			if _, named := memberFold(given, other, s.values.kind); !named {
				free[other] = nil
				leaves = append(leaves, &leaf{keys: []string{name, other}, removed: true})
			}
		}
		members[name] = free
	}
	return members, leaves
}

// order sorts leaves by their names, in each object those last that are removed.
func (l *leaf) order() string {
	removed := ""
	if l.removed {
		removed = "\x01"
	}
	return l.keys[0] + "\x00" + removed + "\x00" + strings.Join(l.keys[1:], "\x00")
}

// find returns what the service shows of a value; of a secret, its last four characters.
func (l *leaf) find(have map[string]any) any {
	last := len(l.keys) - 1
	for _, name := range l.keys[:last] {
		have, _ = have[name].(map[string]any)
	}
	if l.kind == secret || l.kind == secrets {
		return have["secret_last4"]
	}
	v, _ := memberFold(have, l.keys[last], l.kind)
	return v
}

// differs compares a value of the file with what the service shows.
func (l *leaf) differs(have any) bool {
	want := l.value
	if list, _ := want.([]any); l.items != nil {
		other, _ := have.([]any)
		return !slices.EqualFunc(list, other, l.items.sameMembers)
	} else if l.kind == secrets {
		if len(list) == 0 {
			return false
		}
		want = list[0]
	} else if l.kind != secret {
		return !same(want, have, l.kind)
	}
	text, _ := want.(string)
	shown, known := have.(string)
	tail := maskOf(text)
	return !known || tail != mask+shown && !strings.HasSuffix(text, shown) || shown == "" && tail != mask
}

// sameMembers compares an object of a list with one of the service, which has the defaults too.
func (s *shape) sameMembers(want, have any) bool {
	given, _ := want.(map[string]any)
	shown, _ := have.(map[string]any)
	for name, value := range given {
		if !same(value, shown[name], s.members[name].kind) {
			return false
		}
	}
	return true
}

// before returns what the service shows for people: a URL without its path, nothing of what the file only refers to.
func (l *leaf) before(have any) string {
	text, isText := have.(string)
	switch {
	case isText && (l.kind == secret || l.kind == secrets):
		return mask + text
	case isText && l.kind == address:
		return origin(text)
	case isText && l.from != "" && !strings.HasPrefix(text, mask):
		return mask
	}
	return display(have)
}

// after returns the value of the file for people, or its reference.
func (l *leaf) after() string {
	if text, isText := l.value.(string); isText && l.from == "" && l.kind == address {
		return origin(text)
	}
	return cmp.Or(l.from, display(l.value))
}

// mask stands for the hidden part of a secret in answers of the service.
const mask = "****"

// maskOf returns the mask of a secret as the service shows it: its last four bytes if it has 12 or more.
func maskOf(text string) string {
	if len(text) < 12 {
		return mask
	}
	return mask + text[len(text)-4:]
}

// same compares a value of the file with one of the service.
func same(want, have any, k kind) bool {
	text, isText := want.(string)
	other, otherText := have.(string)
	switch {
	case k == address && isText && otherText:
		return sameURL(text, other)
	case (k == header || k == masked) && isText && otherText:
		return text == other || strings.HasPrefix(other, mask) && maskOf(text) == other
	case k == timestamp && isText && otherText:
		a, ok := web.ParseTime(text)
		b, otherOK := web.ParseTime(other)
		return ok && otherOK && a.Truncate(time.Millisecond).Equal(b.Truncate(time.Millisecond))
	}
	return reflect.DeepEqual(orNil(comparable(want, k)), orNil(comparable(have, k)))
}

// orNil returns nil for an empty list or object, which sets nothing.
func orNil(v any) any {
	list, isList := v.([]any)
	object, isObject := v.(map[string]any)
	if isList && len(list) == 0 || isObject && len(object) == 0 {
		return nil
	}
	return v
}

// comparable returns a JSON value with numbers as float64. In operations it leaves out what the service leaves out:
// members that say nothing. All other values are the user's own.
func comparable(v any, k kind) any {
	const floatDigits = 15 // more do not fit a float64
	switch v := v.(type) {
	case json.Number:
		f, err := v.Float64()
		if err != nil || len(v) > floatDigits {
			return v
		}
		return f
	case []any:
		out := make([]any, len(v))
		for i := range v {
			out[i] = comparable(v[i], k)
		}
		return out
	case map[string]any:
		out := map[string]any{}
		for name, x := range v {
			if k == operations && name == "value" {
				out[name] = comparable(x, plain)
			} else if x = comparable(x, k); k != operations || orNil(x) != nil && x != false {
				out[name] = x
			}
		}
		return out
	}
	return v
}

func sameURL(a, b string) bool { return comparableURL(a) == comparableURL(b) }

// comparableURL returns a URL as the service stores it, without a port that https:// has anyway.
func comparableURL(raw string) string {
	u, err := url.Parse(egress.StoredURL(raw))
	if err != nil {
		return raw
	}
	if u.Scheme == "https" {
		u.Host = strings.TrimSuffix(u.Host, ":443")
	}
	return u.String()
}

// origin returns scheme and host of a URL; its path may be a capability.
func origin(text string) string {
	u, err := url.Parse(text)
	if err != nil || u.Host == "" {
		return "(no URL)"
	}
	if u.Path == "" && u.RawQuery == "" {
		return u.Scheme + "://" + u.Host
	}
	return u.Scheme + "://" + u.Host + "/…"
}

func labelOf(d *entry) string {
	return "destinations[" + cmp.Or(d.text("name"), d.from("url"), origin(d.text("url"))) + "]"
}

// maxShown bounds a value that is shown, in bytes.
const maxShown = 200

func display(v any) string {
	if v == nil {
		return absent
	}
	b, err := json.Marshal(v)
	if err != nil {
		return fmt.Sprint(v)
	}
	if len(b) > maxShown {
		return strings.ToValidUTF8(string(b[:maxShown]), "") + "…"
	}
	return string(b)
}

func textOf(object map[string]any, member string) string {
	s, _ := object[member].(string)
	return s
}

// memberFold returns a member. Names of headers may differ in upper and lower case.
func memberFold(object map[string]any, name string, k kind) (v any, found bool) {
	if v, found = object[name]; found || k != header {
		return v, found
	}
	for other, v := range object {
		if strings.EqualFold(other, name) {
			return v, true
		}
	}
	return nil, false
}

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
		s.kind = max(s.kind, secret) // or it is masked
	case "secrets":
		s.kind = secrets
	}
	return s
}

// endpointShape has every member of an endpoint that can be set. TestFileKnowsEveryMember compares it with the OpenAPI
// document.
func endpointShape() *shape { return shapeOf(reflect.TypeFor[wire.Endpoint]()) }
