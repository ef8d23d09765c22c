package config

import (
	"fmt"
	"strings"
	"testing"

	"github.com/eventrelay/relay/pkg/config/entity"
	"github.com/eventrelay/relay/test/is"
)

// Compiled schemas of types that were deleted or changed, or that there is no room for, take no memory.
func TestSchemasAreKeptCompiledForTypesThatExist(t *testing.T) {
	n := node(t, broker(t), Config{Node: "a"})
	ctx, account := t.Context(), n.Account().ID
	put := func(name, schema string) {
		t.Helper()
		_, _, err := n.PutEventType(ctx, account, name, func(x *EventType) error {
			x.SetSchema([]byte(schema), nil, n.Clock())
			return nil
		})
		noError(t, err)
	}
	mismatch := func(name, body string, want bool) {
		t.Helper()
		got := n.Mismatch(&Endpoint{Account: account}, name, []byte(body), new(int))
		is.Equal(t, got != nil, want, "%s: %s mismatches", name, body)
	}
	put("a.one", `{"type":"string"}`)
	mismatch("a.one", `1`, true)
	put("a.two", `{"type":"string"}`)
	mismatch("a.two", `1`, true)
	is.Equal(t, len(n.compiled.of), 2)
	put("a.one", `{"type":"number"}`)
	noError(t, entity.Delete[EventType](ctx, n, EventTypeID(account, "a.two")))
	mismatch("a.one", `1`, false)
	is.Equal(t, len(n.compiled.of), 1)

	put("a.large", `{"pattern":"a{1000}","items":[`+strings.Repeat(`{"pattern":"a{1000}"},`, 60)+`{}]}`)
	mismatch("a.large", `1`, false) // an earlier version of the relay has saved it
	large := `{"pattern":"^` + strings.Repeat("[a-z]{1000}", 49) + `"}`
	for i := range 2 * maxCompiledBytes / (49_000 * 50) {
		name := fmt.Sprint("a.type", i)
		put(name, large)
		mismatch(name, `"x"`, true)
	}
	size := 0
	for _, have := range n.compiled.of {
		size += have.size()
	}
	is.Equal(t, size > maxCompiledBytes/2 && size <= maxCompiledBytes, true, "bytes of compiled schemas: %d", size)
}
