package expr

import (
	"net/url"
	"strings"

	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
	"cel.dev/cel-go/interpreter"

	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/id"
)

// Input is an event as expressions see it. What one of them reads, the next ones find read. One goroutine uses it at a
// time.
type Input struct {
	ev     *event.Event
	tenant string
	spent  int // bytes that this evaluation has read; a comparison counts as some

	body, headers, query, about ref.Val // nil until an expression asks
}

// NewInput returns an event of a tenant, "" of the account itself.
func NewInput(ev *event.Event, tenant string) *Input { return &Input{ev: ev, tenant: tenant} }

// spend counts what an evaluation reads, and reports whether it may go on. What it has read beyond that is wrong, and
// evaluate returns an error.
func (in *Input) spend(n int) bool {
	in.spent += n
	return in.spent <= maxScan
}

// Parent is part of interpreter.Activation.
func (in *Input) Parent() interpreter.Activation { return nil }

// ResolveName returns a variable.
func (in *Input) ResolveName(name string) (any, bool) {
	switch name {
	case inputName:
		return in, true
	case "body":
		return once(&in.body, in.readBody), true
	case "headers":
		return once(&in.headers, in.readHeaders), true
	case "query":
		return once(&in.query, in.readQuery), true
	case "event":
		return once(&in.about, in.readAbout), true
	case "type":
		return types.String(in.ev.Type), true
	}
	return nil, false
}

func once(v *ref.Val, read func() ref.Val) ref.Val {
	if *v == nil {
		*v = read()
	}
	return *v
}

func (in *Input) readBody() ref.Val {
	doc, ok := event.ParseJSON(in.ev.Body)
	if !ok {
		return types.NullValue
	}
	return valueOf(in, doc.Root())
}

func (in *Input) readHeaders() ref.Val {
	all := make(map[string]string, len(in.ev.Header))
	for _, f := range in.ev.Header {
		name := strings.ToLower(f.Name)
		if before, ok := all[name]; ok {
			all[name] = before + ", " + f.Value
		} else {
			all[name] = f.Value
		}
	}
	return types.NewStringStringMap(types.DefaultTypeAdapter, all)
}

func (in *Input) readQuery() ref.Val {
	values, _ := url.ParseQuery(in.ev.Query) // what can be read of a malformed one counts
	all := make(map[string]string, len(values))
	for name := range values {
		all[name] = values.Get(name)
	}
	return types.NewStringStringMap(types.DefaultTypeAdapter, all)
}

func (in *Input) readAbout() ref.Val {
	return types.NewStringInterfaceMap(types.DefaultTypeAdapter, map[string]any{
		"id": in.ev.ID.Text(id.Event), "source": string(in.ev.Source), "received_at": in.ev.ReceivedAt(),
		"tenant": in.tenant, "verified": in.ev.Authenticated(),
	})
}
