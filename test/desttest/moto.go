package desttest

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/eventrelay/relay/pkg/config/seal"
	"github.com/eventrelay/relay/test/must"
)

// Moto is a moto server, which answers as services of AWS do.
type Moto struct {
	T   *testing.T
	URL string
}

// NewMoto returns the server that RELAY_TEST_MOTO names, emptied, or skips the test.
func NewMoto(t *testing.T) *Moto {
	t.Helper()
	m := &Moto{t, os.Getenv("RELAY_TEST_MOTO")}
	if m.URL == "" {
		t.Skip("needs moto: make torture PART=kinds")
	}
	m.call("", "/moto-api/reset", "", "")
	m.call("", "/moto-api/reset-auth", "", "1000000")
	return m
}

// call makes a request to a service, which is found by the region and name that a signature would have.
func (m *Moto) call(service, path, target, body string) string {
	m.T.Helper()
	return m.request(http.MethodPost, service, path, target, body)
}

func (m *Moto) request(method, service, path, target, body string) string {
	m.T.Helper()
	req := must.Get(http.NewRequestWithContext(m.T.Context(), method, m.URL+path, strings.NewReader(body)))(m.T)
	req.Header.Set("Authorization", "AWS4-HMAC-SHA256 Credential=a/20260101/us-east-1/"+service+"/aws4_request, "+
		"SignedHeaders=host, Signature=a")
	if service == "iam" {
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	req.Header.Set("X-Amz-Target", target)
	resp, err := http.DefaultClient.Do(req)
	must.Do(m.T, err)
	defer resp.Body.Close()
	text := string(must.Get(io.ReadAll(resp.Body))(m.T))
	if resp.StatusCode != http.StatusOK {
		m.T.Fatalf("%s %s: %d %s", path, target, resp.StatusCode, text)
	}
	return text
}

// SQS makes a request of SQS in JSON.
func (m *Moto) SQS(action, body string) string {
	m.T.Helper()
	return m.call("sqs", "/", "AmazonSQS."+action, body)
}

var keyPair = regexp.MustCompile(`(?s)<AccessKeyId>(.*)</AccessKeyId>.*<SecretAccessKey>(.*)</SecretAccessKey>`)

// Key returns an access key whose user may call an action, such as sqs:SendMessage.
func (m *Moto) Key(user, action string) (key string, secret seal.Secret) {
	m.T.Helper()
	m.call("iam", "/", "", "Version=2010-05-08&Action=CreateUser&UserName="+user)
	policy := fmt.Sprintf(`{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Action":%q,"Resource":"*"}]}`, action)
	m.call("iam", "/", "", "Version=2010-05-08&Action=PutUserPolicy&PolicyName=p&UserName="+user+"&PolicyDocument="+policy)
	found := keyPair.FindStringSubmatch(m.call("iam", "/", "",
		"Version=2010-05-08&Action=CreateAccessKey&UserName="+user))
	if found == nil {
		m.T.Fatal("the server made no access key")
	}
	return found[1], seal.Secret(found[2])
}

// Bucket makes a bucket of S3.
func (m *Moto) Bucket(name string) { m.T.Helper(); m.request(http.MethodPut, "s3", "/"+name, "", "") }

// Messages counts those of a queue. It ends what Enforce began.
func (m *Moto) Messages(queue string) int {
	m.T.Helper()
	m.call("", "/moto-api/reset-auth", "", "1000000")
	var answer struct {
		Attributes struct {
			ApproximateNumberOfMessages int `json:",string"`
		}
	}
	text := m.SQS("GetQueueAttributes", `{"QueueUrl":"`+m.URL+`/123456789012/`+queue+
		`","AttributeNames":["ApproximateNumberOfMessages"]}`)
	must.Do(m.T, json.Unmarshal([]byte(text), &answer))
	return answer.Attributes.ApproximateNumberOfMessages
}

// Enforce makes the server verify the signatures and rights of all further requests.
func (m *Moto) Enforce() { m.call("", "/moto-api/reset-auth", "", "0") }
