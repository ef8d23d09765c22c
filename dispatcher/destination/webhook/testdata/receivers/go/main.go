// Command receivers reads deliveries from stdin, as JSON, and prints what the CloudEvents SDK for Go makes of each.
package main

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"strings"

	cloudevents "github.com/cloudevents/sdk-go/v2"
)

func main() {
	var deliveries []struct {
		Headers map[string]string
		Body    string
	}
	if err := json.NewDecoder(os.Stdin).Decode(&deliveries); err != nil {
		panic(err)
	}
	answers := []string{}
	for _, d := range deliveries {
		r, _ := http.NewRequest(http.MethodPost, "https://receiver.example/", strings.NewReader(d.Body))
		for name, value := range d.Headers {
			r.Header.Set(name, value)
		}
		events := []cloudevents.Event{}
		var err error
		if strings.HasPrefix(r.Header.Get("Content-Type"), cloudevents.ApplicationCloudEventsBatchJSON) {
			events, err = cloudevents.NewEventsFromHTTPRequest(r)
		} else if e, one := cloudevents.NewEventFromHTTPRequest(r); one != nil {
			err = one
		} else {
			events = append(events, *e)
		}
		var lines []string
		for _, e := range events {
			lines = append(lines, line(e))
			if err == nil {
				err = e.Validate()
			}
		}
		answer := strings.Join(lines, " ")
		if err != nil {
			answer = err.Error()
		}
		answers = append(answers, answer)
	}
	if err := json.NewEncoder(os.Stdout).Encode(answers); err != nil {
		panic(err)
	}
}

func line(e cloudevents.Event) string {
	var compact json.RawMessage
	data := base64.StdEncoding.EncodeToString(e.Data())
	if json.Unmarshal(e.Data(), &compact) == nil && strings.HasPrefix(e.DataContentType(), "application/json") {
		var value any
		_ = json.Unmarshal(e.Data(), &value)
		text, _ := json.Marshal(value)
		data = string(text)
	}
	at := fmt.Sprint(e.Time().UnixMilli())
	return strings.Join([]string{e.ID(), e.Source(), e.Type(), at, e.DataContentType(), data}, "|")
}
