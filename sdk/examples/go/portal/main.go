// Command portal is an example: an application that shows its customers their webhooks, the portal of the relay in a
// frame. The relay runs with RELAY_PORTAL_ORIGINS=http://localhost:3000.
//
//	export RELAY_BASE_URL=http://127.0.0.1:8080 RELAY_API_KEY=rly_live_…
//	go run ./examples/go/portal
//
// It has pages /?customer=NAME, with the frame; /order?customer=NAME, which sends an event; and /refresh, where the
// portal gets its next link.
package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"html/template"
	"io"
	"log"
	"net/http"
	"os"
	"regexp"
	"time"
)

var own = "http://localhost:" + cmp.Or(os.Getenv("PORT"), "3000")

func main() {
	if os.Getenv("RELAY_BASE_URL") == "" || os.Getenv("RELAY_API_KEY") == "" {
		log.Fatal("usage: RELAY_BASE_URL=… RELAY_API_KEY=… portal")
	}
	http.HandleFunc("GET /{$}", forCustomer(func(w http.ResponseWriter, r *http.Request, customer string) error {
		link, err := newLink(r.Context(), customer)
		if err != nil {
			return err
		}
		return page.Execute(w, map[string]string{"Link": link, "Customer": customer})
	}))
	http.HandleFunc("GET /refresh", forCustomer(func(w http.ResponseWriter, r *http.Request, customer string) error {
		link, err := newLink(r.Context(), customer)
		if err == nil {
			http.Redirect(w, r, link, http.StatusSeeOther)
		}
		return err
	}))
	http.HandleFunc("GET /order", forCustomer(func(w http.ResponseWriter, r *http.Request, customer string) error {
		order := map[string]any{"type": "order.paid", "data": map[string]any{"order_id": time.Now().Unix()}}
		err := call(r.Context(), "POST", "/v1/tenants/"+customer+"/events", order, nil)
		if err == nil {
			http.Redirect(w, r, "/?customer="+customer, http.StatusSeeOther)
		}
		return err
	}))
	log.Print("open ", own)
	log.Fatal(http.ListenAndServe("localhost:"+cmp.Or(os.Getenv("PORT"), "3000"), nil))
}

var name = regexp.MustCompile(`^[A-Za-z0-9._:-]{1,64}$`)

// forCustomer calls show for who is signed in. A real application takes that from its session, never from the URL.
func forCustomer(show func(w http.ResponseWriter, r *http.Request, customer string) error) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		customer := cmp.Or(r.URL.Query().Get("customer"), "customer-1")
		err := fmt.Errorf("no such customer")
		if name.MatchString(customer) {
			err = show(w, r, customer)
		}
		if err != nil {
			log.Print(err)
			http.Error(w, "The webhooks cannot be shown at the moment.", http.StatusInternalServerError)
		}
	}
}

// newLink creates the tenant, unless it is there, and a link for one visit.
func newLink(ctx context.Context, customer string) (string, error) {
	var made struct{ URL string }
	look := map[string]string{"title": "Shop webhooks", "color": "#0b6e4f"}
	err := call(ctx, "PUT", "/v1/tenants/"+customer, map[string]any{"name": customer, "portal": look}, nil)
	if err == nil {
		err = call(ctx, "POST", "/v1/tenants/"+customer+"/portal_links", map[string]any{
			"can":        []string{"destinations", "secrets", "replay", "test"},
			"return_url": own + "/?customer=" + customer, "refresh_url": own + "/refresh?customer=" + customer}, &made)
	}
	return made.URL, err
}

// call makes one call of the relay's API.
func call(ctx context.Context, method, path string, body, into any) error {
	text, err := json.Marshal(body)
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, method, os.Getenv("RELAY_BASE_URL")+path, bytes.NewReader(text))
	if err != nil {
		return err
	}
	req.Header.Set("Authorization", "Bearer "+os.Getenv("RELAY_API_KEY"))
	req.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if answer, _ := io.ReadAll(resp.Body); resp.StatusCode > 299 {
		return fmt.Errorf("%s: %s", resp.Status, answer)
	} else if into != nil {
		return json.Unmarshal(answer, into)
	}
	return nil
}

// page has the frame, which becomes as high as what it shows.
var page = template.Must(template.New("").Parse(`<!doctype html><html lang="en">
<meta name="viewport" content="width=device-width"><title>Shop</title>
<h1>Webhooks of {{.Customer}}</h1>
<p><a href="/order?customer={{.Customer}}">Place an order</a>, which sends an event</p>
<iframe src="{{.Link}}" title="Webhooks" width="100%" height="600" style="border:0"></iframe>
<script>
addEventListener("message", ({ origin, data }) => {
  if (origin !== new URL({{.Link}}).origin) return;
  const frame = document.querySelector("iframe");
  if (data?.type === "eventrelay:height") frame.height = data.height;
  if (data?.type === "eventrelay:page") frame.scrollIntoView();
});
</script></html>`))
