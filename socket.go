package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"

	"github.com/eventrelay/relay/command"
	"github.com/eventrelay/relay/pkg/control"
	"github.com/eventrelay/relay/pkg/web"
)

// The command socket speaks HTTP over a unix socket in the data directory, which only the owner of the
// directory can reach: it asks for no key.

// maxCommand bounds what a command may send, in bytes.
const maxCommand = 1 << 20

// answerFunc answers one command, or says why it is refused.
type answerFunc func(*http.Request) (any, error)

// commands are the routes of the socket.
func (n *node) commands() map[string]answerFunc {
	return map[string]answerFunc{
		"GET /keys":         n.listKeys,
		"POST /keys":        n.createKey,
		"DELETE /keys/{id}": n.revokeKey,
	}
}

// startSocket serves the commands.
func (n *node) startSocket() error {
	path := filepath.Join(n.s.DataDir, command.SocketFile)
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("remove old command socket: %w", err) // the lock says that nobody else uses it
	}
	listener, err := net.Listen("unix", path)
	if err != nil {
		return fmt.Errorf("listen on command socket: %w", err)
	}
	if err := os.Chmod(path, 0o600); err != nil {
		return errors.Join(fmt.Errorf("restrict command socket: %w", err), listener.Close())
	}
	mux := http.NewServeMux()
	for pattern, answer := range n.commands() {
		mux.HandleFunc(pattern, n.answer(answer))
	}
	n.st.start("command socket", (&server{listener: listener, handler: mux, log: n.log}).Run)
	return nil
}

func (n *node) answer(f answerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		r.Body = http.MaxBytesReader(w, r.Body, maxCommand)
		answer, err := f(r)
		if errors.Is(err, control.ErrUnavailable) {
			err = web.Away(err, "the configuration log is away at the moment; look whether it was done before you repeat it")
		}
		if err != nil {
			web.WriteError(w, r, n.log, err)
			return
		}
		web.WriteJSON(w, http.StatusOK, answer)
	}
}

// readCommand reads what a command sent.
func readCommand(r *http.Request, into any) error {
	if err := json.NewDecoder(r.Body).Decode(into); err != nil {
		return web.Invalid("", "the command could not be read: %v", err)
	}
	return nil
}
