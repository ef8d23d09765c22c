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
	// Go's resolver goes on with a lookup that nobody waits for any more, until a name server that does not answer has
	// had its time.
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("net.(*Resolver).lookupIPAddr.func1"),
		goleak.IgnoreAnyFunction("net.(*Resolver).lookupIPAddr.func2"),
		goleak.IgnoreAnyFunction("net.(*Resolver).goLookupIPCNAMEOrder.func3.1"))
}
