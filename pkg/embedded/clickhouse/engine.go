package clickhouse

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/eventrelay/relay/pkg/private"
)

// engine is an opened data directory. anchorSession stays open as long as the engine: closing the last session would
// stop it, and opening one again would cost a start.
type engine struct {
	lib           *binding
	lock          *os.File
	args          []string
	anchorSession *session
	policy        policy
	slots         *slots
	version       string
	zone          string
	host          string
	failedAtStart int // writes that the start has lost, see countStart
}

// lockFile is the name of the lock file in the data directory.
const lockFile = "lock"

// openEngine locks the data directory and starts the engine on it.
func openEngine(ctx context.Context, cfg Config) (_ *engine, err error) {
	path, err := FindLibrary(cfg.Library)
	if err != nil {
		return nil, err
	}
	// The engine resolves a relative path differently when it writes and when it reads.
	if cfg.Data, err = filepath.Abs(cfg.Data); err != nil {
		return nil, fmt.Errorf("find data directory: %w", err)
	}
	if err := private.EnsureDir(cfg.Data, lockFile); err != nil {
		return nil, fmt.Errorf("data directory: %w", err)
	}
	lock, err := acquireLock(ctx, filepath.Join(cfg.Data, lockFile), cfg.LockWait)
	if err != nil {
		return nil, err
	}
	e := &engine{lock: lock, slots: newSlots(cfg.Sessions)}
	defer func() {
		if err != nil {
			err = errors.Join(err, e.close())
		}
	}()
	if err := repairDefinitions(cfg.Data); err != nil {
		return nil, fmt.Errorf("repair the definitions of tables: %w", err)
	}
	settings, users := filepath.Join(cfg.Data, "config.xml"), filepath.Join(cfg.Data, "users.xml")
	err = writeIfNew(settings, serverSettings(cfg, users))
	if err := errors.Join(err, writeIfNew(users, userSettings(cfg))); err != nil {
		return nil, fmt.Errorf("write engine settings: %w", err)
	}
	if e.lib, err = load(path); err != nil {
		return nil, err
	}
	e.args = []string{
		"clickhouse", "--path=" + filepath.Join(cfg.Data, "db"), "--config-file=" + settings,
		// 26.7 buffers inserts and answers before they are stored unless told otherwise. implicit_select would run the
		// text "nonsense" as a SELECT.
		"--async_insert=0", "--implicit_select=0",
		// Column statistics are read from one file per column of each part that is younger than five minutes or than
		// the start. That doubles the cost of a statement, for a choice of plan that the primary keys already
		// determine.
		"--use_statistics=0",
	}
	if e.anchorSession, err = e.lib.open(e.args); err != nil {
		return nil, fmt.Errorf("open data directory %s: %w", cfg.Data, err)
	}
	if err := keepDefinitions(cfg.Data); err != nil && !errors.Is(err, unix.ENOSPC) && !errors.Is(err, unix.EDQUOT) {
		return nil, fmt.Errorf("keep the definitions of tables: %w", err)
	}
	return e, errors.Join(e.countStart(cfg.Data), e.readServerInfo(), e.readTableFunctions(cfg.Backups != ""))
}

// writeIfNew writes a file unless it has the text: on a full disk the engine must be able to start again.
func writeIfNew(path, text string) error {
	if old, err := os.ReadFile(path); err == nil && string(old) == text {
		return nil
	}
	return os.WriteFile(path, []byte(text), 0o600)
}

// readTableFunctions asks the engine for its table functions, so that those of a newer library are refused too.
func (e *engine) readTableFunctions(backups bool) error {
	out, err := e.anchorSession.exec("SELECT name FROM system.table_functions", "TabSeparated", nil)
	if err != nil {
		return fmt.Errorf("read the engine's table functions: %w", err)
	}
	names := strings.Fields(string(out))
	const minFunctions = 50 // 26.7 has 90
	if len(names) < minFunctions {
		return fmt.Errorf("read the engine's table functions: it lists only %d", len(names))
	}
	e.policy = newPolicy(names, backups)
	return nil
}

// readServerInfo asks the engine for its version, time zone and name, which are response headers.
func (e *engine) readServerInfo() error {
	out, err := e.anchorSession.exec("SELECT version(), timezone(), displayName()", "TabSeparated", nil)
	if err != nil {
		return fmt.Errorf("read the engine's version: %w", err)
	}
	fields := strings.Split(strings.TrimSpace(string(out)), "\t")
	if len(fields) != 3 {
		return fmt.Errorf("read the engine's version: unexpected answer %q", out)
	}
	e.version, e.zone, e.host = fields[0], fields[1], fields[2]
	return nil
}

// close stops the engine unless a statement is still running: its session keeps the engine open, and the end of the
// process ends both.
func (e *engine) close() error {
	if e.anchorSession != nil {
		e.anchorSession.close()
	}
	if err := e.lock.Close(); err != nil {
		return fmt.Errorf("release data directory: %w", err)
	}
	return nil
}

// serverSettings returns ClickHouse's configuration file. The defaults of ClickHouse are for a machine of its own:
// caches of many gigabytes and dozens of merge threads.
func serverSettings(cfg Config, users string) string {
	const MiB = 1 << 20
	fsync := 0
	if cfg.Fsync {
		fsync = 1
	}
	var b strings.Builder
	b.WriteString("<clickhouse>\n")
	set := func(name string, value int64) { fmt.Fprintf(&b, "  <%s>%d</%s>\n", name, value, name) }
	set("max_server_memory_usage", cfg.MaxMemory)
	set("mark_cache_size", 64*MiB)
	set("index_mark_cache_size", 16*MiB)
	set("primary_index_cache_size", 64*MiB)
	set("uncompressed_cache_size", 0)
	set("index_uncompressed_cache_size", 0)
	set("mmap_cache_size", 0)
	set("compiled_expression_cache_size", 32*MiB)
	set("background_pool_size", 2)
	b.WriteString("  <user_directories><users_xml><path>" + xmlText(users) + "</path></users_xml></user_directories>\n")
	b.WriteString("  <remote_url_allow_hosts/>\n") // allows no host
	b.WriteString("  <access_control_improvements><table_engines_require_grant>true</table_engines_require_grant>" +
		"</access_control_improvements>\n")
	if cfg.Backups != "" {
		path := xmlText(filepath.Clean(cfg.Backups) + "/")
		b.WriteString("  <storage_configuration><disks><backups><type>local</type><path>" + path +
			"</path></backups></disks></storage_configuration>\n")
		b.WriteString("  <backups><allowed_disk>backups</allowed_disk><allowed_path>" + path + "</allowed_path></backups>\n")
	}
	b.WriteString("  <merge_tree>\n")
	// By default parts are not synced: a power cut would lose inserts that were acknowledged.
	set("fsync_after_insert", int64(fsync))
	set("fsync_part_directory", int64(fsync))
	if !cfg.Fsync {
		// After a power cut, parts that were not synced are detached, however many there are; with more than a hundred
		// in a table the engine would otherwise not start.
		set("max_suspicious_broken_parts", 1_000_000)
	}
	// A merge that could not write may leave a part of any size (see failures); with one above 1 GiB the engine would
	// not start.
	set("max_suspicious_broken_parts_bytes", 1<<50)
	// These thresholds count free merge slots and must fit the pool of 2 threads (4 slots); with the defaults of 8 and
	// 20 every merge would be kept small.
	set("number_of_free_entries_in_pool_to_lower_max_size_of_merge", 2)
	set("number_of_free_entries_in_pool_to_execute_mutation", 2)
	set("number_of_free_entries_in_pool_to_execute_optimize_entire_partition", 2)
	// Statistics are not read (see openEngine), so merges need not collect them.
	set("materialize_statistics_on_merge", 0)
	b.WriteString("  </merge_tree>\n</clickhouse>\n")
	return b.String()
}

// binding is libchdb's C interface (chdb.h of chDB 26.7), loaded at run time so that the program builds without a C
// compiler. Handles are opaque pointers. Every string is passed with its length, because bodies and parameter values
// may contain zero bytes.
type binding struct {
	setSignalHandlersEnabled func(enabled int32)
	version                  func() string

	// connect returns a pointer to the connection handle that every other function takes; closeConn takes that pointer
	// to the handle.
	connect   func(argc int32, argv unsafe.Pointer) unsafe.Pointer
	closeConn func(outer unsafe.Pointer)

	query func(conn unsafe.Pointer, query *byte, n uintptr, format *byte, formatN uintptr, names, nameNs, values,
		valueNs unsafe.Pointer, params uintptr) unsafe.Pointer
	streamQuery func(conn unsafe.Pointer, query *byte, n uintptr, format *byte, formatN uintptr, names, nameNs, values,
		valueNs unsafe.Pointer, params uintptr) unsafe.Pointer
	fetch       func(conn, stream unsafe.Pointer) unsafe.Pointer
	cancelQuery func(conn, stream unsafe.Pointer)
	classify    func(conn unsafe.Pointer, query *byte, n uintptr, database *byte, databaseN uintptr,
		out unsafe.Pointer) int32

	insert func(conn unsafe.Pointer, query *byte, n uintptr, format *byte, formatN uintptr, names, nameNs, values,
		valueNs unsafe.Pointer, params uintptr) unsafe.Pointer
	insertAppend  func(stream unsafe.Pointer, data *byte, n uintptr) int32
	insertDone    func(stream unsafe.Pointer) unsafe.Pointer
	insertCancel  func(stream unsafe.Pointer)
	insertError   func(stream unsafe.Pointer) string
	insertDestroy func(stream unsafe.Pointer)

	resultBuffer      func(result unsafe.Pointer) unsafe.Pointer
	resultLength      func(result unsafe.Pointer) uintptr
	resultError       func(result unsafe.Pointer) string
	resultRowsRead    func(result unsafe.Pointer) uint64
	resultRowsWritten func(result unsafe.Pointer) uint64
	resultDestroy     func(result unsafe.Pointer)
}

// text returns a string's bytes as a pointer and a length. The pointer is never nil: the library would treat nil as a
// missing argument.
func text(s string) (*byte, uintptr) {
	if s == "" {
		return new(byte), 0
	}
	return unsafe.StringData(s), uintptr(len(s))
}

// texts returns strings as two parallel C arrays of pointers and lengths. The pinner keeps the strings in place until
// the call has returned.
func texts(pin *runtime.Pinner, all []string) (pointers, lengths unsafe.Pointer) {
	if len(all) == 0 {
		return nil, nil
	}
	ps := make([]*byte, len(all))
	ns := make([]uintptr, len(all))
	for i, s := range all {
		ps[i], ns[i] = text(s)
		pin.Pin(ps[i])
	}
	pin.Pin(&ps[0])
	pin.Pin(&ns[0])
	return unsafe.Pointer(&ps[0]), unsafe.Pointer(&ns[0])
}

// arguments returns strings as a C argv, each terminated by a zero byte.
func arguments(pin *runtime.Pinner, all []string) unsafe.Pointer {
	argv := make([]*byte, len(all)+1)
	for i, s := range all {
		ended := append([]byte(s), 0)
		pin.Pin(&ended[0])
		argv[i] = &ended[0]
	}
	pin.Pin(&argv[0])
	return unsafe.Pointer(&argv[0])
}

// exception is an error in ClickHouse's form, as its HTTP interface sends it: the text in the body, the code in a
// header.
type exception struct {
	code int
	text string
}

func (e *exception) Error() string { return e.text }

func (e *exception) codeText() string { return strconv.Itoa(e.code) }

// Codes of ClickHouse's ErrorCodes.cpp that this package itself answers with.
const (
	codeNoDataToInsert = 108
	codeUnknownSetting = 115
	codeTooManyBytes   = 307
	codeNotEnoughSpace = 243
	codeCannotReadAll  = 33
	codeStdException   = 1001
	codeNotImplemented = 48
	codeBadArguments   = 36
	codeSyntaxError    = 62
	codeReadonly       = 164
	codeAccessDenied   = 497

	codeAuthenticationFailed = 516
)

var exceptionCode = regexp.MustCompile(`Code: (\d+)\.`)

// parseException parses the engine's error text, "Code: N. DB::Exception: …".
func parseException(text string) error {
	e := &exception{code: codeStdException, text: text}
	if m := exceptionCode.FindStringSubmatch(text); m != nil {
		if n, err := strconv.Atoi(m[1]); err == nil {
			e.code = n
		}
	}
	return e
}

func newException(code int, name, format string, args ...any) error {
	return &exception{code: code,
		text: fmt.Sprintf("Code: %d. DB::Exception: %s. (%s)", code, fmt.Sprintf(format, args...), name)}
}

// ErrNoLibrary means that libchdb does not exist where FindLibrary looks.
var ErrNoLibrary = errors.New("libchdb is missing: run `make build`, or set RELAY_CHDB_LIB to its path")

// FindLibrary returns the path of libchdb: the explicit path if there is one, else lib/ beside the executable, where
// `make build` puts it.
func FindLibrary(explicit string) (string, error) {
	path := explicit
	if path == "" {
		executable, err := os.Executable()
		if err != nil {
			return "", fmt.Errorf("find the executable: %w", err)
		}
		if executable, err = filepath.EvalSymlinks(executable); err != nil {
			return "", fmt.Errorf("resolve the executable: %w", err)
		}
		path = filepath.Join(filepath.Dir(executable), "lib", libraryName)
	}
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("%w (looked for %s)", ErrNoLibrary, path)
	}
	if err != nil {
		return "", fmt.Errorf("find libchdb: %w", err)
	}
	if !info.Mode().IsRegular() {
		return "", fmt.Errorf("%w (%s is not a file)", ErrNoLibrary, path)
	}
	// An absolute path, because the loader would search its own directories for a bare name.
	absolute, err := filepath.Abs(path)
	if err != nil {
		return "", fmt.Errorf("resolve %s: %w", path, err)
	}
	return absolute, nil
}

// libraryName is the name of the file in chDB's packages.
const libraryName = "libchdb.so"
