package web

import (
	"bytes"
	"compress/gzip"
	"net/http"
	"strconv"
	"strings"
)

// Gzip compresses a document that is sent many times.
func Gzip(body []byte) []byte {
	var buf bytes.Buffer
	z, _ := gzip.NewWriterLevel(&buf, gzip.BestCompression) // the level is valid
	_, _ = z.Write(body)                                    // a buffer takes everything
	_ = z.Close()
	return buf.Bytes()
}

// AcceptsGzip reports whether Accept-Encoding names gzip, with a weight other than 0.
func AcceptsGzip(r *http.Request) bool {
	for element := range strings.SplitSeq(strings.Join(r.Header.Values("Accept-Encoding"), ","), ",") {
		coding, weight, _ := strings.Cut(element, ";")
		if strings.EqualFold(strings.TrimSpace(coding), "gzip") {
			_, q, _ := strings.Cut(strings.ReplaceAll(weight, " ", ""), "=")
			zero, err := strconv.ParseFloat(q, 64)
			return err != nil || zero > 0
		}
	}
	return false
}
