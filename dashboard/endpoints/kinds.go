package endpoints

import (
	"cmp"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/eventrelay/relay/api/wire"
	"github.com/eventrelay/relay/dashboard/ui"
	"github.com/eventrelay/relay/pkg/config/kinds"
)

// settingGroup is the fields of one member of kinds.Settings.
type settingGroup struct {
	Name, Title, Hint string
	Fields            []settingField
	Form              *ui.Form
	Open              bool
}

// settingField is the field of a setting of a kind, made from its tags.
type settingField struct {
	Name, Label, Hint string
	Example           string
	Words             []string // of a select
	Check, Area       bool
	Number, Required  bool
	Optional          bool // a select may have no word
	kind              ui.FieldKind
}

// settingGroups are those of all kinds.
var settingGroups = func() (all []settingGroup) {
	for _, f := range wire.Members(reflect.TypeFor[kinds.Settings]()) {
		if wire.Has(f, "") {
			all = append(all, newSettingGroup("", f))
		}
	}
	return all
}()

// schemeGroups are those of the signature schemes.
var schemeGroups = func() (all []settingGroup) {
	list := reflect.TypeFor[kinds.Signing]().Field(0)
	most, _ := strconv.Atoi(list.Tag.Get("maxItems"))
	for i := range most {
		g := newSettingGroup("signing.", list)
		name := fmt.Sprintf("%s[%d]", g.Name, i)
		for j, f := range g.Fields {
			g.Fields[j].Name = name + strings.TrimPrefix(f.Name, g.Name)
		}
		g.Name, g.Title = name, fmt.Sprintf("%s %d", g.Title, i+1)
		all = append(all, g)
	}
	return all
}()

// setSchemes sets the list of schemes if a field of one has changed. One without any value is left out.
func setSchemes(x *ui.Edit) {
	changed, all := false, []any{}
	for _, g := range schemeGroups {
		scheme := map[string]any{}
		for _, f := range g.Fields {
			changed = changed || x.Changed(f.Name)
			if text := strings.TrimSpace(x.Value(f.Name)); text != "" {
				scheme[f.Name[len(g.Name)+1:]] = text
			}
		}
		if len(scheme) > 0 {
			all = append(all, scheme)
		}
	}
	if changed {
		x.Put("signing.schemes", all)
	}
}

// sourceGroup is that of the source of an endpoint.
var sourceGroup = newSettingGroup("source.", wire.Members(reflect.TypeFor[kinds.Source]())[0])

func newSettingGroup(prefix string, f reflect.StructField) settingGroup {
	g := settingGroup{Name: prefix + nameOf(f), Title: f.Tag.Get("label"), Hint: hintOf(f.Tag.Get("description"))}
	for _, inner := range wire.Members(f.Type.Elem()) {
		g.Fields = append(g.Fields, newSettingField(g.Name, inner))
	}
	return g
}

// groupOf returns the group of the members of a struct that have a label. member is where the API has the struct.
func groupOf[T any](member string) (g settingGroup) {
	for _, f := range wire.Members(reflect.TypeFor[T]()) {
		if f.Tag.Get("label") != "" {
			g.Fields = append(g.Fields, newSettingField(member, f))
		}
	}
	return g
}

// numbers returns the group of the numbers in it, or of the others, with the fields of a form.
func (g settingGroup) numbers(are bool, f *ui.Form) settingGroup {
	g.Form, g.Fields = f, slices.DeleteFunc(slices.Clone(g.Fields), func(x settingField) bool { return x.Number != are })
	return g
}

// in returns the group with the fields of a form. It is open if a field has a value; a select always has one.
func (g settingGroup) in(f *ui.Form, open bool) settingGroup {
	g.Form = f
	g.Open = open || slices.ContainsFunc(g.Fields, func(x settingField) bool {
		return (x.Words == nil || x.Optional) && f.Value(x.Name) != ""
	})
	return g
}

// reconcileGroup is that of what is fetched from the provider.
var reconcileGroup = newSettingGroup("", reflect.StructField{Name: "Reconcile",
	Type: reflect.TypeFor[*kinds.Reconcile](), Tag: `json:"reconcile" label:"What the provider could not deliver" description:"Asks the API of Stripe or GitHub for events that failed while the relay could not be reached. Leave the credential empty to ask nobody."`})

// hintOf is what a description says to people who fill in a form.
func hintOf(description string) string {
	hint, _, _ := strings.Cut(description, " Merged member by member")
	return strings.Replace(hint, "Masked in responses; its mask means unchanged.", "Left as it is shown, it stays.", 1)
}

// SourceGroups are the groups of fields of how the endpoint gets events beside its ingest URL.
func (p *endpointPage) SourceGroups() []settingGroup {
	groups := []settingGroup{sourceGroup.in(p.Form, false)}
	if kinds.Horizon(p.Provider) > 0 {
		groups = append(groups, reconcileGroup.in(p.Form, false))
	}
	return groups
}

// setSource sets the source, which ends when its topic and brokers are empty, and the same of the provider's API.
func setSource(x *ui.Edit) {
	switch {
	case x.Value("source.kafka.topic") != "" || x.Value("source.kafka.brokers") != "":
		x.Set(sourceGroup.table())
	case x.Stored.Get("source.kafka.topic") != "":
		x.Body["source"] = nil
	}
	switch {
	case x.Value("reconcile.credential") != "":
		x.Set(reconcileGroup.table())
	case x.Stored.Get("reconcile.credential") != "":
		x.Body["reconcile"] = nil
	}
}

// Kind is the kind of the destination that the page shows or adds, empty for a webhook.
func (p *destinationPage) Kind() string {
	if p.Destination != nil {
		kind, _ := p.Destination.Kind()
		return kind
	}
	if kind := p.Form.Value("kind"); slices.Contains(kinds.Names(), kind) {
		return kind
	}
	return ""
}

// Groups are the groups of fields of the destination: first that of its kind.
func (p *destinationPage) Groups() (all []settingGroup) {
	kind := p.Kind()
	for _, g := range settingGroups {
		switch {
		case g.Name == kind:
			all = slices.Insert(all, 0, g.in(p.Form, true))
		case g.Name == "ordering", kind == "" && !slices.Contains(kinds.Names(), g.Name):
			all = append(all, g.in(p.Form, false))
		}
	}
	for _, g := range schemeGroups {
		all = append(all, g.in(p.Form, false))
	}
	return all
}

// OtherKinds are the kinds that a new destination may have instead of a URL.
func (p *destinationPage) OtherKinds() (all []settingGroup) {
	for _, g := range settingGroups {
		if slices.Contains(kinds.Names(), g.Name) {
			all = append(all, g)
		}
	}
	return all
}

func nameOf(f reflect.StructField) string {
	name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
	return name
}

func newSettingField(group string, f reflect.StructField) settingField {
	x := settingField{Name: strings.TrimPrefix(group+"."+nameOf(f), "."), Label: f.Tag.Get("label"),
		Hint:    cmp.Or(f.Tag.Get("hint"), hintOf(f.Tag.Get("description"))),
		Example: strings.Trim(f.Tag.Get("example"), `[]"`), kind: ui.OptionalText,
		Optional: strings.HasSuffix(f.Tag.Get("json"), ",omitempty") ||
			group != "" && !slices.Contains(kinds.Names(), group)} // of a group that may have no value at all
	if strings.HasPrefix(x.Example, "*") { // the mask of a secret
		x.Example = ""
	}
	long := len(f.Tag.Get("maxLength")) > len("4096") // a certificate
	switch {
	case f.Tag.Get("enum") != "":
		x.Words = wire.WordsOf(f.Tag.Get("enum"))
	case f.Type.Kind() == reflect.Bool:
		x.Check, x.kind = true, ui.Checkbox
	case f.Type.Kind() == reflect.Int || f.Type.Kind() == reflect.Float64:
		x.Number, x.Required, x.kind = true, group == "", ui.NumberField
	case f.Tag.Get("entry") == "words":
		x.kind = ui.WordField
	case f.Type.Kind() == reflect.Slice:
		x.Area, x.kind = true, ui.LineField
	default:
		x.Area = long
	}
	return x
}

// Options are the words of a select.
func (x settingField) Options() []ui.Option { return ui.PlainOptions(x.Words...) }

// table returns the fields of a group.
func (g settingGroup) table() (t ui.FieldTable) {
	for _, f := range g.Fields {
		t = append(t, struct {
			ui.FieldKind
			Names string
		}{f.kind, f.Name})
	}
	return t
}

// setSettings sets the settings of the kinds whose fields have changed. A group whose fields are all empty ends.
func setSettings(x *ui.Edit) {
	for _, g := range settingGroups {
		entered, stored := false, false
		for _, f := range g.Fields {
			entered = entered || strings.TrimSpace(x.Value(f.Name)) != ""
			stored = stored || x.Stored.Get(f.Name) != ""
		}
		chosen := x.Value("kind") == g.Name // a kind may need no setting
		if chosen && !stored {
			x.Body[g.Name] = map[string]any{}
		}
		without := !entered && !chosen || g.Name == "auth" && x.Value("auth.type") == "" ||
			g.Name == "ordering" && x.Value("ordering.by") == "" // the select beside it always has a value
		if without {
			if stored {
				x.Body[g.Name] = nil
			}
			continue
		}
		for name, value := range g.table().Changes(x.F, x.Stored) {
			x.Body[name] = value
		}
	}
}
