// Package admin serves the operator's commands of a running node (relay keys, users, config, dead, and those of
// features) on its command socket. Package command is the client; the types of requests and answers stand here beside
// their handlers, one file for each command.
//
// The socket is a unix socket in the data directory that only processes of the same user can open, so it asks for no
// key. Answers are JSON: one value, or a line for each step of a long command and a last line with its end. Begin with
// New, which lists all routes; each handler works on a small interface, whose implementation package node passes.
package admin

import (
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"time"

	"github.com/eventrelay/relay/pkg/audit"
	"github.com/eventrelay/relay/pkg/config"
	"github.com/eventrelay/relay/pkg/config/entity"
	"github.com/eventrelay/relay/pkg/config/require"
	"github.com/eventrelay/relay/pkg/web"
)

// SocketFile is the name of the socket in the data directory of a running process.
const SocketFile = "relay.sock"

// maxCommand bounds what a command may send, in bytes.
const maxCommand = 1 << 20

// Deps are the dependencies of New. All are required.
type Deps struct {
	Log      *slog.Logger
	Keys     Keys
	Uses     Uses
	Config   *config.Control
	CheckURL func(text string) error // validates a destination URL in an imported document
	Dead     func() (DeadLetters, error)
	Producer Producer
	BaseURL  string
	Now      func() time.Time
	// Commands of features, by pattern: with one value, or with a line for each step.
	Answers map[string]func(*http.Request) (any, error)
	Steps   map[string]func(r *http.Request, report func(any)) error
}

// server serves the commands.
type server struct{ log *slog.Logger }

// New makes the handler of the command socket.
func New(d Deps) (http.Handler, error) {
	if err := require.Set("admin", d); err != nil {
		return nil, err
	}
	s := server{d.Log}
	keys, users, configurations, dead := &keys{&d}, &users{&d}, &configuration{&d}, &deadLetters{Deps: &d}
	mux := http.NewServeMux()
	for pattern, handler := range map[string]http.HandlerFunc{
		"GET /dead":          s.handle(dead.list),
		"POST /dead/retry":   s.handleWithProgress(dead.retry),
		"GET /keys":          s.handle(keys.list),
		"POST /keys":         s.handle(keys.create),
		"DELETE /keys/{id}":  s.handle(keys.revoke),
		"POST /keys/rewrap":  s.handleWithProgress(keys.rewrap),
		"GET /users":         s.handle(users.list),
		"POST /users":        s.handle(users.add),
		"POST /users/reset":  s.handle(users.reset),
		"POST /users/scope":  s.handle(users.setScope),
		"POST /users/remove": s.handle(users.remove),
		"GET /config":        configurations.exportDocument,
		"POST /config":       s.handleWithProgressUpTo(maxImport, configurations.importDocument),
		"POST /resume":       s.handleWithProgressUpTo(maxImport, configurations.resumeEndpoints),
	} {
		mux.HandleFunc(pattern, handler)
	}
	for pattern, f := range d.Answers {
		mux.HandleFunc(pattern, s.handle(f))
	}
	for pattern, f := range d.Steps {
		mux.HandleFunc(pattern, s.handleWithProgress(f))
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mux.ServeHTTP(w, r.WithContext(config.WithOrigin(r.Context(), config.Origin{Actor: audit.Operator})))
	}), nil
}

// handle returns the handler of a command that is answered with one value or an error.
func (s server) handle(f func(*http.Request) (any, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		r.Body = http.MaxBytesReader(w, r.Body, maxCommand)
		answer, err := f(r)
		if err != nil {
			web.WriteError(w, r, s.log, commandError(err))
			return
		}
		web.WriteJSON(w, http.StatusOK, answer)
	}
}

// handleWithProgress returns the handler of a long command. Its answer has a line for each value that f reports, and a
// last line that says how it ended. An error before the first report is answered as for any other command. The command
// ends when its client disconnects.
func (s server) handleWithProgress(f func(r *http.Request, report func(any)) error) http.HandlerFunc {
	return s.handleWithProgressUpTo(maxCommand, f)
}

// handleWithProgressUpTo is handleWithProgress for a command whose body may have up to maxBody bytes.
func (s server) handleWithProgressUpTo(
	maxBody int64, f func(r *http.Request, report func(any)) error) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		r.Body = http.MaxBytesReader(w, r.Body, maxBody)
		lines, reported := json.NewEncoder(w), false
		report := func(v any) {
			reported = true
			_ = lines.Encode(v) // when the client is gone the request's context ends
			_ = http.NewResponseController(w).Flush()
		}
		err := f(r, report)
		switch {
		case err == nil:
			report(map[string]bool{"finished": true})
		case reported:
			report(map[string]string{"error": web.FromError(commandError(err)).Message})
		default:
			web.WriteError(w, r, s.log, commandError(err))
		}
	}
}

// commandError adds to errors of the configuration log what the operator can do.
func commandError(err error) error {
	if invalid, ok := errors.AsType[*entity.InvalidError](err); ok {
		return web.Invalid(invalid.Param, "%s", invalid.Message)
	}
	if errors.Is(err, config.ErrLevel) {
		return web.ServiceUnavailable(err, "this needs the upgrade to be finished: "+
			"when every node runs the new version, run relay migrate --finalize")
	}
	if errors.Is(err, config.ErrUnavailable) {
		return web.ServiceUnavailable(
			err, "the configuration log does not answer; check whether the command took effect before you "+
				"repeat it")
	}
	return err
}

// readCommand decodes the body of a command.
func readCommand(r *http.Request, into any) error {
	if err := json.NewDecoder(r.Body).Decode(into); err != nil {
		return web.Invalid("", "the command could not be read: %v", err)
	}
	return nil
}
