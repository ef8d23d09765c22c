package egress

import (
	"os"
	"testing"

	"go.uber.org/goleak"
)

// deadProxy is an address without a proxy: 192.0.2.0/24 is for documentation. All tests have it in their environment,
// because net/http reads the proxy variables once per process.
const deadProxy = "http://192.0.2.1:9"

func TestMain(m *testing.M) {
	for _, name := range []string{"HTTPS_PROXY", "HTTP_PROXY", "https_proxy", "http_proxy"} {
		os.Setenv(name, deadProxy)
	}
	goleak.VerifyTestMain(m)
}
