package transform

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/eventrelay/relay/test/must"
)

// document returns an order with n items, about 200 bytes each.
func document(n int) string {
	var b strings.Builder
	b.WriteString(`{"id":"evt_1","type":"order.paid","data":{"customer":{"id":7,"email":"a@example.com"},"items":[`)
	for i := range n {
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, `{"id":%d,"sku":"SKU-%06d","name":"A thing with a name","price":%d.50,"tags":["a","b","c"],`+
			`"internal":{"cost":12.25,"supplier":"Somebody & Sons","notes":"none so far"},"quantity":3}`, i, i, i)
	}
	b.WriteString(`]}}`)
	return b.String()
}

const fiveOps = `[{"op":"rename","from":"/data/customer/id","to":"/data/customer_id"},
	{"op":"drop","paths":["/data/items/*/internal","/data/customer/email"]},
	{"op":"add","path":"/meta/event_id","from":"event.id"},
	{"op":"pick","paths":["/type","/meta","/data/customer_id","/data/items/*/sku","/data/items/*/price"]},
	{"op":"wrap","key":"payload"}]`

// BenchmarkTransform compares five operations with decoding and encoding the same document.
func BenchmarkTransform(b *testing.B) {
	for _, n := range []int{5, 50, 5000} {
		body := document(n)
		b.Run(fmt.Sprintf("plain/%d", len(body)), func(b *testing.B) {
			b.SetBytes(int64(len(body)))
			b.ReportAllocs()
			for b.Loop() {
				var v any
				must.Do(b, json.Unmarshal([]byte(body), &v))
				must.Get(json.Marshal(v))(b)
			}
		})
		p := program(b, fiveOps)
		b.Run(fmt.Sprintf("ops/%d", len(body)), func(b *testing.B) {
			b.SetBytes(int64(len(body)))
			b.ReportAllocs()
			for b.Loop() {
				must.Get(p.Apply(b.Context(), input(body), 2<<20))(b)
			}
		})
	}
	for name, body := range map[string]string{
		"short": escapedNames(1<<20/18, 1), "long": escapedNames(1<<20/1800, 299),
	} {
		p := program(b, manyPaths(MaxOps, 2))
		b.Run("escaped-names/"+name, func(b *testing.B) {
			b.SetBytes(int64(len(body)))
			for b.Loop() {
				must.Get(p.Apply(b.Context(), input(body), 2<<20))(b)
			}
		})
	}
	body := document(5000)
	var many []string
	for i := range MaxOps {
		many = append(many, fmt.Sprintf(`{"op":"rename","from":"/data/items/*/n%d","to":"/data/items/*/n%d"}`, i, i+1))
	}
	p := program(b, "["+strings.Replace(strings.Join(many, ","), "n0", "name", 1)+"]")
	b.Run(fmt.Sprintf("32ops/%d", len(body)), func(b *testing.B) {
		for b.Loop() {
			must.Get(p.Apply(b.Context(), input(body), 2<<20))(b)
		}
	})
}
