package node

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/eventrelay/relay/pkg/roles"
)

// A component whose role no node can have would never start. Without RELAY_ROLES a node has every role.
func TestRoles(t *testing.T) {
	for _, c := range starts {
		if c.role != "" && !slices.Contains(roles.All(), c.role) {
			t.Errorf("%s needs the role %q, which no node can have", c.name, c.role)
		}
	}
	field, _ := reflect.TypeFor[Config]().FieldByName("Roles")
	if got, want := field.Tag.Get("default"), strings.Join(roles.All(), ","); got != want {
		t.Errorf("the default of RELAY_ROLES is %q, want %q", got, want)
	}
}
