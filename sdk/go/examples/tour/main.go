// Command tour is an example: it sends events, lists them, streams them, and reads an error.
//
//	RELAY_BASE_URL=http://localhost:8080 RELAY_API_KEY=rly_live_… go run ./examples/tour
package main

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"log"
	"os"
	"sync"
	"time"

	relay "github.com/eventrelay/relay/sdk/go"
)

const events = 2101

func main() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := tour(ctx, relay.New(os.Getenv("RELAY_BASE_URL"), os.Getenv("RELAY_API_KEY"))); err != nil {
		log.Fatal(err)
	}
}

func tour(ctx context.Context, client *relay.Client) error {
	me, err := client.ReadMe(ctx)
	if err != nil {
		return err
	}
	fmt.Println("scope", me.Scope)

	// A paused endpoint stores events and delivers none.
	endpoint, err := client.CreateEndpoint(ctx, relay.EndpointCreate{
		Name: relay.Ptr("tour in Go"), URL: relay.Ptr("https://example.com/hook"), Paused: relay.Ptr(true)})
	if err != nil {
		return err
	}
	begun := make(chan struct{})
	var streaming sync.WaitGroup
	var streamErr error
	begin := sync.OnceFunc(func() { close(begun) })
	streaming.Go(func() {
		defer begin()
		streamErr = stream(ctx, client, endpoint.ID, begin)
	})
	<-begun

	if _, err := client.SendEvent(ctx, endpoint.ID, relay.EventSend{
		Type: "order.paid", Data: map[string]any{"amount": 4200}}); err != nil {
		return err
	}
	stored := 0
	for result, err := range client.SendAll(ctx, endpoint.ID, orders(events-1)) {
		switch {
		case err != nil:
			return err
		case result.Error == nil:
			stored++
		}
	}
	fmt.Println("stored", stored)

	listed := 0
	all := relay.ListEventsParams{EndpointID: &[]string{endpoint.ID}, Limit: relay.Ptr(100)}
	for _, err := range client.ListEventsAll(ctx, all) {
		if err != nil {
			return err
		}
		listed++
	}
	fmt.Println("listed", listed)

	_, err = client.ReadEvent(ctx, "evt_nope")
	var refused *relay.APIError
	if !errors.As(err, &refused) {
		return fmt.Errorf("an event without a name: %w", err)
	}
	fmt.Println("refused", refused.Status, refused.Type)
	if streaming.Wait(); streamErr != nil {
		return streamErr
	}
	fmt.Println("streamed", events)
	_, err = client.DeleteEndpoint(ctx, endpoint.ID)
	return err
}

// stream returns when it has seen all events as they were accepted, each once.
func stream(ctx context.Context, client *relay.Client, endpointID string, begin func()) error {
	seen := map[string]bool{}
	for item, err := range client.Stream(ctx, endpointID, "") {
		switch {
		case err != nil:
			return err
		case item.Event != nil && seen[item.Event.ID]:
			return fmt.Errorf("%s came twice", item.Event.ID)
		case item.Event != nil:
			seen[item.Event.ID] = true
		case item.Gap == nil:
			begin()
		}
		if len(seen) == events {
			break
		}
	}
	return nil
}

func orders(n int) iter.Seq[relay.BatchEvent] {
	return func(yield func(relay.BatchEvent) bool) {
		for i := range n {
			if !yield(relay.BatchEvent{Type: "order.created", Data: map[string]any{"number": i}}) {
				return
			}
		}
	}
}
