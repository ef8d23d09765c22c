package clickhouse

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"
)

// front is the HTTP handler: it runs one statement per request.
type front struct {
	cfg     Config
	log     *slog.Logger
	engine  *engine
	buffers sync.Pool
}

func newFront(cfg Config, log *slog.Logger, engine *engine, address net.Addr) http.Handler {
	// appendSize is the size of the pieces in which an insert's body goes to the engine.
	const appendSize = 1 << 20
	f := &front{cfg: cfg, log: log, engine: engine}
	f.buffers.New = func() any { b := make([]byte, appendSize); return &b }
	mux := http.NewServeMux()
	mux.HandleFunc("GET /ping", func(w http.ResponseWriter, _ *http.Request) {
		if _, err := io.WriteString(w, "Ok.\n"); err != nil {
			log.Debug("cannot answer ping", slog.Any("error", err))
		}
	})
	mux.Handle("GET /{$}", f)
	mux.Handle("POST /{$}", f)
	return newGuard(cfg, address, mux)
}

// ServeHTTP runs the statement of one request.
func (f *front) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	out := &response{w: w, tag: rand.Text()[:tagLength]}
	q, err := readRequest(w, r, f.cfg)
	if err == nil {
		err = f.engine.policy.check(q.query)
	}
	if err == nil {
		if q.id == "" {
			q.id = rand.Text()
		}
		out.start(q, f.engine)
		err = f.run(r.Context(), q, out)
	}
	if err != nil {
		f.sendException(r.Context(), out, err)
		return
	}
	out.finish()
}

// sendException answers with an exception. An error that is not from the engine gets the code STD_EXCEPTION, so that a
// client sees a ClickHouse error in every case.
func (f *front) sendException(ctx context.Context, out *response, err error) {
	var e *exception
	if !errors.As(err, &e) {
		e = &exception{code: codeStdException,
			text: fmt.Sprintf("Code: %d. DB::Exception: %v. (STD_EXCEPTION)", codeStdException, err)}
	}
	if err := out.writeException(e); err != nil {
		f.log.LogAttrs(ctx, slog.LevelDebug, "cannot send exception to client", slog.Any("error", err))
	}
}

// run executes the statement on a session of its own.
func (f *front) run(ctx context.Context, q *request, out *response) error {
	release, err := f.engine.slots.acquire(ctx, q)
	if err != nil {
		return fmt.Errorf("wait for a free session: %w", err)
	}
	defer release()
	s, err := f.engine.lib.open(f.engine.args)
	if err != nil {
		return err
	}
	defer s.close()
	mark := "front-" + rand.Text()
	if _, err := s.exec(q.prepare(mark), "Null", nil); err != nil {
		return err
	}
	if q.database != "" {
		if _, err := s.exec("USE "+quoteName(q.database), "Null", nil); err != nil {
			return err
		}
	}
	reads := q.insert == nil && s.readOnly(q.query)
	switch {
	case q.readsOnly && !reads:
		return newException(codeReadonly, "READONLY", "GET may only read; send this statement with POST")
	case q.insert != nil:
		return f.insert(s, q, out)
	case !reads:
		return f.runBuffered(s, q, out)
	}
	defer f.killOnDisconnect(ctx, mark)()
	if streamable(q) {
		return f.runStreaming(s, q, out)
	}
	return f.runBuffered(s, q, out)
}

func (f *front) insert(s *session, q *request, out *response) error {
	buffer := f.buffers.Get().(*[]byte)
	defer f.buffers.Put(buffer)
	written, err := s.insert(q.query, q.format, q.params, q.insert, *buffer)
	if err != nil {
		return err
	}
	out.summary(0, written)
	return nil
}

// streamable reports whether the output can be sent piece by piece: pieces of Native are blocks, of other formats each
// would be a document of its own. The library streams SELECT and WITH, but not SHOW, DESCRIBE and the like.
func streamable(q *request) bool {
	v := verb(q.query)
	return isNative(q.format) && (strings.EqualFold(v, "SELECT") || strings.EqualFold(v, "WITH"))
}

func isNative(format string) bool { return strings.EqualFold(format, "Native") }

// runStreaming sends the result as the engine produces it. A result without rows has no block, so it has no column
// names.
func (f *front) runStreaming(s *session, q *request, out *response) error {
	rows, err := s.stream(q.query, q.format, q.params)
	if err != nil {
		return err
	}
	defer rows.close()
	for {
		blocks, err := rows.next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if err := writeResult(blocks, q, out); err != nil {
			return err
		}
	}
}

// runBuffered sends the result when the statement has ended.
func (f *front) runBuffered(s *session, q *request, out *response) error {
	result, err := s.exec(q.query, q.format, q.params)
	if err != nil {
		return err
	}
	return writeResult(result, q, out)
}

func writeResult(result []byte, q *request, out *response) error {
	if isNative(q.format) {
		var err error
		if result, err = translate(result, q.protocol); err != nil {
			return err
		}
	}
	_, err := out.Write(result)
	return err
}

// killOnDisconnect kills the marked statement when ctx ends. The returned function stops that and waits for a running
// kill. The kill is repeated every 50 ms, because it finds the statement only after the engine has registered it.
func (f *front) killOnDisconnect(ctx context.Context, mark string) (stop func()) {
	const pause = 50 * time.Millisecond
	finished, cancel := context.WithCancel(context.WithoutCancel(ctx))
	killDone := make(chan struct{})
	stopKill := context.AfterFunc(ctx, func() {
		defer close(killDone)
		retry := time.NewTicker(pause)
		defer retry.Stop()
		for finished.Err() == nil {
			if err := f.kill(mark); err != nil {
				f.log.LogAttrs(ctx, slog.LevelWarn, "cannot kill the statement of a disconnected client", slog.Any("error", err))
				return
			}
			select {
			case <-retry.C:
			case <-finished.Done():
			}
		}
	})
	return func() {
		cancel()
		if !stopKill() {
			<-killDone
		}
	}
}

func (f *front) kill(mark string) error {
	s, err := f.engine.lib.open(f.engine.args)
	if err != nil {
		return err
	}
	defer s.close()
	_, err = s.exec("KILL QUERY WHERE Settings['log_comment'] = "+quote(mark)+" ASYNC", "Null", nil)
	return err
}
