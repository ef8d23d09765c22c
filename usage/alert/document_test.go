package alert

import (
	"os"
	"regexp"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/eventrelay/relay/pkg/finding"
	"github.com/eventrelay/relay/test/is"
	"github.com/eventrelay/relay/test/must"
)

// The API's document names every type of message that the webhook channel receives.
func TestDocumentNamesEveryMessageType(t *testing.T) {
	want := []string{"alert.test", unverifiedType, manyType, tripwireType,
		findingType + string(finding.Opened), findingType + string(finding.Reopened)}
	for r := range ruleCount {
		want = append(want, "alert."+r.messageType())
		if r.headline(true) != "" {
			want = append(want, "alert."+r.messageType()+resolvedSuffix)
		}
	}
	document := must.Get(os.ReadFile("../../api/openapi/webhooks.yaml"))(t)
	var got []string
	for _, line := range regexp.MustCompile(`(?m)^ +- (alert[.].+)$`).FindAllSubmatch(document, -1) {
		got = append(got, string(line[1]))
	}
	slices.Sort(want)
	slices.Sort(got)
	is.Equal(t, cmp.Diff(want, got), "", "-sent +in the document")
}
