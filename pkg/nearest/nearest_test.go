package nearest_test

import (
	"strings"
	"testing"

	"github.com/eventrelay/relay/pkg/nearest"
	"github.com/eventrelay/relay/test/is"
)

func TestName(t *testing.T) {
	known := []string{"until", "type", "status", "endpoint_id", "states", "since"}
	for _, c := range []struct {
		name, want string
		most       int
	}{
		{"statuz", "status", 2},
		{"stat", "states", 2}, // as near as status, and before it in the alphabet
		{"status", "status", 0},
		{"endpointid", "endpoint_id", 1},
		{"endpointid", "", 0},
		{"colour", "", 3},
		{"", "", 3},
		{strings.Repeat("status", 1000), "", 1 << 20},
	} {
		is.Equal(t, nearest.Name(c.name, known, c.most), c.want, "%.20q, %d wrong at most", c.name, c.most)
	}
}
