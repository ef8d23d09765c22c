package kit

import (
	"bytes"
	"crypto/tls"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// Frames is a server of HTTP/2 that answers a frame at a time, for answers that no server of good manners
// gives. answer is called for each request that has arrived whole, with its number among all of them. It
// returns the port on 127.0.0.1.
func Frames(t testing.TB, certificates []tls.Certificate, answer func(n int64, f *http2.Framer, stream uint32)) int {
	t.Helper()
	l, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{Certificates: certificates, NextProtos: []string{"h2"}})
	if err != nil {
		t.Fatal(err)
	}
	var requests atomic.Int64
	var serving sync.WaitGroup
	ended := make(chan struct{})
	serving.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			serving.Go(func() { serveFrames(conn, &requests, answer) })
			serving.Go(func() {
				<-ended
				conn.Close()
			})
		}
	})
	t.Cleanup(func() {
		close(ended)
		l.Close()
		serving.Wait()
	})
	return l.Addr().(*net.TCPAddr).Port
}

func serveFrames(conn net.Conn, requests *atomic.Int64, answer func(n int64, f *http2.Framer, stream uint32)) {
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(20 * time.Second))
	if _, err := io.ReadFull(conn, make([]byte, len(http2.ClientPreface))); err != nil {
		return
	}
	f := http2.NewFramer(conn, conn)
	if f.WriteSettings() != nil {
		return
	}
	for {
		frame, err := f.ReadFrame()
		if err != nil {
			return
		}
		h := frame.Header()
		if (h.Type == http2.FrameHeaders || h.Type == http2.FrameData) && h.Flags.Has(http2.FlagDataEndStream) {
			answer(requests.Add(1), f, h.StreamID)
		}
	}
}

// AnswerOK answers a stream with 200 and no body.
func AnswerOK(f *http2.Framer, stream uint32) {
	var block bytes.Buffer
	_ = hpack.NewEncoder(&block).WriteField(hpack.HeaderField{Name: ":status", Value: "200"})
	_ = f.WriteHeaders(http2.HeadersFrameParam{
		StreamID: stream, BlockFragment: block.Bytes(), EndHeaders: true, EndStream: true})
}
