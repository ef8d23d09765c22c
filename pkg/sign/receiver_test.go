package sign_test

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/eventrelay/relay/pkg/sign"
	"github.com/eventrelay/relay/test/is"
	"github.com/eventrelay/relay/test/kit"
	"github.com/eventrelay/relay/test/must"
)

// delivery is a request to a receiver; Valid says whether the receiver must accept it.
type delivery struct {
	Name, Secret string
	Headers      map[string]string
	Body         string
	Valid        bool
}

// The secrets are fixed, so that sdk/vectors.json stays the same.
func fixedSecret(t *testing.T, prefix, of string) sign.Secret {
	t.Helper()
	return must.Get(sign.ParseSecret(prefix + base64.StdEncoding.EncodeToString([]byte(strings.Repeat(of, 32)))))(t)
}

// deliveries returns valid deliveries, and invalid ones that an attacker could send, as of a time.
func deliveries(t *testing.T, clock time.Time) []delivery {
	t.Helper()
	current, old := fixedSecret(t, sign.Prefix, "c"), fixedSecret(t, sign.Prefix, "o")
	variant := func(name string, valid bool, change func(*delivery)) delivery {
		d := delivery{Name: name, Secret: current.Reveal(), Body: `{"type":"order.paid","note":"é ✓"}`, Valid: valid}
		now := clock
		d.Headers = map[string]string{
			"webhook-id": "evt_01J", "webhook-timestamp": strconv.FormatInt(now.Unix(), 10),
			"webhook-signature": sign.Sign([]sign.Secret{current, old}, "evt_01J", now, []byte(d.Body)),
		}
		change(&d)
		return d
	}
	at := func(age time.Duration) func(*delivery) {
		return func(d *delivery) {
			then := clock.Add(-age)
			d.Headers["webhook-timestamp"] = strconv.FormatInt(then.Unix(), 10)
			d.Headers["webhook-signature"] = sign.Sign([]sign.Secret{current}, "evt_01J", then, []byte(d.Body))
		}
	}
	// signedWith signs with any key and any timestamp, also with those that the relay never uses.
	signedWith := func(key, timestamp string) func(*delivery) {
		return func(d *delivery) {
			mac := hmac.New(sha256.New, []byte(key))
			mac.Write([]byte(d.Headers["webhook-id"] + "." + timestamp + "." + d.Body))
			d.Headers["webhook-timestamp"] = timestamp
			d.Headers["webhook-signature"] = "v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil))
		}
	}
	raw := must.Get(base64.StdEncoding.DecodeString(strings.TrimPrefix(current.Reveal(), sign.Prefix)))(t)
	stamped := func(timestamp string) func(*delivery) { return signedWith(string(raw), timestamp) }
	secret := func(text, key string) func(*delivery) {
		return func(d *delivery) {
			d.Secret = text
			signedWith(key, d.Headers["webhook-timestamp"])(d)
		}
	}
	// cut signs body as the relay does and then splits the signed text id.timestamp.body in other places.
	cut := func(age time.Duration, body, id, timestamp, rest string) func(*delivery) {
		return func(d *delivery) {
			then := clock.Add(-age)
			d.Headers["webhook-signature"] = sign.Sign([]sign.Secret{current}, "evt_01J", then, []byte(body))
			unix := strconv.FormatInt(then.Unix(), 10)
			d.Headers["webhook-id"] = strings.ReplaceAll(id, "THEN", unix)
			d.Headers["webhook-timestamp"], d.Body = strings.ReplaceAll(timestamp, "THEN", unix), rest
		}
	}
	version := func(version string) func(*delivery) {
		return func(d *delivery) {
			d.Headers["webhook-signature"] = strings.ReplaceAll(d.Headers["webhook-signature"], "v1,", version)
		}
	}
	now := strconv.FormatInt(clock.Unix(), 10)
	set := func(header, value string) func(*delivery) { return func(d *delivery) { d.Headers[header] = value } }
	return []delivery{
		variant("signed", true, func(*delivery) {}),
		variant("the older of two secrets", true, func(d *delivery) { d.Secret = old.Reveal() }),
		variant("an empty body", true, func(d *delivery) { d.Body = ""; at(0)(d) }),
		variant("four minutes old", true, at(4*time.Minute)),
		variant("six minutes old", false, at(6*time.Minute)),
		variant("six minutes ahead", false, at(-6*time.Minute)),
		variant("another body", false, func(d *delivery) { d.Body += " " }),
		variant("another id", false, set("webhook-id", "evt_01K")),
		variant("another secret", false, func(d *delivery) { d.Secret = fixedSecret(t, sign.Prefix, "n").Reveal() }),
		variant("no secret, signed with an empty key", false, func(d *delivery) { d.Secret = "" }),
		variant("no timestamp", false, func(d *delivery) { delete(d.Headers, "webhook-timestamp") }),
		variant("a timestamp that is a word", false, set("webhook-timestamp", "now")),
		variant("no signature", false, func(d *delivery) { delete(d.Headers, "webhook-signature") }),
		variant("an empty signature", false, set("webhook-signature", "v1,")),
		variant("a signature that is no base64", false, set("webhook-signature", "v1,é")),
		variant("an old timestamp in the id, a new one from the body", false,
			cut(time.Hour, now+".rest", "evt_01J.THEN", now, "rest")),
		variant("the timestamp with digits of the body", false, cut(0, "5.rest", "evt_01J", "THEN.5", "rest")),
		variant("no id", false, func(d *delivery) { delete(d.Headers, "webhook-id") }),
		variant("an empty id", false, func(d *delivery) { d.Headers["webhook-id"] = ""; stamped(now)(d) }),
		variant("another version", false, version("v1a,")),
		variant("the version in upper case", false, version("V1,")),
		variant("no version", false, version("")),
		variant("a short signature", false, set("webhook-signature", "v1,AAAA")),
		variant("many signatures, none right", false,
			set("webhook-signature", strings.Repeat("v1,"+strings.Repeat("A", 43)+"= ", 100))),
		variant("many signatures, the last one right", true, func(d *delivery) {
			d.Headers["webhook-signature"] = "v1a,AAAA v1, v1,AAAA v2,é , " + d.Headers["webhook-signature"]
		}),
		variant("a secret of six bytes", false, secret("whsec_changeme", "r\x16\xa7\x81\xe9\x9e")),
		variant("a secret without base64, signed with an empty key", false, secret("whsec_....", "")),
		variant("a huge timestamp", false, stamped("99999999999999999999")),
		variant("a timestamp of a thousand digits", false, stamped(strings.Repeat("9", 1000))),
		variant("the largest timestamp", false, stamped("9223372036854775807")),
		variant("the smallest timestamp", false, stamped("-9223372036854775808")),
		variant("an infinite timestamp", false, stamped("Infinity")),
		variant("a timestamp that is not a number", false, stamped("NaN")),
		variant("a timestamp with an exponent", false, stamped(now+"e0")),
		variant("a timestamp in hexadecimal", false, stamped("0x"+strconv.FormatInt(clock.Unix(), 16))),
		variant("a timestamp in milliseconds", false, stamped(now+"000")),
	}
}

// readmeBlock returns the first code block of a language in docs/start/clients.md.
func readmeBlock(t *testing.T, language string) string {
	t.Helper()
	text := must.Get(os.ReadFile("../../docs/start/clients.md"))(t)
	_, rest, ok := strings.Cut(string(text), "```"+language+"\n")
	block, _, ended := strings.Cut(rest, "```\n")
	if !ok || !ended {
		t.Fatalf("docs/start/clients.md has no block of %s", language)
	}
	return block
}

// docs/start/clients.md's receiver in Go accepts what the relay signs and refuses everything else.
func TestReceiverInGo(t *testing.T) {
	for _, d := range deliveries(t, time.Now()) {
		header := http.Header{}
		for name, value := range d.Headers {
			header.Set(name, value)
		}
		if err := Verify(d.Secret, header, []byte(d.Body)); (err == nil) != d.Valid {
			t.Errorf("%s: %v", d.Name, err)
		}
	}
	source := must.Get(os.ReadFile("receiver_go_test.go"))(t)
	if want := strings.TrimPrefix(string(source), "package sign_test\n\n"); readmeBlock(t, "go") != want {
		t.Errorf("docs/start/clients.md does not show the receiver of receiver_go_test.go:\n%s", want)
	}
}

// receivers are those of docs/start/clients.md in other languages than Go. Each answers on $PORT, if need be with a
// harness.
var receivers = []struct{ language, file, compile, run, harness string }{
	{"js", "receive.mjs", "", "node receive.mjs", `
import { createServer } from "node:http";
createServer(async (request, response) => {
  const parts = [];
  for await (const part of request) parts.push(part);
  let status = 204;
  try { verify(process.env.RELAY_SIGNING_SECRET, request.headers, Buffer.concat(parts)); } catch { status = 401; }
  response.writeHead(status).end();
}).listen(process.env.PORT, "127.0.0.1");
`},
	{"python", "receive.py", "", "python3 receive.py", `
import os
from http.server import BaseHTTPRequestHandler, HTTPServer

class Receiver(BaseHTTPRequestHandler):
    def do_POST(self):
        headers = {name.lower(): value for name, value in self.headers.items()}
        status = 204
        try:
            body = self.rfile.read(int(headers["content-length"]))
            verify(os.environ["RELAY_SIGNING_SECRET"], headers, body)
        except Exception:
            status = 401
        self.send_response(status)
        self.end_headers()

HTTPServer(("127.0.0.1", int(os.environ["PORT"])), Receiver).serve_forever()
`},
	{"php", "receive.php", "", "php -S 127.0.0.1:$PORT receive.php", ""},
	{"ruby", "config.ru", "", "rackup --host 127.0.0.1 --port $PORT", ""},
	{"java", "Receiver.java", "javac Receiver.java", "java -XX:TieredStopAtLevel=1 Receiver", ""},
	{"csharp", "Receiver.cs", "mcs Receiver.cs", "mono Receiver.exe", ""},
}

// docs/start/clients.md's receivers answer 204 to what the relay signs and 401 to everything else.
func TestReceiversInOtherLanguages(t *testing.T) {
	for _, r := range receivers {
		t.Run(r.language, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			for _, line := range []string{r.compile, r.run} {
				if program, _, _ := strings.Cut(line, " "); program != "" {
					if _, err := exec.LookPath(program); err != nil {
						kit.SkipMissing(t, "docs/start/clients.md's receiver in %s: %v", r.language, err)
					}
				}
			}
			source := readmeBlock(t, r.language) + r.harness
			must.Do(t, os.WriteFile(filepath.Join(dir, r.file), []byte(source), 0o600))
			if line := strings.Fields(r.compile); len(line) > 0 {
				compile := exec.CommandContext(t.Context(), line[0], line[1:]...)
				compile.Dir = dir
				if out, err := compile.CombinedOutput(); err != nil {
					t.Fatalf("%v\n%s", err, out)
				}
			}
			started := map[string]string{} // URLs by secret
			for _, d := range deliveries(t, time.Now()) {
				if started[d.Secret] == "" {
					started[d.Secret] = startReceiver(t, dir, r.run, d.Secret)
				}
				want := http.StatusUnauthorized
				if d.Valid {
					want = http.StatusNoContent
				}
				is.Equal(t, d.post(t, started[d.Secret]), want, "%s: the receiver answers", d.Name)
			}
		})
	}
}

// startReceiver runs a receiver with a secret until the test ends, and returns its URL.
func startReceiver(t *testing.T, dir, run, secret string) string {
	t.Helper()
	port := strconv.Itoa(kit.FreePort(t))
	line := strings.Fields(strings.ReplaceAll(run, "$PORT", port))
	cmd := exec.CommandContext(t.Context(), line[0], line[1:]...)
	printed := must.Get(os.Create(filepath.Join(dir, port+".log")))(t)
	cmd.Dir, cmd.Stdout, cmd.Stderr = dir, printed, printed
	cmd.Env = append(os.Environ(), "PORT="+port, "RELAY_SIGNING_SECRET="+secret)
	must.Do(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Wait() // it was killed with the test's context
		if out, err := os.ReadFile(printed.Name()); t.Failed() {
			t.Logf("%s (%v)", out, err)
		}
		_ = printed.Close()
	})
	kit.Eventually(t, 10*time.Second, func() string {
		conn, err := net.Dial("tcp", "127.0.0.1:"+port)
		if err != nil {
			return err.Error()
		}
		_ = conn.Close()
		return ""
	})
	return "http://127.0.0.1:" + port + "/"
}

// post sends the delivery to a receiver and returns the status of the answer.
func (d delivery) post(t *testing.T, url string) int {
	t.Helper()
	req := must.Get(http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader(d.Body)))(t)
	for name, value := range d.Headers {
		req.Header.Set(name, value)
	}
	resp := must.Get(http.DefaultClient.Do(req))(t)
	_ = resp.Body.Close()
	return resp.StatusCode
}
