package secrets

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/eventrelay/relay/test/must"
)

// The ingest URL of a tripwire is found however it is written, its canonical form is the token, and a mask hides it.
// Ingest URLs of endpoints are not found.
func TestIngestURLs(t *testing.T) {
	const decoy, other = "3vtestq2mfx8h5n7k0w9c4r6da", "7b1xz0f3s8m5qk2v9rw4tn6hjc"
	leaks := must.Get(New(ForLeaks))(t)
	s := must.Get(leaks.WithIngestURLs(func(token string) bool { return token == decoy }))(t)
	for _, text := range []string{
		"POST https://relay.example.com/in/%s HTTP/1.1", `{"url":"https:\/\/relay.example.com\/in\/%s"}`,
		"next=https%%3A%%2F%%2Frelay.example.com%%2Fin%%2F%s&a=b", "next=%%2fin%%2f%s", "/in/%s/info/refs", "/in/%s",
		"WEBHOOK_URL=http://127.0.0.1:8080/in/%s\nA=b",
	} {
		line := []byte(fmt.Sprintf(text, decoy))
		var found []string
		keep := func(rule *Rule, secret []byte) bool {
			found = append(found, rule.ID+" "+string(rule.Canonical(secret)))
			return true
		}
		s.Scan(line, func(m Match) bool { return keep(m.Rule, line[m.Start:m.End]) })
		stream := s.NewStream(func(f Found) bool { return keep(f.Rule, f.Secret) })
		for i := range line {
			_, _ = stream.Write(line[i : i+1])
		}
		must.Do(t, stream.Close())
		if want := "decoy-ingest-url " + decoy; strings.Join(found, "|") != want+"|"+want {
			t.Errorf("%s: %q", line, found)
		}
		if masked, n := s.MaskAll(nil, line); n != 1 || bytes.Contains(masked, []byte(decoy[:8])) {
			t.Errorf("masked %d: %s", n, masked)
		}
		for _, no := range []string{other, decoy + "x", decoy[1:], strings.ToUpper(decoy)} {
			if masked, n := s.MaskAll(nil, fmt.Appendf(nil, text, no)); n != 0 {
				t.Errorf("%s", masked)
			}
		}
	}
}

// The token of an ingest URL is masked wherever it stands; other text of the same form stays.
func TestMaskIngestTokens(t *testing.T) {
	const token, other = "3vtestq2mfx8h5n7k0w9c4r6da", "7b1xz0f3s8m5qk2v9rw4tn6hjc"
	isToken := func(text string) bool { return text == token }
	for _, text := range []string{
		"%s", "POST https://relay.example.com/in/%s HTTP/1.1", `{"url":"https:\/\/relay.example.com\/in\/%s"}`,
		"next=https%%3A%%2F%%2Frelay.example.com%%2Fin%%2F%s&a=b", "next=%%2fin%%2f%s", "/in/%s/info", "a\\u002fin\\u002f%s",
		"id=%%3D%s%%2Fx", `{"token":"%s","id":"evt_%[1]s"}`, "in%%252F%[1]s%%26x", "/in/x%s", "%swebhook", "%s,%[1]s\n",
	} {
		want := fmt.Sprintf(text, "****"+token[22:])
		for _, form := range []string{token, strings.ToUpper(token)} {
			got := string(MaskIngestTokens([]byte(fmt.Sprintf(text, form)), isToken))
			if !strings.EqualFold(got, want) {
				t.Errorf("%s, want %s", got, want)
			}
		}
		for _, no := range []string{other, token[1:], token[:25] + "-"} {
			if same := fmt.Sprintf(text, no); string(MaskIngestTokens([]byte(same), isToken)) != same {
				t.Errorf("%s is masked", same)
			}
		}
	}
	asked := 0
	MaskIngestTokens(bytes.Repeat([]byte("0a"), 1<<19), func(string) bool { asked++; return false })
	if asked > 2 {
		t.Errorf("a long number is asked about %d times", asked)
	}
	asked = 0
	crafted := "a " + strings.Repeat("2fz", 1<<18) + " b " + token
	got := MaskIngestTokens([]byte(crafted), func(text string) bool { asked++; return isToken(text) })
	if want := "a ****z2fz b ****" + token[22:]; string(got) != want || asked > 1<<20/32+20 {
		t.Errorf("%.100s after %d questions", got, asked)
	}
	random := make([]byte, 1<<19)
	_, _ = rand.NewChaCha8([32]byte{}).Read(random) // never fails
	for _, text := range [][]byte{
		random, bytes.Repeat([]byte("="), 1_000), bytes.Repeat([]byte("a=1&b=/usr/share/doc/"), 100)} {
		if same := hex.AppendEncode(nil, text); !bytes.Equal(MaskIngestTokens(same, isToken), same) {
			t.Errorf("hexadecimal text is masked: %.50s", same)
		}
	}
}
