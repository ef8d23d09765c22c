package node

import (
	"testing"

	"github.com/eventrelay/relay/store/read"
	"github.com/eventrelay/relay/test/is"
)

// Without ClickHouse a node with the role api still takes events and changes of the configuration: it stays ready. No
// other check is optional.
func TestStoreIsNotRequired(t *testing.T) {
	n := &Node{settings: Config{Roles: []string{"api"}}, reader: &read.Reader{}}
	found := false
	for _, c := range n.checks() {
		found = found || c.Name == "store"
		is.Equal(t, c.Optional, c.Name == "store", "%s: optional is", c.Name)
	}
	if !found {
		t.Error("the store is not checked")
	}
	for _, c := range (&Node{settings: Config{Roles: []string{"ingest", "dispatch", "write"}}}).checks() {
		if c.Name == "store" {
			t.Error("a node without the role api does not read the store")
		}
	}
}
