package node

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"path/filepath"

	"github.com/eventrelay/relay/command"
	"github.com/eventrelay/relay/pkg/audit"
	"github.com/eventrelay/relay/pkg/control"
	"github.com/eventrelay/relay/pkg/private"
	"github.com/eventrelay/relay/pkg/web"
)

// The command socket speaks HTTP over a unix socket in the data directory, which only processes of
// the same user can use: it asks for no key.

// maxCommand bounds what a command may send, in bytes.
const maxCommand = 1 << 20

// commands are the routes of the socket.
func (n *node) commands() map[string]http.HandlerFunc {
	return map[string]http.HandlerFunc{
		"GET /dead":          n.answer(n.listDead),
		"POST /dead/retry":   n.follow(n.retryDead),
		"GET /doctor":        n.answer(n.doctor),
		"POST /move":         n.follow(n.moveEndpoint),
		"GET /keys":          n.answer(n.listKeys),
		"POST /keys":         n.answer(n.createKey),
		"DELETE /keys/{id}":  n.answer(n.revokeKey),
		"POST /keys/rewrap":  n.follow(n.rewrapKeys),
		"GET /users":         n.answer(n.listUsers),
		"POST /users":        n.linkUser(n.control.AddUser),
		"POST /users/reset":  n.linkUser(n.control.ResetUser),
		"POST /users/remove": n.answer(n.removeUser),
		"GET /config":        n.exportConfig,
		"POST /config":       n.followLong(maxImport, n.importConfig),
	}
}

// startSocket serves the commands.
func (n *node) startSocket() error {
	// It replaces an old socket: the lock of the data directory says that nobody else uses that.
	listener, err := private.Listen(filepath.Join(n.s.DataDir, command.SocketFile))
	if err != nil {
		return fmt.Errorf("open command socket: %w", err)
	}
	mux := http.NewServeMux()
	for pattern, handler := range n.commands() {
		mux.HandleFunc(pattern, handler)
	}
	asOperator := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mux.ServeHTTP(w, r.WithContext(control.WithOrigin(r.Context(), control.Origin{Actor: audit.Operator})))
	})
	n.st.start("command socket", (&server{listener: listener, handler: asOperator, log: n.log}).Run)
	return nil
}

// answer makes a handler of a command that is answered with one value, or refused.
func (n *node) answer(f func(*http.Request) (any, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		r.Body = http.MaxBytesReader(w, r.Body, maxCommand)
		answer, err := f(r)
		if err != nil {
			web.WriteError(w, r, n.log, commandError(err))
			return
		}
		web.WriteJSON(w, http.StatusOK, answer)
	}
}

// follow makes a handler of a command that takes long. It is answered with a line for each value that it
// tells, and a last one that says how it ended; what is refused before anything was told is refused as any
// other command is. The command ends when whoever typed it does not listen any more.
func (n *node) follow(f func(r *http.Request, tell func(any)) error) http.HandlerFunc {
	return n.followLong(maxCommand, f)
}

// followLong is follow for a command that sends up to so many bytes.
func (n *node) followLong(most int64, f func(r *http.Request, tell func(any)) error) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		r.Body = http.MaxBytesReader(w, r.Body, most)
		lines, told := json.NewEncoder(w), false
		tell := func(v any) {
			told = true
			_ = lines.Encode(v) // a client that left ends the request's context
			_ = http.NewResponseController(w).Flush()
		}
		err := f(r, tell)
		switch {
		case err == nil:
			tell(map[string]bool{"finished": true})
		case told:
			tell(map[string]string{"error": web.From(commandError(err)).Message})
		default:
			web.WriteError(w, r, n.log, commandError(err))
		}
	}
}

// commandError makes errors that are nobody's fault speak to the operator.
func commandError(err error) error {
	if errors.Is(err, control.ErrLevel) {
		return web.Away(err, "this waits for the end of an upgrade: when every node runs the new version, run relay migrate --finalize")
	}
	if errors.Is(err, control.ErrUnavailable) {
		return web.Away(err, "the configuration log is away at the moment; look whether it was done before you repeat it")
	}
	return err
}

// readCommand reads what a command sent.
func readCommand(r *http.Request, into any) error {
	if err := json.NewDecoder(r.Body).Decode(into); err != nil {
		return web.Invalid("", "the command could not be read: %v", err)
	}
	return nil
}
