package kinds

import (
	"cmp"
	"net/url"
	"regexp"
	"strings"

	"github.com/eventrelay/relay/pkg/config/seal"
)

// SQS has the settings of a queue of Amazon SQS, or of a service with its API.
type SQS struct {
	QueueURL  string      `json:"queue_url" in:"" minLength:"1" maxLength:"2048" label:"Queue URL" description:"https URL of the queue, which must exist. Required." example:"https://sqs.eu-central-1.amazonaws.com/123456789012/orders"`
	Region    string      `json:"region,omitempty" in:"null" maxLength:"64" label:"Region" description:"The region of the queue. Default: that of queue_url." example:"eu-central-1"`
	AccessKey string      `json:"access_key_id" in:"" minLength:"1" maxLength:"256" label:"Access key id" description:"Requests are signed with it (SigV4). It needs the right sqs:SendMessage. Required." example:"AKIDEXAMPLE"`
	SecretKey seal.Secret `json:"secret_access_key" in:"" minLength:"1" maxLength:"1024" label:"Secret access key" description:"Required. Masked in responses; its mask means unchanged." example:"****4f2a"`
	Group     string      `json:"group" in:"" maxLength:"512" label:"Message group" description:"Group of the messages, whose order a FIFO queue keeps: event_id, endpoint_id, type, none, or a value of the event as body:$.data.id or header:X-Shop. Default none, of a FIFO queue endpoint_id." example:"body:$.data.id"`
}

var sqsRegion = regexp.MustCompile(`^https://sqs[.]([a-z0-9-]+)[.]amazonaws[.]com(?:[.]cn)?/`)

// FIFO reports whether the queue keeps the order of a group.
func (s *SQS) FIFO() bool { return strings.HasSuffix(s.QueueURL, ".fifo") }

func (s *SQS) trim() {
	if found := sqsRegion.FindStringSubmatch(s.QueueURL); found != nil {
		s.Region = cmp.Or(s.Region, found[1])
	}
	if s.Group == "" && s.FIFO() {
		s.Group = "endpoint_id"
	}
	s.Group = cmp.Or(s.Group, "none")
}

func (s *SQS) origin() string { return OriginOf(s.QueueURL) }

func (s *SQS) address() string {
	_, rest, _ := strings.Cut(s.QueueURL, "://")
	return "sqs://" + rest
}

func (s *SQS) validate(c Checks) *Fault {
	err := c.URL(s.QueueURL)
	u, parseErr := url.Parse(s.QueueURL)
	switch {
	case s.QueueURL == "":
		return &Fault{"queue_url", "is required"}
	case err != nil:
		return &Fault{"queue_url", err.Error()}
	case parseErr != nil || u.RawQuery != "" || strings.Trim(u.Path, "/") == "":
		return &Fault{"queue_url", "must be the URL of a queue, such as " +
			"https://sqs.eu-central-1.amazonaws.com/123456789012/orders"}
	case strings.Trim(s.Region, "abcdefghijklmnopqrstuvwxyz0123456789-") != "" || s.Region == "":
		return &Fault{"region", "is required, in lower-case letters, digits and hyphens"}
	case s.AccessKey == "":
		return &Fault{"access_key_id", "is required"}
	case s.SecretKey == "":
		return &Fault{"secret_access_key", "is required"}
	case s.FIFO() && s.Group == "none":
		return &Fault{"group", "is required for a FIFO queue"}
	}
	return validateKey("group", s.Group)
}
