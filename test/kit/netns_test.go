package kit

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/eventrelay/relay/test/is"
	"github.com/eventrelay/relay/test/must"
)

// A host that is cut off reaches no other host until Heal; one that is cut from another host reaches the others; and no
// host reaches the machine's own network.
func TestHostIsUnreachableWhileCutOff(t *testing.T) {
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
		must.Do(t, reaches(h))
	}
	a.CutFrom(t, n.Hub)
	if reaches(a) == nil {
		t.Error("a host that is cut from the hub can reach it")
	}
	is.OK(t, reaches(b))
	beside := httptest.NewUnstartedServer(http.NotFoundHandler())
	beside.Listener.Close()
	beside.Listener = b.Listen(t)
	beside.Start()
	t.Cleanup(beside.Close)
	if conn, err := a.Dial("tcp", beside.Listener.Addr().String()); err != nil {
		t.Errorf("a host that is cut from the hub does not reach another one: %v", err)
	} else {
		conn.Close()
	}
	a.HealFrom(t, n.Hub)
	if err := reaches(a); err != nil && reaches(a) != nil {
		t.Error(err)
	}
	b.Cut(t)
	if reaches(b) == nil {
		t.Error("a host that is cut off can reach the hub")
	}
	is.OK(t, reaches(a))
	b.Heal(t)
	// The first connection may fail: the kernel may still wait for the hub's answer to an ARP request sent before Heal.
	if err := reaches(b); err != nil && reaches(b) != nil {
		t.Error(err)
	}
	here := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(here.Close)
	if conn, err := a.Dial("tcp", here.Listener.Addr().String()); err == nil {
		conn.Close()
		t.Errorf("a host can reach %s of the machine itself", here.URL)
	}
}
