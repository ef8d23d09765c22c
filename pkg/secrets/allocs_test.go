package secrets

import "testing"

// Text without a credential costs no allocation: not the scan, not the parts of a stream.
func TestScanWithoutMatchDoesNotAllocate(t *testing.T) {
	s := newLeaks(t)
	// What begins like a credential is no match, and costs nothing either.
	text := append(logLines(200<<10), `token=short password: "$SECRET" eyJhbGciOiJIUzI1NiJ9.e30.c2ln https://a:b@c `+
		`sk_live_ AKIA`...)
	if n := testing.AllocsPerRun(5, func() {
		s.Scan(text, func(m Match) bool { t.Fatal(m.Rule.ID); return false })
	}); n > 0 {
		t.Errorf("Scan allocates %v times", n)
	}
	stream := s.NewStream(func(f Found) bool { t.Fatal(f.Rule.ID); return false })
	if n := testing.AllocsPerRun(5, func() {
		if _, err := stream.Write(text); err != nil {
			t.Fatal(err)
		}
	}); n > 0 {
		t.Errorf("Write allocates %v times", n)
	}
}
