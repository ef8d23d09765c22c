package compose

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"
)

// receiverMode is the argument with which the test binary is the receiver of deliveries, in a container.
const receiverMode = "receiver"

func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == receiverMode {
		fmt.Fprintln(os.Stderr, serveReceiver(":8090"))
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// numbered matches the number in the body of an event of the test.
var numbered = regexp.MustCompile(`"number":(\d+)`)

// serveReceiver answers deliveries with 200, and GET /seen with the numbers of the events that it has received.
func serveReceiver(address string) error {
	var mu sync.Mutex
	seen := []int{}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /hook", func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, 1<<20))
		match := numbered.FindSubmatch(body)
		if err != nil || match == nil {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		n, _ := strconv.Atoi(string(match[1])) // digits
		mu.Lock()
		defer mu.Unlock()
		if !slices.Contains(seen, n) {
			seen = append(seen, n)
		}
	})
	mux.HandleFunc("GET /seen", func(w http.ResponseWriter, _ *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		_ = json.NewEncoder(w).Encode(seen)
	})
	server := http.Server{Addr: address, Handler: mux, ReadHeaderTimeout: time.Minute}
	return server.ListenAndServe()
}
