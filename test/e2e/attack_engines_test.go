package e2e

import (
	"io"
	"net"
	"net/http"
	"net/url"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// TestAttacksOnEngines plays what another user of the machine, a web page on it, and a program with access to Kafka
// would try past the API. Beside it: statements that reach out of ClickHouse, one by one, in
// clickhouse.TestStatementsStayInside; SASL mechanisms in kafka.TestSecret; that dev has no port of an engine at all in
// TestDevListensOnTwoPorts.
func TestAttacksOnEngines(t *testing.T) {
	t.Parallel()
	t.Run("clickhouse", attackClickHouse)
	t.Run("kafka", attackKafka)
	t.Run("redis", attackRedis)
	t.Run("every engine keeps to this machine", openEngines)
	t.Run("records of others change no configuration", forgedConfiguration)
}

// sent is one HTTP request to an address, with a Host and header lines of the sender's choice.
func sent(t *testing.T, method, address, host, body string, header ...string) (status int, text string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, address, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	if host != "" {
		req.Host = host
	}
	for i := 0; i+1 < len(header); i += 2 {
		req.Header.Add(header[i], header[i+1])
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, err.Error()
	}
	defer res.Body.Close()
	raw, err := io.ReadAll(res.Body)
	if err != nil {
		return 0, err.Error()
	}
	return res.StatusCode, string(raw)
}

// attackClickHouse: what a page can make a browser send is refused before it is read; what is let in reads no file.
func attackClickHouse(t *testing.T) {
	t.Parallel()
	p := startEngine(t, "clickhouse")
	address := "http://" + p.url + "/"
	_, port, _ := net.SplitHostPort(p.url)
	const works = "SELECT 1"
	read := address + "?query=" + url.QueryEscape(works)
	if status, text := sent(t, "POST", address, "", works); status != 200 || !strings.HasPrefix(text, "1") {
		t.Fatalf("the relay's own request: %d %s", status, text)
	}
	for what, try := range map[string]func() (int, string){
		"a form of a page": func() (int, string) {
			return sent(t, "POST", address, "", works, "Origin", "https://evil.example", "Content-Type", "text/plain",
				"Sec-Fetch-Site", "cross-site")
		},
		"a form of an opaque origin": func() (int, string) {
			return sent(t, "POST", address, "", works, "Origin",
				"null")
		},
		"a form of another port": func() (int, string) {
			return sent(t, "POST", address, "", works, "Origin", "http://127.0.0.1:1", "Sec-Fetch-Site", "same-site")
		},
		"an image of a page": func() (int, string) {
			return sent(t, "GET", read, "", "", "Sec-Fetch-Site",
				"cross-site")
		},
		"a name rebound to it": func() (int, string) { return sent(t, "POST", address, "evil.example:"+port, works) },
		"the same, by GET":     func() (int, string) { return sent(t, "GET", read, "evil.example:"+port, "") },
	} {
		if status, text := try(); status != 403 {
			t.Errorf("%s: %d %s", what, status, text)
		}
	}
	for _, sql := range []string{
		"SELECT * FROM file('/etc/hosts','LineAsString','l String')", "SELECT * FROM url('http://" + p.url +
			"/','LineAsString','l String')",
		"INSERT INTO FUNCTION file('" + filepath.Join(t.TempDir(), "keys") + "','TSVRaw','l String') SELECT 'x'",
		"SELECT * FROM remote('127.0.0.1', system.one)", "BACKUP DATABASE default TO Disk('default','x')",
	} {
		if status, text := sent(t, "POST", address, "", sql); status == 200 || strings.Contains(text,
			"127.0.0.1\tlocalhost") {
			t.Errorf("%s: %d %s", sql, status, text)
		}
	}
	if status, text := sent(t, "GET", address+"?query="+url.QueryEscape("CREATE DATABASE stranger"), "",
		""); status == 200 {
		t.Errorf("GET writes: %d %s", status, text)
	}
}

// attackKafka: with a key nobody without it lists a topic, and what is no Kafka request is no answer.
func attackKafka(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	p := newProcess(t, dir, []string{"engine", "kafka", "--data", dir, "--fsync=false"},
		"RELAY_ENGINE_KEY=a-key-of-32-characters-or-more-00")
	p.start()
	if status, text := sent(t, "POST", "http://"+p.url+"/", "", "x"); status != 0 {
		t.Errorf("a page is answered: %d %s", status, text)
	}
	client, err := kgo.NewClient(kgo.SeedBrokers(p.url), kgo.RetryTimeout(300*time.Millisecond), kgo.RequestRetries(0))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	if err := client.Ping(t.Context()); err == nil {
		t.Error("a client without the key is let in")
	}
}

// attackRedis: what a page can make a browser send is no request. (A length that no request has ends this engine, which
// keeps nothing but limits; so dev reaches its own within the process, and where other users are on the machine it
// listens on a unix socket.)
func attackRedis(t *testing.T) {
	t.Parallel()
	p := startEngine(t, "redis")
	ask := func(text string) string {
		conn, err := net.Dial("tcp", p.url)
		if err != nil {
			t.Fatalf("the engine is gone: %v", err)
		}
		defer conn.Close()
		if _, err := io.WriteString(conn, text); err != nil {
			t.Fatal(err)
		}
		_ = conn.SetReadDeadline(time.Now().Add(time.Second))
		answer := make([]byte, 64)
		n, _ := conn.Read(answer) // none is an answer, too
		return string(answer[:n])
	}
	const set = "SET stranger 1\r\n"
	for _, text := range []string{"POST / HTTP/1.1\r\nHost: evil.example\r\n\r\n" + set, "GET / HTTP/1.1\r\nHost: " +
		p.url + "\r\n\r\n" + set, set} {
		ask(text)
		if got := ask("*2\r\n$3\r\nGET\r\n$8\r\nstranger\r\n"); got != "$-1\r\n" {
			t.Errorf("%q was taken: %q", text, got)
		}
		if got := ask("*1\r\n$4\r\nPING\r\n"); got != "+PONG\r\n" {
			t.Errorf("after %q: %q", text, got)
		}
	}
}

// openEngines: beyond loopback no engine listens without a key, redis not at all.
func openEngines(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"kafka", "redis", "clickhouse"} {
		for _, listen := range []string{"0.0.0.0:0", "[::]:0", "192.0.2.1:0"} {
			dir := t.TempDir()
			p := newProcess(t, dir, nil)
			if out, err := p.output("engine", name, "--data", dir, "--listen", listen); err == nil ||
				strings.Contains(string(out), "listens on") {
				t.Errorf("%s on %s: %v %s", name, listen, err, out)
			}
		}
	}
}

// forgedConfiguration: who may write to Kafka makes no key, and stops no node, now or at its next start.
func forgedConfiguration(t *testing.T) {
	t.Parallel()
	on := engines{startEngine(t, "kafka").url, startEngine(t, "redis").url, startEngine(t, "clickhouse").url}
	c := newCluster(t, on, "forged")
	node := c.start("a")[0]
	client, err := kgo.NewClient(kgo.SeedBrokers(on.kafka), kgo.DefaultProduceTopic(c.prefix+"control"))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	const hash = "n4bQgYhMfWWaL+qgxVrQFaO/TxsrC4Is0V1sFbDwCgg=" // SHA-256 of "test", the key that would be valid
	for _, record := range []string{
		`{"v":1,"op_id":"x","seq_seen":0,"node":"x","kind":"key","id":"key_x","pre":"absent","op":"put",` +
			`"value":{"id":"key_x","account":"acc_x","name":"x","scope":"read_write","hash":"` + hash + `"}}`,
		`{"v":2,"op_id":"x","seq_seen":0,"node":"x","kind":"key","id":"key_x","pre":"absent","op":"put",` +
			`"value":{"id":"key_x","account":"acc_x","name":"x","scope":"read_write","hash":"` + hash + `"}}`,
		`{"v":99}`, `{`, ``,
	} {
		if err := client.ProduceSync(t.Context(), &kgo.Record{Value: []byte(record)}).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
	still := func() {
		t.Helper()
		in := node.in(t)
		in.endpoint(map[string]any{"destinations": []any{"https://example.com/h"}}) // read after the forged ones
		if status, text := sent(t, "GET", node.url+"/v1/me", "", "", "Authorization", "Bearer test"); status != 401 {
			t.Errorf("the key of a forged record: %d %s", status, text)
		}
	}
	still()
	if err := node.stop(syscall.SIGTERM); err != nil {
		t.Errorf("the node ended with %v", err)
	}
	node.start()
	still()
}
