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

	"github.com/eventrelay/relay/test/conformance"
	"github.com/eventrelay/relay/test/is"
	"github.com/eventrelay/relay/test/must"
)

// TestAttacks runs the attacks of a stranger, a web page, a customer and an agent against `relay dev`, and with
// RELAY_TORTURE=1 against a node whose engines are separate processes.
func TestAttacks(t *testing.T) {
	t.Parallel()
	const settings = "RELAY_ALERT_DOMAINS=example.com"
	t.Run("dev", func(t *testing.T) {
		t.Parallel()
		p := startDevProcess(t, t.TempDir(), settings)
		conformance.RunAttacks(t, attackTarget(t, p))
	})
	t.Run("node", func(t *testing.T) {
		t.Parallel()
		if rounds(0, 0, 1) == 0 {
			t.Skip("a node runs the same API; set RELAY_TORTURE")
		}
		c := newCluster(t, sharedEngines(t), "attacks", settings, "RELAY_ADMIN_LISTEN=127.0.0.1:0")
		node := c.start("a")[0]
		conformance.RunAttacks(t, attackTarget(t, node))
	})
}

// attackTarget describes a relay of one process.
func attackTarget(t *testing.T, p *process) conformance.Target {
	tg := target(t, p.url, p)
	eventually(t, time.Minute, func() string { // the log and the ready line come over different pipes
		if tg.Admin = "http://" + p.adminAddress(); p.adminAddress() == "" {
			return "the log names no address of metrics"
		}
		return ""
	})
	tg.Keys = func(t *testing.T, scope string, agent bool) string {
		args := []string{"create", "--name", "attack", "--scope", scope}
		if agent {
			args = append(args, "--agent")
		}
		caller := process{client: p.forTest(t), dir: p.dir}
		return strings.Fields(caller.keys(args...))[2]
	}
	return tg
}

// TestAttacksOnEngines attacks the engines directly, as another user of the machine, a web page in its browser, or a
// program with access to Kafka would. Related tests: clickhouse.TestStatementsStayInside for statements that reach out
// of ClickHouse, TestEngineBeyondLoopbackNeedsASecret for other addresses, TestDevListensOnTwoPorts for dev, which
// opens no engine port.
func TestAttacksOnEngines(t *testing.T) {
	t.Parallel()
	t.Run("clickhouse", attackClickHouse)
	t.Run("redis", attackRedis)
	t.Run("records of others change no configuration", forgedConfiguration)
}

// sendRequest sends an HTTP request with any Host and headers to an address. Status 0 means that there was no answer.
func sendRequest(t *testing.T, method, address, host, body string, header ...string) (status int, text string) {
	t.Helper()
	req := must.Get(http.NewRequestWithContext(t.Context(), method, address, strings.NewReader(body)))(t)
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

// attackClickHouse checks that requests of web pages are refused before they are read, and that accepted statements
// read no files.
func attackClickHouse(t *testing.T) {
	t.Parallel()
	host := sharedEngine(t, "clickhouse")
	address := "http://" + host + "/"
	_, port, _ := net.SplitHostPort(host)
	const works = "SELECT 1"
	read := address + "?query=" + url.QueryEscape(works)
	if status, text := sendRequest(t, "POST", address, "", works); status != 200 || !strings.HasPrefix(text, "1") {
		t.Fatalf("the relay's own request: %d %s", status, text)
	}
	for what, try := range map[string]func() (int, string){
		"a form of a page": func() (int, string) {
			return sendRequest(t, "POST", address, "", works, "Origin", "https://evil.example", "Content-Type", "text/plain",
				"Sec-Fetch-Site", "cross-site")
		},
		"a form of an opaque origin": func() (int, string) {
			return sendRequest(t, "POST", address, "", works, "Origin",
				"null")
		},
		"a form of another port": func() (int, string) {
			return sendRequest(t, "POST", address, "", works, "Origin", "http://127.0.0.1:1", "Sec-Fetch-Site", "same-site")
		},
		"an image of a page": func() (int, string) {
			return sendRequest(t, "GET", read, "", "", "Sec-Fetch-Site",
				"cross-site")
		},
		"a name rebound to it": func() (int, string) { return sendRequest(t, "POST", address, "evil.example:"+port, works) },
		"the same, by GET":     func() (int, string) { return sendRequest(t, "GET", read, "evil.example:"+port, "") },
	} {
		if status, text := try(); status != 403 {
			t.Errorf("%s: %d %s", what, status, text)
		}
	}
	for _, sql := range []string{
		"SELECT * FROM file('/etc/hosts','LineAsString','l String')", "SELECT * FROM url('http://" + host +
			"/','LineAsString','l String')",
		"INSERT INTO FUNCTION file('" + filepath.Join(t.TempDir(), "keys") + "','TSVRaw','l String') SELECT 'x'",
		"SELECT * FROM remote('127.0.0.1', system.one)", "BACKUP DATABASE default TO Disk('default','x')",
	} {
		if status, text := sendRequest(t, "POST", address, "", sql); status == 200 || strings.Contains(text,
			"127.0.0.1\tlocalhost") {
			t.Errorf("%s: %d %s", sql, status, text)
		}
	}
	if status, text := sendRequest(t, "GET", address+"?query="+url.QueryEscape("CREATE DATABASE stranger"), "",
		""); status == 200 {
		t.Errorf("GET writes: %d %s", status, text)
	}
}

// attackRedis checks that HTTP requests of a web page are no Redis commands. (An impossible length prefix ends this
// engine, which holds rate limits only. Therefore dev reaches its engine inside the process, and on shared machines the
// engine listens on a Unix socket.)
func attackRedis(t *testing.T) {
	t.Parallel()
	host := sharedEngine(t, "redis")
	ask := func(text string) string {
		conn, err := net.Dial("tcp", host)
		must.Do(t, err, "the engine takes no connections")
		defer conn.Close()
		must.Get(io.WriteString(conn, text))(t)
		_ = conn.SetReadDeadline(time.Now().Add(time.Second))
		answer := make([]byte, 64)
		n, _ := conn.Read(answer) // no answer is accepted too
		return string(answer[:n])
	}
	const set = "SET stranger 1\r\n"
	for _, text := range []string{"POST / HTTP/1.1\r\nHost: evil.example\r\n\r\n" + set, "GET / HTTP/1.1\r\nHost: " +
		host + "\r\n\r\n" + set, set} {
		ask(text)
		is.Equal(t, ask("*2\r\n$3\r\nGET\r\n$8\r\nstranger\r\n"), "$-1\r\n", "%q was executed", text)
		is.Equal(t, ask("*1\r\n$4\r\nPING\r\n"), "+PONG\r\n", "after %q", text)
	}
}

// forgedConfiguration checks that a program that can write to Kafka can neither create an API key nor stop a node, now
// or at its next start.
func forgedConfiguration(t *testing.T) {
	t.Parallel()
	on := sharedEngines(t)
	c := newCluster(t, on, "forged")
	node := c.start("a")[0]
	client := must.Get(kgo.NewClient(kgo.SeedBrokers(on.kafka), kgo.DefaultProduceTopic(c.prefix+"control")))(t)
	defer client.Close()
	const hash = "n4bQgYhMfWWaL+qgxVrQFaO/TxsrC4Is0V1sFbDwCgg=" // SHA-256 of "test", the key that would be valid
	for _, record := range []string{
		`{"v":1,"op_id":"x","seq_seen":0,"node":"x","kind":"key","id":"key_x","pre":"absent","op":"put",` +
			`"value":{"id":"key_x","account":"acc_x","name":"x","scope":"read_write","hash":"` + hash + `"}}`,
		`{"v":2,"op_id":"x","seq_seen":0,"node":"x","kind":"key","id":"key_x","pre":"absent","op":"put",` +
			`"value":{"id":"key_x","account":"acc_x","name":"x","scope":"read_write","hash":"` + hash + `"}}`,
		`{"v":99}`, `{`, ``,
	} {
		must.Do(t, client.ProduceSync(t.Context(), &kgo.Record{Value: []byte(record)}).FirstErr())
	}
	still := func() {
		t.Helper()
		in := node.forTest(t)
		in.endpoint(map[string]any{"destinations": []any{"https://example.com/h"}}) // read after the forged records
		if status, text := sendRequest(t, "GET", node.url+"/v1/me", "", "", "Authorization", "Bearer test"); status != 401 {
			t.Errorf("the key of a forged record: %d %s", status, text)
		}
	}
	still()
	is.OK(t, node.stop(syscall.SIGTERM), "the node ended with")
	node.start()
	still()
}
