package dashboard

import (
	"net/url"
	"testing"
)

func TestSignInAndOut(t *testing.T) {
	b := newRig(t).browser()
	b.get("/app").wantRedirect("/app/sign-in?next=%2Fapp")
	b.get("/app/sign-in?next=/app").want(200, "Sign in", `name="next" value="/app"`)
	form := url.Values{"email": {" Ops@Example.com"}, "password": {goodPassword}, "next": {"/app?x=1"}}
	b.post("/app/sign-in", form).wantRedirect("/app?x=1")
	b.get("/app").want(200, "ops@example.com", "Start")
	b.post("/app/sign-out", url.Values{}).wantRedirect("/app/sign-in")
	b.get("/app/sign-in").want(200, "You are signed out.")
	b.get("/app").wantRedirect("/app/sign-in?next=%2Fapp")
}
