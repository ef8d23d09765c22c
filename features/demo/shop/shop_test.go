package shop

import (
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/eventrelay/relay/pkg/config"
	"github.com/eventrelay/relay/test/is"
	"github.com/eventrelay/relay/test/must"
)

// The warehouse breaks and works again at the times in its URL, on each node; the mailer always works.
func TestDestinations(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		body := Body(began, "secret")
		got, want := "", ""
		for range 60 {
			want += "200 "
			if age := time.Since(began); age >= Works && age < Works+Broken {
				want += "503 "
			} else {
				want += "200 "
			}
			for _, d := range body["destinations"].([]map[string]any) {
				r := must.Get(http.NewRequestWithContext(t.Context(), "POST", d["url"].(string), strings.NewReader("{}")))(t)
				resp := must.Get(Receiver{time.Now}.RoundTrip(r))(t)
				must.Get(io.ReadAll(resp.Body))(t)
				got += resp.Status[:3] + " "
			}
			time.Sleep(time.Second - 2*takes)
		}
		is.Equal(t, got, want, "mailer and warehouse answer in turns")
		ep := &config.Endpoint{Metadata: body["metadata"].(map[string]string),
			Destinations: []config.Destination{{URL: "https://" + Host + "/x"}}}
		at, ok := BeganAt(ep)
		is.Equal(t, ok && at.Unix() == began.Unix(), true, "the endpoint says when the sample began")
		ep.Tenant = "acme"
		_, ok = BeganAt(ep)
		is.Equal(t, ok, false, "an endpoint of a tenant is a sample")
		ep.Tenant, ep.Destinations[0].URL = "", "https://example.com/"
		_, ok = BeganAt(ep)
		is.Equal(t, ok, false, "an endpoint that sends to others is a sample")
	})
}
