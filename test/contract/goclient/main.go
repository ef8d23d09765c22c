// Command goclient runs the main path of the API with a client that oapi-codegen has made of the OpenAPI document. A
// mistake of the document about a request or an answer does not compile; a mistake of the API ends the program.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"log"
	"net/http"
	"os"
	"slices"
	"time"

	"example.com/goclient/relay"
)

func main() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	key := func(_ context.Context, r *http.Request) error {
		r.Header.Set("Authorization", "Bearer "+os.Getenv("RELAY_API_KEY"))
		return nil
	}
	c, err := relay.NewClientWithResponses(os.Getenv("RELAY_BASE_URL"), relay.WithRequestEditorFn(key))
	if err != nil {
		log.Fatal(err)
	}
	if err := run(ctx, c); err != nil {
		log.Fatal(err)
	}
	fmt.Println("the client that oapi-codegen made: endpoint, destination, 3 events sent twice, pages, replay, errors")
}

func run(ctx context.Context, c *relay.ClientWithResponses) error {
	me, err := c.ReadMeWithResponse(ctx)
	if err != nil || me.JSON200 == nil || me.JSON200.Scope != "read_write" {
		return fmt.Errorf("me: %w: %s", err, me.Body)
	}
	name, disabled := "generated client", false
	made, err := c.CreateEndpointWithResponse(ctx, nil, relay.EndpointCreate{Name: &name, Enabled: nil})
	if err != nil || made.JSON400 == nil || made.JSON400.Error.Type != "invalid_request" {
		return fmt.Errorf("an endpoint without a destination: %w: %s", err, made.Body)
	}
	var to relay.EndpointCreate_Destinations_Item
	if err := to.FromDestinationCreate(relay.DestinationCreate{
		Url: new("https://example.com/hook"), Enabled: &disabled}); err != nil { // nothing is sent to another machine
		return err
	}
	made, err = c.CreateEndpointWithResponse(ctx, nil, relay.EndpointCreate{
		Name: &name, Destinations: &[]relay.EndpointCreate_Destinations_Item{to}})
	if err != nil || made.JSON201 == nil || made.JSON201.Destinations[0].Signing.Secret == nil {
		return fmt.Errorf("create an endpoint: %w: %s", err, made.Body)
	}
	ep := made.JSON201.Id
	second, err := c.CreateDestinationWithResponse(ctx, ep, nil, relay.DestinationCreate{
		Url: new("https://example.com/other"), Enabled: &disabled})
	if err != nil || second.JSON201 == nil {
		return fmt.Errorf("create a destination: %w: %s", err, second.Body)
	}
	ids, err := sendTwice(ctx, c, ep)
	if err != nil {
		return err
	}
	if err := readPages(ctx, c, ep, ids); err != nil {
		return err
	}
	replay, err := c.ReplayEventWithResponse(ctx, ids[0], nil, relay.ReplayEventJSONRequestBody{})
	if err != nil || replay.JSON200 == nil || replay.JSON200.Events != 1 || replay.JSON200.Queued != 0 {
		return fmt.Errorf("replay: %w: %s", err, replay.Body)
	}
	gone, err := c.DeleteEndpointWithResponse(ctx, ep, nil)
	if err != nil || gone.JSON200 == nil {
		return fmt.Errorf("delete the endpoint: %w: %s", err, gone.Body)
	}
	return nil
}

// sendTwice sends three events, each twice with the same key, and returns their ids.
func sendTwice(ctx context.Context, c *relay.ClientWithResponses, ep relay.EndpointId) (ids []string, err error) {
	for n := range 3 {
		key := fmt.Sprint("order-", n)
		for range 2 {
			sent, err := c.SendEventWithResponse(ctx, ep, &relay.SendEventParams{IdempotencyKey: &key},
				relay.EventSend{Type: "order.created", Data: map[string]any{"n": n}})
			if err != nil || sent.JSON202 == nil {
				return nil, fmt.Errorf("send: %w: %s", err, sent.Body)
			}
			if !slices.Contains(ids, sent.JSON202.Id) {
				ids = append(ids, sent.JSON202.Id)
			}
		}
	}
	if len(ids) != 3 {
		return nil, fmt.Errorf("three keys made %v", ids)
	}
	return ids, nil
}

// readPages follows the cursor over the events of an endpoint, and reads one of them.
func readPages(ctx context.Context, c *relay.ClientWithResponses, ep relay.EndpointId, ids []string) error {
	limit, of := 2, relay.FilterValues{ep}
	var seen []string
	for params := (&relay.ListEventsParams{EndpointId: &of, Limit: &limit}); ; {
		page, err := c.ListEventsWithResponse(ctx, params)
		if err != nil || page.JSON200 == nil {
			return fmt.Errorf("list: %w: %s", err, page.Body)
		}
		for _, row := range page.JSON200.Data {
			seen = append(seen, row.Id)
		}
		if params.Cursor = page.JSON200.NextCursor; params.Cursor == nil {
			break
		}
	}
	slices.Reverse(seen)
	if !slices.Equal(seen, ids) {
		return fmt.Errorf("the pages have %v, sent were %v", seen, ids)
	}
	read, err := c.ReadEventWithResponse(ctx, ids[1])
	if err != nil || read.JSON200 == nil {
		return fmt.Errorf("read: %w: %s", err, read.Body)
	}
	var body struct{ Data struct{ N int } }
	if err := json.Unmarshal([]byte(read.JSON200.Body), &body); err != nil || body.Data.N != 1 {
		return fmt.Errorf("the event's body is %s (%w)", read.JSON200.Body, err)
	}
	return nil
}
