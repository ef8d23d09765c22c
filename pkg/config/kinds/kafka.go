package kinds

import (
	"cmp"
	"crypto/x509"
	"fmt"
	"net"
	"strings"

	"github.com/eventrelay/relay/pkg/config/seal"
)

// Kafka has the settings of a topic in a customer's Kafka.
type Kafka struct {
	Brokers  []string    `json:"brokers" in:"" minItems:"1" maxItems:"16" items.maxLength:"261" label:"Brokers" description:"Addresses of brokers as host:port; the others are found by them. Required." example:"[\"kafka-1.example.com:9093\"]"`
	Topic    string      `json:"topic" in:"" minLength:"1" maxLength:"249" label:"Topic" description:"The topic, which must exist. Required." example:"orders"`
	Key      string      `json:"key" in:"" maxLength:"512" label:"Key" description:"Key of the records: event_id, endpoint_id, type, none, or a value of the event as body:$.data.id or header:X-Shop. Records with the same key go to the same partition. Default event_id." example:"body:$.data.id"`
	SASL     string      `json:"sasl,omitempty" in:"null" enum:"plain,scram-sha-256,scram-sha-512" label:"SASL" description:"Mechanism of user name and password. Default none."`
	Username string      `json:"username,omitempty" in:"null" maxLength:"255" label:"User name" description:"For sasl." example:"relay"`
	Password seal.Secret `json:"password,omitempty" in:"null" maxLength:"1024" label:"Password" description:"For sasl. Masked in responses; its mask means unchanged." example:"****4f2a"`
	// Plaintext needs the same permission as http.
	Plaintext   bool   `json:"plaintext" in:"" label:"Without TLS" description:"Connect without TLS. Needs RELAY_EGRESS_ALLOW_HTTP. Default false."`
	CA          string `json:"ca,omitempty" in:"null" maxLength:"16384" label:"Root certificates" description:"Root certificates of the brokers in PEM form, beside those that the relay trusts." example:"-----BEGIN CERTIFICATE-----…"`
	MaxRecord   int    `json:"max_record_bytes" in:"" minimum:"1024" maximum:"16777216" label:"Largest record, in bytes" description:"The topic's max.message.bytes. A larger event fails as too_large. Default 1000000."`
	Compression string `json:"compression" in:"" enum:"none,gzip,snappy,lz4,zstd" label:"Compression" description:"Compression of the records. Default none."`
}

func (k *Kafka) trim() {
	k.Key, k.MaxRecord = cmp.Or(k.Key, Keys[0]), cmp.Or(k.MaxRecord, 1_000_000)
	k.Compression = cmp.Or(k.Compression, "none")
	if k.SASL == "" {
		k.Username, k.Password = "", ""
	}
}

// origin has all that decides who sees the password on its way.
func (k *Kafka) origin() string {
	return fmt.Sprintf("%s %s %t %s", strings.Join(k.Brokers, ","), k.SASL, k.Plaintext, k.CA)
}

func (k *Kafka) address() string {
	if len(k.Brokers) == 0 {
		return ""
	}
	return "kafka://" + k.Brokers[0] + "/" + k.Topic
}

func (k *Kafka) validate(c Checks) *Fault {
	scheme := map[bool]string{false: "https://", true: "http://"}[k.Plaintext]
	for _, broker := range k.Brokers {
		if host, port, err := net.SplitHostPort(broker); err != nil || host == "" || port == "" {
			return &Fault{"brokers", "must be addresses such as kafka-1.example.com:9093"}
		}
		if err := c.URL(scheme + broker); err != nil {
			return &Fault{"brokers", err.Error()}
		}
	}
	switch {
	case len(k.Brokers) == 0:
		return &Fault{"brokers", "is required"}
	case k.Topic == "":
		return &Fault{"topic", "is required"}
	case !isTopicName(k.Topic):
		return &Fault{"topic", "must have letters, digits, dots, hyphens and underscores only"}
	case k.SASL != "" && (k.Username == "" || k.Password == ""):
		return &Fault{"password", "is required for sasl, and so is username"}
	case k.CA != "" && !x509.NewCertPool().AppendCertsFromPEM([]byte(k.CA)):
		return &Fault{"ca", "has no certificate in PEM form"}
	}
	return validateKey("key", k.Key)
}

func isTopicName(text string) bool {
	const allowed = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-"
	return text != "." && text != ".." && strings.Trim(text, allowed) == ""
}
