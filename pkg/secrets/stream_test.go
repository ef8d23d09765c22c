package secrets_test

import (
	"bytes"
	"io"
	"strings"
	"testing"

	"github.com/eventrelay/relay/pkg/apikey"
	"github.com/eventrelay/relay/pkg/secrets"
	"github.com/eventrelay/relay/test/must"
)

func leaks(t testing.TB) *secrets.Scanner {
	t.Helper()
	s := must.Get(secrets.New(secrets.ForLeaks))(t)
	return s
}

// A key is found once, at its offset in the stream, wherever two writes cut it and wherever it lies in the window.
func TestStreamFindsKeyCutAnywhere(t *testing.T) {
	s := leaks(t)
	key := "ghp" + "_" + "q8ZkT2vN4xW7yR1mB5cJ9dL3fH6gS0pAaEuX"
	for _, before := range []int{0, 1, 100, 64<<10 - 60, 64<<10 - 20, 64 << 10, 200 << 10} {
		text := []byte(strings.Repeat("a line\n", before/7+1)[:max(0, before-1)] + "\n" + key + "\nanother line")
		at := bytes.Index(text, []byte(key))
		for cut := at - 1; cut <= at+len(key)+1; cut++ {
			if cut < 0 {
				continue
			}
			found := 0
			stream := s.NewStream(func(f secrets.Found) bool {
				found++
				if f.Offset != int64(at) || string(f.Secret) != key || f.Rule.ID != "github-token" ||
					!bytes.HasSuffix(text[:at], f.Before) || !bytes.HasPrefix(text[at+len(key):], f.After) {
					t.Errorf("%s at %d, want %d", f.Rule.ID, f.Offset, at)
				}
				return true
			})
			for _, piece := range [][]byte{text[:cut], text[cut:]} {
				if n, err := stream.Write(piece); n != len(piece) || err != nil {
					t.Fatal(n, err)
				}
			}
			if err := stream.Close(); err != nil || found != 1 {
				t.Fatalf("%d bytes before, cut at %d: found %d times (%v)", before, cut, found, err)
			}
		}
	}
}

// A secret near the start is reported although nothing that looks like a prefix follows it, however long the text is.
func TestStreamGoesOnBehindASecret(t *testing.T) {
	var offsets []int64
	stream := leaks(t).NewStream(func(f secrets.Found) bool {
		offsets = append(offsets, f.Offset)
		return true
	})
	must.Get(io.WriteString(stream, apikey.New()+strings.Repeat(" \n", 1<<20)+apikey.New()))(t)
	if err := stream.Close(); err != nil || len(offsets) != 2 || offsets[0] != 0 {
		t.Errorf("secrets at %v, %v", offsets, err)
	}
}
