package kinds

import (
	"cmp"
	"net/url"
	"regexp"
	"strings"

	"github.com/eventrelay/relay/pkg/config/seal"
)

// S3 has the settings of a bucket in an S3-compatible object store.
type S3 struct {
	Bucket    string      `json:"bucket" in:"" minLength:"3" maxLength:"63" label:"Bucket" description:"The bucket, which must exist. Required." example:"events"`
	Region    string      `json:"region" in:"" minLength:"1" maxLength:"64" label:"Region" description:"The region of the bucket. Required." example:"eu-central-1"`
	Endpoint  string      `json:"endpoint,omitempty" in:"null" maxLength:"2048" label:"Endpoint" description:"https URL of the store, without a path. Default: Amazon S3 in that region." example:"https://s3.example.com"`
	AccessKey string      `json:"access_key_id" in:"" minLength:"1" maxLength:"256" label:"Access key id" description:"Requests are signed with it (SigV4). It needs the right s3:PutObject. Required." example:"AKIDEXAMPLE"`
	SecretKey seal.Secret `json:"secret_access_key" in:"" minLength:"1" maxLength:"1024" label:"Secret access key" description:"Required. Masked in responses; its mask means unchanged." example:"****4f2a"`
	Key       string      `json:"key" in:"" minLength:"1" maxLength:"512" label:"Names of objects" description:"Template of the names, with the placeholders {date}, {hour}, {endpoint_id} and {id}, which it must have. Default {date}/{hour}/{id}.ndjson." example:"orders-{date}-{id}.ndjson"`
	Seconds   int         `json:"flush_seconds" in:"" minimum:"1" maximum:"30" label:"Time of an object" description:"How long events gather in an object, in seconds. Default 2."`
	Bytes     int         `json:"flush_bytes" in:"" minimum:"1024" maximum:"16777216" label:"Size of an object, in bytes" description:"An object is stored earlier when it has this size. Default 4194304."`
}

var bucketName = regexp.MustCompile(`^[a-z0-9][a-z0-9.-]*[a-z0-9]$`)

func (s *S3) trim() {
	s.Key = cmp.Or(s.Key, "{date}/{hour}/{id}.ndjson")
	s.Seconds, s.Bytes = cmp.Or(s.Seconds, 2), cmp.Or(s.Bytes, 4<<20)
}

func (s *S3) origin() string { return s.Store() }

// Store is the URL of the object store.
func (s *S3) Store() string {
	return cmp.Or(strings.TrimSuffix(s.Endpoint, "/"), "https://s3."+s.Region+".amazonaws.com")
}

func (s *S3) address() string { return "s3://" + s.Bucket }

func (s *S3) validate(c Checks) *Fault {
	err := c.URL(s.Store())
	u, parseErr := url.Parse(s.Store())
	switch {
	case !bucketName.MatchString(s.Bucket):
		return &Fault{"bucket", "is required, in lower-case letters, digits, dots and hyphens"}
	case strings.Trim(s.Region, "abcdefghijklmnopqrstuvwxyz0123456789-") != "" || s.Region == "":
		return &Fault{"region", "is required, in lower-case letters, digits and hyphens"}
	case err != nil:
		return &Fault{"endpoint", err.Error()}
	case parseErr != nil || u.Path+u.RawQuery != "":
		return &Fault{"endpoint", "must have no path"}
	case s.AccessKey == "":
		return &Fault{"access_key_id", "is required"}
	case s.SecretKey == "":
		return &Fault{"secret_access_key", "is required"}
	case !strings.Contains(s.Key, "{id}"):
		return &Fault{"key", "must have the placeholder {id}: an object must not replace another one"}
	}
	return nil
}
