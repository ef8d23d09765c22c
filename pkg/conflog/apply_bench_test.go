package conflog

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/eventrelay/relay/pkg/conflog/trie"
	"github.com/eventrelay/relay/test/must"
)

// BenchmarkApply measures apply for one record of another node, with 20,000 entities in the state.
func BenchmarkApply(b *testing.B) {
	l := offlineLog(b)
	s := l.view.Load().state
	hash := func(name string) []byte { h := hashOf(name); return h[:] }
	put := func(name, pre string) []byte {
		r := l.newRecord(s, kindEndpoint, name, pre, opPut)
		var err error
		if r.Value, err = json.Marshal(Thing{ID: name, Name: strings.Repeat("n", 1000), Hash: hash(name)}); err != nil {
			b.Fatal(err)
		}
		raw := must.Get(json.Marshal(r))(b)
		return raw
	}
	do := func(raw []byte) {
		r := l.parse(raw)
		r.OpID = ""
		next, res, err := apply(s, r)
		if err != nil || res != applied {
			b.Fatal(res, err)
		}
		s = next
		s.ops = [2]trie.Map[uint64]{} // the same record is applied in each iteration
	}
	for i := range 20_000 {
		do(put("ep_"+string(rune('a'+i%26))+strings.Repeat("x", i/26), preAbsent))
	}
	again := put("ep_a", preExists)
	b.ReportAllocs()
	for b.Loop() {
		do(again)
	}
}
