// Command receive is an example: a destination of the relay. It verifies each delivery with the Standard Webhooks
// library, handles each event once, and prints it.
//
//	PORT=3000 RELAY_SIGNING_SECRET=whsec_… go run ./examples/go/receive
package main

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
)

const (
	maxBody = 10 << 20
	minKey  = 24
)

func main() {
	secret := os.Getenv("RELAY_SIGNING_SECRET")
	if secret == "" {
		log.Fatal("RELAY_SIGNING_SECRET is missing: it is the destination's signing.secret")
	}
	// The library would take a short key, even an empty one, with which anybody can sign.
	key, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(secret, "whsec_"))
	if err != nil || len(key) < minKey {
		log.Fatal("RELAY_SIGNING_SECRET is invalid: it must be whsec_ and at least 24 bytes in base64")
	}
	webhook, err := standardwebhooks.NewWebhook(secret)
	if err != nil {
		log.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:"+os.Getenv("PORT"))
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("listening on", listener.Addr())
	server := &http.Server{Handler: &receiver{webhook: webhook, handled: map[string]bool{}},
		ReadHeaderTimeout: 5 * time.Second}
	log.Fatal(server.Serve(listener))
}

// receiver answers deliveries.
type receiver struct {
	webhook *standardwebhooks.Webhook
	mu      sync.Mutex
	handled map[string]bool // in an application: a unique column, written in the same transaction as the change
}

func (r *receiver) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	body, err := io.ReadAll(http.MaxBytesReader(w, req.Body, maxBody)) // the bytes as received: they are what is signed
	if err != nil {
		http.Error(w, "the body cannot be read", http.StatusBadRequest)
		return
	}
	if err := r.webhook.Verify(body, req.Header); err != nil {
		http.Error(w, err.Error(), http.StatusUnauthorized)
		return
	}
	if err := r.handle(req.Header.Get("webhook-id"), body); err != nil {
		http.Error(w, "not handled", http.StatusInternalServerError) // the relay delivers it again
		return
	}
	w.WriteHeader(http.StatusNoContent)
}

// handle does the work of an event, once.
func (r *receiver) handle(id string, body []byte) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.handled[id] {
		return nil
	}
	var event struct {
		Type string          `json:"type"`
		Data json.RawMessage `json:"data"`
	}
	if err := json.Unmarshal(body, &event); err != nil {
		return err
	}
	fmt.Println("received", id, event.Type, string(event.Data))
	r.handled[id] = true
	return nil
}
