package webhook

import (
	"testing"

	"github.com/eventrelay/relay/test/kit"
)

func TestMain(m *testing.M) { kit.Main(m) }
