// Package admin is the server's side of the commands that speak to a running process: the handlers of its command
// socket, one for each concern, behind small interfaces that the process fills.
//
// In flow requests over a unix socket in the data directory, which only processes of the same user can use: it asks for
// no key. Out flow answers as JSON, in one value or in a line for each step. The types of both stand beside their
// handlers; package command sends and prints them.
package admin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"time"

	"github.com/eventrelay/relay/doctor"
	"github.com/eventrelay/relay/pkg/audit"
	"github.com/eventrelay/relay/pkg/config"
	"github.com/eventrelay/relay/pkg/web"
)

// SocketFile is the name of the socket in the data directory of a running process.
const SocketFile = "relay.sock"

// maxCommand bounds what a command may send, in bytes.
const maxCommand = 1 << 20

// Deps are what the commands do their work on.
type Deps struct {
	Log        *slog.Logger
	Keys       Keys
	Uses       Uses
	Users      Users
	Config     Configuration
	CheckURL   func(text string) error // of a destination that comes from a document
	Dead       func() (DeadLetters, error)
	Producer   Producer
	Endpoints  Endpoints
	Partitions func() (Partitions, error)
	Doctor     func(context.Context) (doctor.Report, error)
	BaseURL    string
	Now        func() time.Time
}

// validate reports every dependency that is missing.
func (d Deps) validate() error {
	var errs []error
	for name, there := range map[string]bool{
		"Log": d.Log != nil, "Keys": d.Keys != nil, "Uses": d.Uses != nil, "Users": d.Users != nil, "Config": d.Config != nil,
		"CheckURL": d.CheckURL != nil, "Dead": d.Dead != nil, "Producer": d.Producer != nil, "Endpoints": d.Endpoints != nil,
		"Partitions": d.Partitions != nil, "Doctor": d.Doctor != nil, "BaseURL": d.BaseURL != "", "Now": d.Now != nil,
	} {
		if !there {
			errs = append(errs, fmt.Errorf("admin dependency %s is missing", name))
		}
	}
	return errors.Join(errs...)
}

// server serves the commands.
type server struct{ log *slog.Logger }

// New makes the handler of the command socket.
func New(d Deps) (http.Handler, error) {
	if err := d.validate(); err != nil {
		return nil, err
	}
	s := server{d.Log}
	keys := &keys{log: d.Log, keys: d.Keys, uses: d.Uses, now: d.Now}
	users := &users{users: d.Users, baseURL: d.BaseURL}
	exporting := &configuration{log: d.Log, config: d.Config, checkURL: d.CheckURL}
	dead := &deadLetters{open: d.Dead, producer: d.Producer}
	moves := &moves{log: d.Log, endpoints: d.Endpoints, open: d.Partitions, now: d.Now}
	mux := http.NewServeMux()
	for pattern, handler := range map[string]http.HandlerFunc{
		"GET /dead":          s.answer(dead.list),
		"POST /dead/retry":   s.follow(dead.retry),
		"GET /doctor":        s.answer(func(r *http.Request) (any, error) { return d.Doctor(r.Context()) }),
		"POST /move":         s.follow(moves.move),
		"GET /keys":          s.answer(keys.list),
		"POST /keys":         s.answer(keys.create),
		"DELETE /keys/{id}":  s.answer(keys.revoke),
		"POST /keys/rewrap":  s.follow(keys.rewrap),
		"GET /users":         s.answer(users.list),
		"POST /users":        s.answer(users.link(d.Users.AddUser)),
		"POST /users/reset":  s.answer(users.link(d.Users.ResetUser)),
		"POST /users/remove": s.answer(users.remove),
		"GET /config":        exporting.exportDocument,
		"POST /config":       s.followLong(maxImport, exporting.importDocument),
	} {
		mux.HandleFunc(pattern, handler)
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mux.ServeHTTP(w, r.WithContext(config.WithOrigin(r.Context(), config.Origin{Actor: audit.Operator})))
	}), nil
}

// answer makes a handler of a command that is answered with one value, or refused.
func (s server) answer(f func(*http.Request) (any, error)) http.HandlerFunc {
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

// follow makes a handler of a command that takes long. It is answered with a line for each value that it
// tells, and a last one that says how it ended; what is refused before anything was told is refused as any
// other command is. The command ends when whoever typed it does not listen any more.
func (s server) follow(f func(r *http.Request, tell func(any)) error) http.HandlerFunc {
	return s.followLong(maxCommand, f)
}

// followLong is follow for a command that sends up to so many bytes.
func (s server) followLong(most int64, f func(r *http.Request, tell func(any)) error) http.HandlerFunc {
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
			web.WriteError(w, r, s.log, commandError(err))
		}
	}
}

// commandError makes errors that are nobody's fault speak to the operator.
func commandError(err error) error {
	if errors.Is(err, config.ErrLevel) {
		return web.Away(err, "this waits for the end of an upgrade: "+
			"when every node runs the new version, run relay migrate --finalize")
	}
	if errors.Is(err, config.ErrUnavailable) {
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
