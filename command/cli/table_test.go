package cli

import (
	"bytes"
	"strings"
	"testing"

	"github.com/eventrelay/relay/test/is"
)

// Columns are aligned below the header, also with colours, which only states have. Foreign text stays on its line.
func TestTable(t *testing.T) {
	table := NewTable("STATE", "NAME", "RESULT")
	table.Row("ok", "größe", "fail")
	table.Row("fail", "a\x1b[2J\nb", "no answer")
	table.Row("", "", "→ start it")
	table.Row("one cell may be wider than its column")
	want := "STATE  NAME     RESULT\nok     größe    fail\nfail   a·[2J·b  no answer\n                → start it\n" +
		"one cell may be wider than its column\n"
	var out bytes.Buffer
	table.Print(&out, false)
	is.Equal(t, out.String(), want)
	out.Reset()
	table.Print(&out, true)
	is.Equal(t, out.String(), strings.NewReplacer("ok ", "\x1b[32mok\x1b[0m ", "\nfail ", "\n\x1b[31mfail\x1b[0m ").
		Replace(want))
}

// States have colours where they are asked for, and never against NO_COLOR or on a dumb terminal.
func TestWantsColor(t *testing.T) {
	for env, want := range map[string]bool{
		"": false, "FORCE_COLOR=1": true, "CLICOLOR_FORCE=1": true, "FORCE_COLOR=0": false,
		"FORCE_COLOR=1 NO_COLOR=0": false, "FORCE_COLOR=1 TERM=dumb": false,
	} {
		getenv := func(name string) string {
			for _, pair := range strings.Fields(env) {
				if value, ok := strings.CutPrefix(pair, name+"="); ok {
					return value
				}
			}
			return ""
		}
		is.Equal(t, WantsColor(getenv, new(bytes.Buffer)), want, env)
	}
}

func TestByName(t *testing.T) {
	all := []Named{{"ep_1", "checkout"}, {"ep_2", "billing"}, {"ep_3", "billing"}}
	for range 20 {
		all = append(all, Named{"ep_x", "many"})
	}
	id, err := ByName("endpoint", "checkout", all)
	is.Equal(t, id, "ep_1", "%v", err)
	for name, want := range map[string]string{
		"chekout": `no endpoint has the id or the name "chekout", did you mean checkout`,
		"zzz":     `no endpoint has the id or the name "zzz"`,
		"billing": `more than one endpoint has the name "billing"; give the id: ep_2, ep_3`,
		"many": `more than one endpoint has the name "many"; give the id: ` + strings.Repeat("ep_x, ", 9) +
			"ep_x and 10 more",
	} {
		_, err := ByName("endpoint", name, all)
		is.Equal(t, err.Error(), want)
	}
}
