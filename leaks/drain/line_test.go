package drain

import (
	"fmt"
	"github.com/eventrelay/relay/test/is"
	"strings"
	"testing"
	"time"
)

// arrival is the time at which the lines of these tests arrive.
var arrival = time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)

// What a line says about itself is read on both sides of the secret, in the usual formats, and never beyond the line.
func TestReadLine(t *testing.T) {
	const at = "2026-03-04T05:00:00Z"
	unix := fmt.Sprint(arrival.Add(-time.Hour).Unix())
	for text, want := range map[string]string{
		`{"app":"web","msg":"SECRET"}`:                                           "web |",
		`{"msg":"SECRET","service":"api","env":"prod"}`:                          "api prod|",
		`{ "service.name" : "a\"b" , "version" : 3.1 , "msg" : "SECRET" }`:       `a"b 3.1|`,
		`{"app":{"name":"x"},"program":"cron","msg":"SECRET"}`:                   "cron |",
		`{"msg":"{\"app\":\"inner\",\"key\":\"SECRET\"}","app":"outer"}`:         "outer |",
		`[{"app":"a"},{"app":"b","m":"SECRET"},{"app":"c"}]`:                     "b |",
		`[{"app":"a"}, {"m":"SECRET"}, {"app":"c"}]`:                             " |",
		"{\"app\":\"a\"}\n{\"m\":\"SECRET\"}\n{\"app\":\"c\"}":                   " |",
		`time=` + at + ` level=info app=web msg="key SECRET"`:                    "web |" + at,
		`ts=` + at + ` service="my app" key=SECRET`:                              "my app |" + at,
		at + ` starting with SECRET`:                                             " |" + at,
		`<34>1 ` + at + ` host su - ID47 - key SECRET`:                           "su |" + at,
		`<34>1 ` + at + ` host - - ID47 - key SECRET`:                            " |" + at,
		`{"ts":` + unix + `,"msg":"SECRET"}`:                                     " |2026-03-04T04:06:07Z",
		`{"ts":` + unix + `000,"msg":"SECRET"}`:                                  " |2026-03-04T04:06:07Z",
		`{"time":"2027-01-01T00:00:00Z","msg":"SECRET"}`:                         " |",
		`{"time":"1969-01-01T00:00:00Z","msg":"SECRET"}`:                         " |",
		`{"time":"yesterday","msg":"SECRET"}`:                                    " |",
		`{"time":"Inf","msg":"SECRET"}`:                                          " |",
		`{"time":"NaN","msg":"SECRET"}`:                                          " |",
		`{"time":"1e308","msg":"SECRET"}`:                                        " |",
		`x time=+infinity SECRET`:                                                " |",
		`Inf SECRET`:                                                             " |",
		strings.Repeat("9", maxValue) + ` SECRET`:                                " |",
		`<34>1 inf host su - ID47 - key SECRET`:                                  "su |",
		`{"msg":"SECRET","app":"` + strings.Repeat("x", 2*maxValue) + `"}`:       " |",
		`{"msg":"SECRET","app":"cut of`:                                          " |",
		`{"app":"` + `SECRET"}`:                                                  " |",
		`happy=1 my_app=no app=`:                                                 " |",
		`{"@timestamp":"2026-03-04T05:00:00+02:00","logger":"x","msg":"SECRET"}`: "x |2026-03-04T03:00:00Z",
	} {
		before, after, _ := strings.Cut(text, "SECRET")
		l := readLine("", []byte(before), []byte(after), arrival)
		got := l.app + " " + l.environment + l.release + "|"
		if !l.at.IsZero() {
			got += l.at.Format(time.RFC3339)
		}
		is.Equal(t, got, want, text)
	}
}

// No line makes reading it fail, and no value is longer than its bound.
func FuzzReadLine(f *testing.F) {
	f.Add([]byte(`{"app":"web","msg":"`), []byte(`","time":1}`))
	f.Add([]byte(`<34>1 a b c d app="`), []byte("\n},{"))
	f.Add([]byte("Inf time=-Inf "), []byte(` ts=NaN time=1e309`))
	f.Fuzz(func(t *testing.T, before, after []byte) {
		l := readLine("heroku", before, after, arrival)
		if max(len(l.app), len(l.environment), len(l.release)) > 3*maxValue || l.at.After(arrival) {
			t.Errorf("%+v", l)
		}
	})
}
