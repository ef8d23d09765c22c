// Command send is an example: it sends one event to an endpoint of the relay and prints the event's id.
//
//	export RELAY_BASE_URL=http://localhost:8080 RELAY_API_KEY=rly_live_…
//	go run ./examples/go/send ep_… order.paid '{"amount":4200}'
package main

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net/http"
	"os"
	"strconv"
	"time"
)

const maxTries = 5

func main() {
	if len(os.Args) != 4 || os.Getenv("RELAY_BASE_URL") == "" {
		log.Fatal("usage: RELAY_BASE_URL=… RELAY_API_KEY=… send ENDPOINT TYPE JSON")
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	id, err := send(ctx, os.Args[1], os.Args[2], json.RawMessage(os.Args[3]))
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(id)
}

// send sends an event and returns its id. It repeats a request that failed. The key is the same each time, so that the
// event is stored once.
func send(ctx context.Context, endpoint, eventType string, data json.RawMessage) (id string, err error) {
	body, err := json.Marshal(map[string]any{"type": eventType, "data": data})
	if err != nil {
		return "", err
	}
	key := rand.Text() // in an application: an id that the change already has, such as the order's
	for try := 1; ; try++ {
		id, wait, err := sendOnce(ctx, endpoint, key, body)
		if err == nil || wait == 0 || try == maxTries {
			return id, err
		}
		select {
		case <-time.After(max(wait, time.Duration(try*try)*200*time.Millisecond)):
		case <-ctx.Done():
			return "", ctx.Err()
		}
	}
}

// sendOnce makes one request. If it fails and may be repeated, wait says after how long at the earliest.
func sendOnce(ctx context.Context, endpoint, key string, body []byte) (id string, wait time.Duration, err error) {
	url := os.Getenv("RELAY_BASE_URL") + "/v1/endpoints/" + endpoint + "/events"
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(body))
	if err != nil {
		return "", 0, err
	}
	req.Header.Set("Authorization", "Bearer "+os.Getenv("RELAY_API_KEY"))
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Idempotency-Key", key)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return "", time.Millisecond, err
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	if err != nil {
		return "", time.Millisecond, err
	}
	if resp.StatusCode != http.StatusAccepted {
		if resp.StatusCode == http.StatusTooManyRequests || resp.StatusCode >= 500 {
			seconds, _ := strconv.Atoi(resp.Header.Get("Retry-After")) // 0 without the header
			wait = max(time.Duration(seconds)*time.Second, time.Millisecond)
		}
		return "", wait, fmt.Errorf("%s: %s", resp.Status, answer)
	}
	var event struct{ ID string }
	err = json.Unmarshal(answer, &event)
	return event.ID, 0, err
}
