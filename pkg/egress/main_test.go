package egress

import (
	"os"
	"testing"

	"go.uber.org/goleak"
)

// deadProxy is where no proxy is: 192.0.2.0/24 is for documentation. It stands in the environment of
// all tests, because net/http reads these variables once in a process.
const deadProxy = "http://192.0.2.1:9"

func TestMain(m *testing.M) {
	for _, name := range []string{"HTTPS_PROXY", "HTTP_PROXY", "https_proxy", "http_proxy"} {
		os.Setenv(name, deadProxy)
	}
	goleak.VerifyTestMain(m)
}
