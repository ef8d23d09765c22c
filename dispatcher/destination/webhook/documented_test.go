package webhook

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/eventrelay/relay/dispatcher/destination"
	"github.com/eventrelay/relay/pkg/sign"
	"github.com/eventrelay/relay/test/must"
)

// docs/start/clients.md and the OpenAPI document name every header that a delivery adds, and no other.
func TestDeliveryHeadersAreDocumented(t *testing.T) {
	header := headerOf(t, testWork(t, []byte("x")), testTarget(t, "https://example.com/", sign.NewSecret()))
	delete(header, destination.HeaderUserAgent)
	var sent []string
	for name := range header {
		sent = append(sent, strings.ToLower(name))
	}
	f := func(path, begin, end, pattern string, sent []string) {
		t.Helper()
		slices.Sort(sent)
		text := must.Get(os.ReadFile(path))(t)
		_, list, _ := strings.Cut(string(text), begin)
		list, _, ended := strings.Cut(list, end)
		if !ended {
			t.Fatalf("%s has no list of the headers of a delivery", path)
		}
		var named []string
		for _, m := range regexp.MustCompile(pattern).FindAllStringSubmatch(list, -1) {
			named = append(named, m[1])
		}
		slices.Sort(named)
		if diff := cmp.Diff(sent, named); diff != "" {
			t.Errorf("sent (-) and named in %s (+):\n%s", path, diff)
		}
	}
	f("../../../docs/start/clients.md", "| header | value |\n", "\n\n", "[|,] `((?:webhook|relay)-[a-z-]+)`", sent)
	f("../../../api/openapi/webhooks.yaml", "operationId: receiveDelivery\n", "requestBody:", `(?m)^ +- name: (.+)$`,
		append(sent, "traceparent")) // of traced events only
}
