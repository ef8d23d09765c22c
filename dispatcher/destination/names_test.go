package destination

import (
	"fmt"
	"strings"
	"testing"

	"github.com/eventrelay/relay/test/is"
)

// A sender of ever new header names fills the cache, and no more memory. Long names are not kept.
func TestHeaderNamesAreBounded(t *testing.T) {
	var names Names
	long := strings.Repeat("X", maxHeaderNameSize-4)
	if x := names.lookup(long + "-Auth"); !x.credential || names.known.Load() != nil {
		t.Errorf("a name of %d bytes is remembered, credential: %v", len(long)+5, x.credential)
	}
	for round := range 2 {
		for i := range maxHeaderNames + 10 {
			if x := names.lookup(fmt.Sprintf("x-name-%d", i)); x.canonical != fmt.Sprintf("X-Name-%d", i) || x.credential {
				t.Fatalf("round %d: %+v", round, x)
			}
		}
		is.Equal(t, len(*names.known.Load()), maxHeaderNames, "names are remembered")
		if x := names.lookup("X-SESSION-ID"); x.canonical != "X-Session-Id" || !x.credential {
			t.Errorf("%+v", x)
		}
	}
}
