package kit

import (
	"bufio"
	"cmp"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"

	"github.com/johannesboyne/gofakes3"
	"github.com/johannesboyne/gofakes3/backend/s3mem"

	"github.com/eventrelay/relay/test/must"
)

// BucketServer starts an S3 server with the bucket "backups" and returns the environment of its clients. Each request
// passes allow first, which may be nil; false answers 403.
func BucketServer(t *testing.T, allow func(*http.Request) bool) (env []string) {
	t.Helper()
	memory := s3mem.New()
	must.Do(t, memory.CreateBucket("backups"))
	handler := gofakes3.New(memory).Server()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if allow != nil && !allow(r) {
			w.WriteHeader(http.StatusForbidden)
			return
		}
		if length := r.Header.Get("X-Amz-Decoded-Content-Length"); length != "" {
			r.Body = &awsChunked{lines: bufio.NewReader(r.Body)} // the server would store parts with their framing
			r.Header.Set("Content-Length", length)
			r.ContentLength, _ = strconv.ParseInt(length, 10, 64)
			r.Header.Set("X-Amz-Content-Sha256", "UNSIGNED-PAYLOAD")
		}
		handler.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	return []string{"AWS_ENDPOINT_URL=" + server.URL, "AWS_REGION=us-east-1", "AWS_ACCESS_KEY_ID=test",
		"AWS_SECRET_ACCESS_KEY=test"}
}

// awsChunked reads a body with the content encoding aws-chunked.
type awsChunked struct {
	lines *bufio.Reader
	left  int64 // of the chunk
}

func (c *awsChunked) Read(p []byte) (int, error) {
	for c.left == 0 {
		line, err := c.lines.ReadString('\n')
		if err != nil {
			return 0, err
		}
		size, _, _ := strings.Cut(strings.TrimSpace(line), ";")
		if size == "" { // the end of the chunk before
			continue
		}
		if c.left, err = strconv.ParseInt(size, 16, 64); err != nil || c.left == 0 {
			return 0, cmp.Or(err, io.EOF)
		}
	}
	n, err := c.lines.Read(p[:min(int64(len(p)), c.left)])
	c.left -= int64(n)
	return n, err
}

func (c *awsChunked) Close() error { return nil }
