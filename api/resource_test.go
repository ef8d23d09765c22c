package api_test

import (
	"encoding/json"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/eventrelay/relay/test/is"
	"github.com/eventrelay/relay/test/must"
)

// A change of one member leaves all others as they are, and one of none writes nothing.
func TestAChangeOfOneMember(t *testing.T) {
	c := newClient(t)
	for path, body := range map[string]string{
		"/v1/drains": `{"name":"logs","platform":"vercel","status":"paused","signing_secret":"abc","verify_code":"def"}`,
		"/v1/dsns":   `{"name":"pages","platform":"browser","daily_quota":10,"allowed_origins":["https://a.example"]}`,
	} {
		created := c.do("POST", path, body).want(201)
		one := path + "/" + created.text("id")
		if same := c.do("PATCH", one, `{}`).want(200); string(same.raw) != string(created.raw) {
			t.Errorf("%s: changed nothing: %s\nbefore: %s", one, same.raw, created.raw)
		}
		var before, after map[string]any
		must.Do(t, json.Unmarshal(created.raw, &before))
		must.Do(t, json.Unmarshal(c.do("PATCH", one, `{"name":"web"}`).want(200).raw, &after))
		before["name"], before["version"], before["updated_at"] = "web", 2.0, after["updated_at"]
		is.Equal(t, gocmp.Diff(before, after), "", "%s (-want +got)", one)
	}
}
