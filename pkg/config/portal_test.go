package config

import (
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/eventrelay/relay/pkg/config/entity"
	"github.com/eventrelay/relay/pkg/stream"
	"github.com/eventrelay/relay/test/is"
)

// A link opens once, whichever nodes it is sent to, until it ends; its session ends by time, by hand and with its
// tenant, on every node.
func TestPortalSessions(t *testing.T) {
	bubble(t, func(t *testing.T, conf stream.Config) {
		ctx := t.Context()
		a, b := node(t, conf, Config{Node: "a"}), node(t, conf, Config{Node: "b"})
		account := a.Account().ID
		tenant := func() {
			t.Helper()
			if _, err := a.PutTenant(ctx, account, "t", func(*Tenant) error { return nil }); err != nil {
				t.Fatal(err)
			}
		}
		link := func() string {
			t.Helper()
			token, _, err := a.CreatePortalLink(ctx, &PortalSession{Meta: entity.Meta{Account: account}, Tenant: "t",
				Lasts: time.Hour}, 10*time.Minute)
			if err != nil {
				t.Fatal(err)
			}
			return token
		}
		wantOpen := func(s *PortalSession, open bool) {
			t.Helper()
			for _, n := range []*testNode{a, b} {
				if _, err := n.PortalSession(s.ID); open && err != nil || !open && !errors.Is(err, ErrSessionEnded) {
					t.Errorf("open %v: %v", open, err)
				}
			}
		}
		if _, _, err := a.CreatePortalLink(ctx, &PortalSession{Meta: entity.Meta{Account: account}, Tenant: "none"},
			time.Hour); !errors.Is(err, ErrNotFound) {
			t.Errorf("a link of no tenant: %v", err)
		}
		tenant()
		token := link()
		var opened atomic.Pointer[PortalSession]
		var refused atomic.Int32
		for i := range 8 {
			go func() {
				s, err := []*testNode{a, b}[i%2].OpenPortalLink(ctx, token)
				if errors.Is(err, ErrLink) || errors.Is(err, ErrConflict) {
					refused.Add(1)
				} else if err == nil {
					opened.Store(s)
				}
			}()
		}
		synctest.Wait()
		time.Sleep(10 * time.Second)
		if opened.Load() == nil || refused.Load() != 7 {
			t.Fatalf("opened %v, refused %d", opened.Load(), refused.Load())
		}
		wantOpen(opened.Load(), true)
		time.Sleep(time.Hour)
		wantOpen(opened.Load(), false)

		late := link()
		time.Sleep(10 * time.Minute)
		if _, err := b.OpenPortalLink(ctx, late); !errors.Is(err, ErrLink) {
			t.Errorf("a link that has ended: %v", err)
		}
		session := func() *PortalSession {
			t.Helper()
			s, err := b.OpenPortalLink(ctx, link())
			if err != nil {
				t.Fatal(err)
			}
			return s
		}
		ended := session()
		is.OK(t, a.EndPortalSession(ctx, ended.ID))
		wantOpen(ended, false)

		// A tenant that has as many as it may loses the oldest link that nobody has opened.
		oldest := link()
		for range maxTenantSessions {
			link()
		}
		if _, err := b.OpenPortalLink(ctx, oldest); !errors.Is(err, ErrLink) {
			t.Errorf("the oldest of too many links: %v", err)
		}
		s, unused := session(), link()
		if err := a.DeleteTenant(ctx, a.Tenant(account, "t")); err != nil {
			t.Fatal(err)
		}
		tenant()
		wantOpen(s, false)
		if _, err := b.OpenPortalLink(ctx, unused); !errors.Is(err, ErrLink) {
			t.Errorf("a link of a deleted tenant: %v", err)
		}
	})
}
