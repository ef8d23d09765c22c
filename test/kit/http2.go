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

// ServeFrames starts an HTTP/2 server whose answers are written frame by frame, for answers that violate the protocol.
// It calls answer for each complete request with its number, from 1. It returns the server's port on 127.0.0.1.
func ServeFrames(t testing.TB, certificates []tls.Certificate,
	answer func(n int64, f *http2.Framer, stream uint32)) int {
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
			serving.Go(func() { serveFrameConn(conn, &requests, answer) })
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

func serveFrameConn(conn net.Conn, requests *atomic.Int64, answer func(n int64, f *http2.Framer, stream uint32)) {
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(time.Minute))
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

// WriteOK answers a stream with status 200 and no body.
func WriteOK(f *http2.Framer, stream uint32) {
	var block bytes.Buffer
	_ = hpack.NewEncoder(&block).WriteField(hpack.HeaderField{Name: ":status", Value: "200"})
	_ = f.WriteHeaders(http2.HeadersFrameParam{
		StreamID: stream, BlockFragment: block.Bytes(), EndHeaders: true, EndStream: true})
}
