package secrets

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
)

// The ingest URL of a tripwire is found however it is written, its canonical form is the token, and a mask hides it.
// Ingest URLs of endpoints are not found.
func TestIngestURLs(t *testing.T) {
	const decoy, other = "3vtestq2mfx8h5n7k0w9c4r6da", "7b1xz0f3s8m5qk2v9rw4tn6hjc"
	leaks, err := New(ForLeaks)
	if err != nil {
		t.Fatal(err)
	}
	s, err := leaks.WithIngestURLs(func(token string) bool { return token == decoy })
	if err != nil {
		t.Fatal(err)
	}
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
		if err := stream.Close(); err != nil {
			t.Fatal(err)
		}
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
