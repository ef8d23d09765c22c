package sign

import (
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/eventrelay/relay/test/is"
	"github.com/eventrelay/relay/test/kit"
	"github.com/eventrelay/relay/test/must"
)

// The key of the second test of RFC 8032, 7.1.
const (
	rfcSeed   = "4ccd089b28ff96da9db6c346ec114e0f5b8a319f35aba624da8cf6ed4fb8a6fb"
	rfcPublic = "3d4017c3e843895a92b70aa74d1b7ebc9c982ccf2ec4968cc0cd55f12af4660c"
)

func bytesOf(t *testing.T, text string) []byte { return must.Get(hex.DecodeString(text))(t) }

func TestParsePrivateKey(t *testing.T) {
	seed, public := bytesOf(t, rfcSeed), bytesOf(t, rfcPublic)
	text := func(raw ...byte) string { return PrivatePrefix + base64.StdEncoding.EncodeToString(raw) }
	whole := text(append(append([]byte(nil), seed...), public...)...)
	for _, in := range []string{text(seed...), whole} {
		s, err := ParseSecret(in)
		if err != nil || s.Algorithm() != Ed25519 || s.Reveal() != whole {
			t.Fatalf("%q: %s, %v", in, s.Reveal(), err)
		}
		is.Equal(t, *s.PublicText(), "whpk_"+base64.StdEncoding.EncodeToString(public), "the public key")
		if got := fmt.Sprintf("%v %+v %#v", s, s, s); strings.Contains(got, whole[5:20]) ||
			!strings.HasPrefix(got, "whsk_****") {
			t.Errorf("printed as %s", got)
		}
	}
	for in, want := range map[string]string{
		text(append(append([]byte(nil), seed...), seed...)...): "not the public key",
		text(seed[:31]...):                       "32 or 64 bytes",
		PrivatePrefix:                            "32 or 64 bytes",
		PrivatePrefix + strings.Repeat("A", 1e6): "32 or 64 bytes",
		whole + "\n":                             "standard base64",
	} {
		if s, err := ParseSecret(in); err == nil || !s.IsZero() || !strings.Contains(err.Error(), want) {
			t.Errorf("%.80q: %v, want %q", in, err, want)
		}
	}
	if s := NewSecret(); s.Algorithm() != HMAC || s.PublicText() != nil || s.PublicKey() != nil {
		t.Error("an HMAC secret has a public key")
	}
}

// Receivers that read one signature only keep working while the algorithm changes, in both directions.
func TestSignaturesOfBothAlgorithms(t *testing.T) {
	symmetric, private := New(HMAC), New(Ed25519)
	for _, secrets := range [][]Secret{{symmetric, private}, {private, symmetric}} {
		got := strings.Fields(Sign(secrets, "evt_1", time.Unix(1700000000, 0), []byte("body")))
		if len(got) != 2 || !strings.HasPrefix(got[0], "v1,") || !strings.HasPrefix(got[1], "v1a,") {
			t.Errorf("signed %q", got)
		}
	}
}

// Two other implementations of Ed25519, OpenSSL in Node and libsodium in PHP, verify what the header says with the
// public key that the API shows. That in Node is the receiver of docs/start/clients.md.
func TestEd25519VerifiesInOtherLanguages(t *testing.T) {
	private, dir := New(Ed25519), t.TempDir()
	text := string(must.Get(os.ReadFile("../../docs/start/clients.md"))(t))
	_, text, _ = strings.Cut(text, "### With a public key")
	_, text, _ = strings.Cut(text, "```js\n")
	receiver, _, ok := strings.Cut(text, "```\n")
	if !ok {
		t.Fatal("docs/start/clients.md has no receiver with a public key")
	}
	scripts := map[string]string{
		"node": receiver + `
const [, , key, id, time, signature, body] = process.argv
const headers = {'webhook-id': id, 'webhook-timestamp': time, 'webhook-signature': signature}
process.exit(isFromRelay(key, headers, Buffer.from(body)) ? 0 : 3)`,
		"php": `<?php [, $key, $id, $time, $signature, $body] = $argv;
exit(sodium_crypto_sign_verify_detached(base64_decode(str_replace('v1a,', '', $signature)), "$id.$time.$body",
  base64_decode(str_replace('whpk_', '', $key))) ? 0 : 3);`,
	}
	for name, script := range scripts {
		program, err := exec.LookPath(name)
		if err != nil {
			kit.SkipMissing(t, "verifying with %s: it is not installed", name)
		}
		file := filepath.Join(dir, name+".mjs")
		must.Do(t, os.WriteFile(file, []byte(script), 0o600))
		now := time.Now()
		for _, x := range []struct {
			signed, sent string
			by           Secret
			valid        bool
		}{{`{"a":"é ✓"}`, `{"a":"é ✓"}`, private, true}, {"", "", private, true}, {"x", "y", private, false},
			{"x", "x", New(Ed25519), false}} {
			unix := strconv.FormatInt(now.Unix(), 10)
			cmd := exec.CommandContext(t.Context(), program, file, *private.PublicText(), "evt_1", unix,
				Sign([]Secret{x.by}, "evt_1", now, []byte(x.signed)), x.sent)
			if out, err := cmd.CombinedOutput(); (err == nil) != x.valid || cmd.ProcessState.ExitCode() > 3 {
				t.Errorf("%s, signed %q, sent %q: %v %s", name, x.signed, x.sent, err, out)
			}
		}
	}
}
