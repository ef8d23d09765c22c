package main

import (
	"testing"

	"github.com/eventrelay/relay/test/must"
)

// Each planted fault has its place in the code as it is now. A change that moves one moves its text in list.go, too.
func TestEveryFaultCanBePlanted(t *testing.T) {
	t.Chdir("../../..")
	must.Get(plant(planted()))(t)
	must.Get(plant(onMachine))(t)
}
