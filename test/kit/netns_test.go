package kit

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"time"
)

// A host that is cut off reaches nobody until it is healed, and the machine's own network is not theirs.
func TestNetwork(t *testing.T) {
	n := NewNetwork(t)
	a, b := n.Host(t, "a"), n.Host(t, "b")
	server := httptest.NewUnstartedServer(http.NotFoundHandler())
	server.Listener.Close()
	server.Listener = n.Hub.Listen(t)
	server.Start()
	t.Cleanup(server.Close)
	reaches := func(h *Host) error {
		tr := h.Transport()
		defer tr.CloseIdleConnections()
		resp, err := (&http.Client{Transport: tr, Timeout: 2 * time.Second}).Get(server.URL)
		if err == nil {
			resp.Body.Close()
		}
		return err
	}
	for _, h := range []*Host{a, b, n.Hub} {
		if err := reaches(h); err != nil {
			t.Fatal(err)
		}
	}
	b.Cut(t)
	if reaches(b) == nil {
		t.Error("a host that is cut off reaches the hub")
	}
	if err := reaches(a); err != nil {
		t.Error(err)
	}
	b.Heal(t)
	// A connection that is begun while the kernel still waits for the hub's answer from before fails with it.
	if err := reaches(b); err != nil && reaches(b) != nil {
		t.Error(err)
	}
	here := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(here.Close)
	if conn, err := a.Dial("tcp", here.Listener.Addr().String()); err == nil {
		conn.Close()
		t.Errorf("a host reaches %s of the machine itself", here.URL)
	}
}
