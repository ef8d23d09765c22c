package clickhouse

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/ClickHouse/ch-go/compress"
	chproto "github.com/ClickHouse/ch-go/proto"
	driver "github.com/ClickHouse/clickhouse-go/v2"
	"github.com/ClickHouse/clickhouse-go/v2/lib/column"
	"github.com/ClickHouse/clickhouse-go/v2/lib/proto"
)

// front is the HTTP handler: it runs one statement per request.
type front struct {
	cfg     Config
	log     *slog.Logger
	engine  *engine
	buffers sync.Pool

	defining sync.Mutex // held while definitions are kept
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
	if !reads {
		return f.write(s, q, out)
	}
	defer f.killOnDisconnect(ctx, mark)()
	if streamable(q) {
		return f.runStreaming(s, q, out)
	}
	return f.runBuffered(s, q, out)
}

// write runs a statement that does not only read. It is acknowledged only if nothing was lost; see failures.
func (f *front) write(s *session, q *request, out *response) error {
	if q.readsOnly {
		return newException(codeReadonly, "READONLY", "GET may only read; send this statement with POST")
	}
	if q.insert == nil {
		before, err := f.engine.failures()
		if err := cmp.Or(err, f.beforeDefinition(q.query)); err != nil {
			return err
		}
		result, err := s.exec(q.query, q.format, q.params)
		if err := cmp.Or(err, f.engine.checkFailures(before.reads)); err != nil {
			return err
		}
		return writeResult(result, q, out)
	}
	buffer := f.buffers.Get().(*[]byte)
	defer f.buffers.Put(buffer)
	written, err := s.insert(q.query, q.format, q.params, q.insert, *buffer)
	if err := cmp.Or(err, f.engine.checkFailures(math.MaxInt)); err != nil {
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

// guard rejects requests that no client of the relay sends, before it reads their body: requests of web pages (they
// carry Origin or Sec-Fetch-Site), requests with a foreign Host (DNS rebinding), and requests without the key.
type guard struct {
	hosts       []string // names of this server in lower case; without a port: any port
	key         [sha256.Size]byte
	requiresKey bool
	next        http.Handler
}

// newGuard returns a guard in front of a handler that listens on address.
func newGuard(cfg Config, address net.Addr, next http.Handler) *guard {
	g := &guard{key: sha256.Sum256([]byte(cfg.Key)), requiresKey: cfg.Key != "", next: next}
	for _, host := range cfg.Hosts {
		g.hosts = append(g.hosts, strings.ToLower(strings.Trim(host, "[]")))
	}
	tcp, ok := address.(*net.TCPAddr)
	if !ok {
		g.hosts = append(g.hosts, "localhost") // clients of a unix socket send this
		return g
	}
	g.hosts = append(g.hosts, tcp.String())
	if tcp.IP.IsLoopback() {
		_, port, _ := net.SplitHostPort(tcp.String())
		g.hosts = append(g.hosts, net.JoinHostPort("localhost", port))
	}
	return g
}

func (g *guard) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if e := g.rejection(r); e != nil {
		h := w.Header()
		h.Set("Content-Type", "text/plain; charset=UTF-8")
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("X-ClickHouse-Exception-Code", e.codeText())
		h.Set("Connection", "close") // a client without the key must not hold a connection
		w.WriteHeader(http.StatusForbidden)
		_, _ = w.Write([]byte(e.text + "\n")) // the client may have disconnected
		return
	}
	g.next.ServeHTTP(w, r)
}

func (g *guard) rejection(r *http.Request) *exception {
	switch site := r.Header.Values("Sec-Fetch-Site"); {
	case len(r.Header.Values("Origin")) > 0, len(site) > 0 && !slices.Equal(site, []string{"none"}):
		return accessDenied("requests of web pages are refused; send them from a program, such as curl")
	case !g.isOwn(r.Host):
		return accessDenied("the Host of the request is none of this server's names (" + strings.Join(g.hosts, ", ") +
			"); add names with --host")
	case g.requiresKey && !g.hasKey(r):
		return &exception{code: codeAuthenticationFailed, text: "Code: 516. DB::Exception: The key is missing or wrong: " +
			"send it as X-ClickHouse-Key or as password. (AUTHENTICATION_FAILED)"}
	}
	return nil
}

func accessDenied(why string) *exception {
	return &exception{code: codeAccessDenied, text: "Code: 497. DB::Exception: " + why + ". (ACCESS_DENIED)"}
}

func (g *guard) isOwn(host string) bool {
	host = strings.ToLower(host)
	bare, _, err := net.SplitHostPort(host)
	if err != nil {
		bare = strings.Trim(host, "[]")
	}
	return slices.Contains(g.hosts, host) || slices.Contains(g.hosts, bare)
}

// hasKey compares digests in constant time, so that neither the content nor the length of the key can be measured.
func (g *guard) hasKey(r *http.Request) bool {
	given := r.Header.Get("X-ClickHouse-Key")
	if _, password, ok := r.BasicAuth(); ok && given == "" {
		given = password
	}
	digest := sha256.Sum256([]byte(given))
	return subtle.ConstantTimeCompare(digest[:], g.key[:]) == 1
}

// isLoopback reports whether a listen address can be reached from this machine only.
func isLoopback(host string) bool {
	ip, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && ip.Unmap().IsLoopback()
}

// translate re-encodes Native blocks of revision 0, which the library writes, for a client of the given protocol
// revision: there a block begins with its block info, and each column has a flag for custom serialization.
func translate(blocks []byte, revision uint64) ([]byte, error) {
	if revision == 0 {
		return blocks, nil
	}
	revision = min(revision, driver.ClientTCPProtocolVersion)
	source := bytes.NewReader(blocks)
	reader := chproto.NewReader(source)
	out := &chproto.Buffer{Buf: make([]byte, 0, len(blocks)+len(blocks)/64+256)}
	for {
		block := proto.Block{ServerContext: &column.ServerContext{Timezone: time.UTC}}
		err := block.Decode(reader, 0)
		if errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
			return out.Buf, nil
		}
		if err != nil {
			return nil, fmt.Errorf("decode native block: %w", err)
		}
		if err := encode(out, &block, revision); err != nil {
			return nil, fmt.Errorf("encode native block: %w", err)
		}
	}
}

// encode writes a block. In a block without rows a column is only its name and type (NativeWriter.cpp); Block.Encode
// would add state prefixes that clients do not expect.
func encode(out *chproto.Buffer, block *proto.Block, revision uint64) error {
	if block.Rows() > 0 {
		return block.Encode(out, revision)
	}
	if err := block.EncodeHeader(out, revision); err != nil {
		return err
	}
	for _, c := range block.Columns {
		out.PutString(c.Name())
		out.PutString(string(c.Type()))
		if revision >= proto.DBMS_MIN_REVISION_WITH_CUSTOM_SERIALIZATION {
			out.PutBool(false)
		}
	}
	return nil
}

// tagLength is the length of the random tag that distinguishes an exception in the middle of a result from data that
// looks like one.
const tagLength = 16

// response writes a result, or an exception before or in the middle of it.
type response struct {
	w          http.ResponseWriter
	tag        string
	compressor *compress.Writer
	started    bool // the status has been sent, so that an error status is too late
}

// start sets the response headers that ClickHouse clients read.
func (r *response) start(q *request, e *engine) {
	h := r.w.Header()
	h.Set("X-ClickHouse-Query-Id", q.id)
	h.Set("X-ClickHouse-Format", q.format)
	h.Set("X-ClickHouse-Timezone", e.zone)
	h.Set("X-ClickHouse-Server-Display-Name", e.host)
	h.Set("X-ClickHouse-Exception-Tag", r.tag)
	h.Set("Content-Type", contentType(q.format))
	if q.compress != nil {
		r.compressor = compress.NewWriter(compress.LevelZero, *q.compress)
	}
}

func contentType(format string) string {
	switch format {
	case "TabSeparated", "TSV", "Values":
		return "text/tab-separated-values; charset=UTF-8"
	case "JSON", "JSONCompact", "JSONEachRow":
		return "application/json; charset=UTF-8"
	case "CSV", "CSVWithNames":
		return "text/csv; charset=UTF-8"
	case "Pretty", "PrettyCompact", "Vertical":
		return "text/plain; charset=UTF-8"
	}
	return "application/octet-stream"
}

// summary sets the header with the numbers of rows; call it before the first Write.
func (r *response) summary(read, written uint64) {
	r.w.Header().Set("X-ClickHouse-Summary", fmt.Sprintf(`{"read_rows":"%d","written_rows":"%d"}`, read, written))
}

// Write sends a part of the result, in compressed frames if the client asked for them.
func (r *response) Write(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	r.started = true
	if r.compressor == nil {
		return r.w.Write(p)
	}
	// frameSize is that of ClickHouse's own writers; readers limit it.
	const frameSize = 1 << 20
	for unsent := p; len(unsent) > 0; {
		n := min(len(unsent), frameSize)
		if err := r.compressor.Compress(unsent[:n]); err != nil {
			return 0, fmt.Errorf("compress result: %w", err)
		}
		if _, err := r.w.Write(r.compressor.Data); err != nil {
			return 0, err
		}
		unsent = unsent[n:]
	}
	return len(p), nil
}

// finish completes the response; an empty result gets Content-Length 0, which clients rely on.
func (r *response) finish() {
	if !r.started {
		r.w.Header().Set("Content-Length", "0")
		r.w.WriteHeader(http.StatusOK)
	}
}

// writeException sends an exception. Before the first byte of a result it is an error status with the text; after that
// it is the framed text that WriteBufferFromHTTPServerResponse.cpp appends.
func (r *response) writeException(e *exception) error {
	if r.started {
		text := e.text + "\n"
		_, err := fmt.Fprintf(r, "\r\n__exception__\r\n%s\r\n%s%d %s\r\n__exception__\r\n", r.tag, text, len(text), r.tag)
		return err
	}
	r.started = true
	h := r.w.Header()
	h.Set("Content-Type", "text/plain; charset=UTF-8")
	h.Set("X-ClickHouse-Exception-Code", e.codeText())
	r.w.WriteHeader(http.StatusInternalServerError)
	_, err := fmt.Fprintln(r, e.text)
	return err
}

// writerSlots is how many sessions are reserved for statements that write: however many reads wait, the store writer
// goes on.
const writerSlots = 2

// slots limits the statements that run at once. A ping has a slot of its own: it tests whether the engine answers, not
// whether a session is free.
type slots struct {
	all   chan struct{} // one token per running statement
	reads chan struct{} // one token per running statement that only reads; it also holds one of all
	ping  chan struct{}
}

func newSlots(sessions int) *slots {
	return &slots{
		all: make(chan struct{}, sessions), reads: make(chan struct{}, max(1, sessions-writerSlots)),
		ping: make(chan struct{}, 1),
	}
}

// pingQuery is the ping of clickhouse-go.
const pingQuery = "SELECT 1"

// readVerbs are the first words of statements that only read.
var readVerbs = []string{"SELECT", "WITH", "SHOW", "DESCRIBE", "DESC", "EXISTS", "EXPLAIN"}

// acquire waits until the statement may run; the returned function releases its slots.
func (s *slots) acquire(ctx context.Context, q *request) (release func(), err error) {
	var needs []chan struct{}
	switch {
	case q.insert == nil && strings.TrimSpace(q.query) == pingQuery:
		needs = []chan struct{}{s.ping}
	case q.insert == nil && slices.Contains(readVerbs, strings.ToUpper(verb(q.query))):
		needs = []chan struct{}{s.reads, s.all} // in this order: a read that waits for reads must not hold one of all
	default:
		needs = []chan struct{}{s.all}
	}
	for i, need := range needs {
		select {
		case need <- struct{}{}:
		case <-ctx.Done():
			releaseSlots(needs[:i])
			return nil, context.Cause(ctx)
		}
	}
	return func() { releaseSlots(needs) }, nil
}

func releaseSlots(taken []chan struct{}) {
	for _, slot := range taken {
		<-slot
	}
}
