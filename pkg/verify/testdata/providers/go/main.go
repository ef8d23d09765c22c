// Program go has PagerDuty's and Mailgun's own libraries verify their vectors.
package main

import (
	"encoding/json"
	"fmt"
	"log"
	"net/http"
	"os"
	"strings"

	"github.com/PagerDuty/go-pagerduty/webhookv3"
	"github.com/mailgun/mailgun-go/v4"
)

func main() {
	text, err := os.ReadFile("../vectors.json")
	if err != nil {
		log.Fatal(err)
	}
	var file struct {
		Vectors []struct {
			Name, Type, Secret, Body string
			Headers                  map[string]string
		}
	}
	if err := json.Unmarshal(text, &file); err != nil {
		log.Fatal(err)
	}
	seen := 0
	for _, v := range file.Vectors {
		switch v.Type {
		case "pagerduty":
			r, _ := http.NewRequest(http.MethodPost, "https://relay.example.com/", strings.NewReader(v.Body))
			r.Header.Set("X-PagerDuty-Signature", v.Headers["X-PagerDuty-Signature"])
			err = webhookv3.VerifySignature(r, v.Secret)
		case "mailgun":
			var payload mailgun.WebhookPayload
			if err = json.Unmarshal([]byte(v.Body), &payload); err == nil {
				var ok bool
				mg := mailgun.NewMailgun("example.com", "key")
				mg.SetWebhookSigningKey(v.Secret)
				if ok, err = mg.VerifyWebhookSignature(payload.Signature); err == nil && !ok {
					err = fmt.Errorf("refused")
				}
			}
		default:
			continue
		}
		if seen++; err != nil {
			log.Fatalf("%s: %v", v.Name, err)
		}
	}
	if seen != 2 {
		log.Fatalf("%d vectors", seen)
	}
}
