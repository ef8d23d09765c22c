package drain

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/eventrelay/relay/test/is"
	"github.com/eventrelay/relay/test/must"
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

// newPrivateKey returns a private key in PEM.
func newPrivateKey(t *testing.T) string {
	t.Helper()
	key := must.Get(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))(t)
	der := must.Get(x509.MarshalPKCS8PrivateKey(key))(t)
	return strings.TrimSuffix(string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})), "\n")
}

func quoted(text string) string {
	b, _ := json.Marshal(text) // of a string it never fails
	return string(b)
}

// shippers write a line of a process as a record.
var shippers = map[string]struct {
	record           func(process, line string) string
	between, of, end string
	headers          []string
}{
	"frames of Logplex": {record: func(process, line string) string {
		return frame("<190>1 2026-03-04T05:05:00.000000+00:00 host app " + process + " - " + line + "\n")
	}, headers: []string{"Content-Type", "application/logplex-1"}},
	"frames without line ends": {record: func(process, line string) string {
		return frame("<190>1 2026-03-04T05:05:00.000000+00:00 host app " + process + " - " + line)
	}, headers: []string{"Content-Type", "application/logplex-1"}},
	"syslog": {record: func(process, line string) string {
		return "<190>1 2026-03-04T05:05:00Z host app " + process + " - - " + line + "\n"
	}},
	"JSON lines": {record: func(process, line string) string {
		return `{"level":30,"time":1772600700000,"pid":` + process[4:] + `,"msg":` + quoted(line) + `,"v":1}` + "\n"
	}},
	"JSON in JSON": {record: func(process, line string) string {
		return `{"log":` + quoted(`{"level":"info","message":`+quoted(line)+"}\n") +
			`,"stream":"stdout","kubernetes":{"pod_name":"` + process + `"}}` + "\n"
	}},
	"logfmt": {record: func(process, line string) string {
		if strings.Contains(line, " ") {
			line = quoted(line)
		}
		return "level=info service=" + process + " msg=" + line + " took=3ms\n"
	}},
	"an array": {of: "[", end: "]", between: ",", record: func(process, line string) string {
		return `{"id":"1","host":"` + process + `","message":` + quoted(line) + "}"
	}},
	"CloudWatch": {of: `{"messageType":"DATA_MESSAGE","logGroup":"a","logEvents":[`, end: "]}", between: ",",
		record: func(process, line string) string { return `{"id":"` + process + `","message":` + quoted(line) + "}" }},
}

// A private key with one line in each record is one finding, that of the key in one piece, also with records of others
// between them; so is one that Node.js prints in an object.
func TestPrivateKeysOfSeveralRecords(t *testing.T) {
	key := newPrivateKey(t)
	whole := newWorld(t)
	whole.post(202, key+"\n")
	want := whole.Only().Fingerprint
	printed := "config {\n  key: '" + strings.ReplaceAll(key, "\n", `\n' +`+"\n    '") + `\n'` + "\n}"
	for name, s := range shippers {
		for form, text := range map[string]string{
			"plain": key, "printed": printed, "with CR": strings.ReplaceAll(key, "\n", "\r\n"),
			"in colours": "\x1b[32m" + strings.ReplaceAll(key, "\n", "\x1b[39m\n\x1b[32m") + "\x1b[39m",
		} {
			var records []string
			for i, line := range strings.Split(text, "\n") {
				records = append(records, s.record("web.1", line), s.record("web.2", fmt.Sprint("GET /", i, " 200")))
			}
			body := s.of + strings.Join(records, s.between) + s.end
			w := newWorld(t)
			w.send("POST", path, strings.NewReader(body), s.headers...)
			w.send("POST", path, iotest.OneByteReader(strings.NewReader(body)), s.headers...)
			if h := w.Only(); h.Fingerprint != want || h.N != 1 || h.Rule != "private-key-block" {
				t.Errorf("%s, %s: %+v", name, form, h)
			}
			is.Lacks(t, w.everything(), key[40:60], "%s, %s: the key is kept", name, form)
		}
	}
}

// The keys of two processes are not mixed up; a key in one piece counts once, also one that many lines interrupt.
func TestPrivateKeysOfTwoProcesses(t *testing.T) {
	one, other := newPrivateKey(t), newPrivateKey(t)
	for name, s := range shippers {
		if name == "CloudWatch" { // no event names its process
			continue
		}
		var records []string
		lines := strings.Split(other, "\n")
		for i, line := range strings.Split(one, "\n") {
			records = append(records, s.record("web.1", line), s.record("web.2", lines[i]))
		}
		w, apart := newWorld(t), newWorld(t)
		w.send("POST", path, strings.NewReader(s.of+strings.Join(records, s.between)+s.end), s.headers...)
		apart.post(202, one+"\n\n"+other+"\n")
		want, got := map[string]bool{}, map[string]bool{}
		for _, h := range apart.Hits() {
			want[h.Fingerprint] = true
		}
		for _, h := range w.Hits() {
			got[h.Fingerprint] = true
		}
		if fmt.Sprint(got) != fmt.Sprint(want) || len(want) != 2 {
			t.Errorf("%s: found %v, want %v", name, got, want)
		}
	}
}

// What is kept for keys that go on is bounded: their number, and how many records and bytes are between their lines.
func TestJoinedKeysAreBounded(t *testing.T) {
	key := newPrivateKey(t)
	lines := strings.Split(key, "\n")
	record := shippers["JSON lines"].record
	withOthers := func(n int) string {
		others := strings.Repeat(record("web.2", "GET / 200"), n)
		return record("web.1", lines[0]) + others + record("web.1", lines[1]) + record("web.1", lines[2]) +
			record("web.1", lines[3])
	}
	for n, want := range map[int]int{maxRecordsLate - 1: 1, maxRecordsLate + 1: 0} {
		w := newWorld(t)
		w.post(202, withOthers(n))
		is.Equal(t, len(w.Hits()), want, "with %d records between two lines … hits", n)
	}
	j := newJoiner(&request{}, scanner(), false)
	long := strings.Repeat(record("web.1", strings.Repeat("A", 64)), 1000)
	for n := range 2 * maxJoinedKeys {
		text := record("web.1", lines[0]) + record("web.1", lines[1]) + long + fmt.Sprint(n, "\n")
		_, _ = j.Write([]byte(text)) // it never fails
		if len(j.open) > maxOpenKeys || len(j.text) > maxRecord {
			t.Fatalf("%d keys are open, %d bytes are kept", len(j.open), len(j.text))
		}
	}
	for _, key := range j.done {
		if len(key.text) > maxKeyText+maxRecord {
			t.Errorf("a key has %d bytes", len(key.text))
		}
	}
	if len(j.done) > maxJoinedKeys {
		t.Errorf("%d keys", len(j.done))
	}
}
