package ui

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/eventrelay/relay/pkg/config"
	"github.com/eventrelay/relay/test/must"
)

// anybody is the person of every session.
type anybody struct{ Control }

func (anybody) SessionUser(string, string, int) (*config.User, error) { return &config.User{}, nil }

func (anybody) SessionKey(context.Context) ([32]byte, error) { return [32]byte{1}, nil }

// A cookie of another purpose is no session, even if it holds one.
func TestCookieOfAMessageIsNoSession(t *testing.T) {
	now := time.Now()
	d := &Dashboard{hosts: &hosts{}, Deps: Deps{Now: func() time.Time { return now }, Account: func() string { return "" },
		Control: anybody{}}}
	for suffix, want := range map[string]bool{"": true, toastCookie: false} {
		w := httptest.NewRecorder()
		v := &Visit{Dashboard: d, W: w, R: httptest.NewRequest(http.MethodGet, "/app", nil)}
		held := session{ID: "s", User: "usr_1", Began: now.Unix(), Issued: now.Unix(), Epoch: 7}
		must.Do(t, v.setSealed(suffix, held, time.Minute))
		v.R.AddCookie(&http.Cookie{Name: v.cookieName(""), Value: w.Result().Cookies()[0].Value})
		if err := v.openSession(); err != nil || (v.Person != nil) != want {
			t.Errorf("%q: %v, %v", suffix, v.Person, err)
		}
	}
}

// Large forms are counted by user, over all sessions of the user.
func TestFormsOfAPersonAreCounted(t *testing.T) {
	open := openForms{of: map[string]int{}}
	var leave func()
	for range maxForms {
		var err error
		if leave, err = open.enter("usr_1"); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := open.enter("usr_1"); err == nil {
		t.Error("there is no bound")
	}
	if other, err := open.enter("usr_2"); err != nil {
		t.Error(err)
	} else {
		other()
	}
	if leave(); open.of["usr_1"] != maxForms-1 || len(open.of) != 1 {
		t.Errorf("%v", open.of)
	}
}
