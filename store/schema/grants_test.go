package schema

import (
	"os"
	"strings"
	"testing"

	"github.com/eventrelay/relay/test/must"
)

// docs/operate/security.md shows the statements of Grants, and a cluster's say ON CLUSTER.
func TestDocumentedGrants(t *testing.T) {
	text := must.Get(os.ReadFile("../../docs/operate/security.md"))(t)
	statements, err := Grants(Config{URL: "http://localhost:8123/relay", RetentionDays: 30})
	must.Do(t, err)
	if want := "```sql\n" + strings.Join(statements, ";\n") + ";\n```"; !strings.Contains(string(text), want) {
		t.Errorf("docs/operate/security.md must show:\n%s", want)
	}
	statements, err = Grants(Config{URL: "http://localhost:8123/relay", RetentionDays: 30, Cluster: "blue"})
	if err != nil || statements[0] != "CREATE ROLE IF NOT EXISTS migrate_relay ON CLUSTER 'blue'" ||
		!strings.HasPrefix(statements[1], "GRANT ON CLUSTER 'blue' CREATE DATABASE, ") {
		t.Errorf("%v %v", statements, err)
	}
}
