//go:build !relay_static

package clickhouse

import (
	"fmt"

	"github.com/ebitengine/purego"
)

// load opens the library and resolves its functions. The library is never closed: it starts threads of its own, whose
// code must stay mapped. Opening the same file twice in a process returns the same library.
func load(path string) (*binding, error) {
	handle, err := purego.Dlopen(path, purego.RTLD_NOW|purego.RTLD_LOCAL)
	if err != nil {
		return nil, fmt.Errorf("load %s: %w", path, err)
	}
	b := new(binding)
	for _, f := range []struct {
		name   string
		target any
	}{
		{"chdb_set_signal_handlers_enabled", &b.setSignalHandlersEnabled},
		{"chdb_version", &b.version},
		{"chdb_connect", &b.connect},
		{"chdb_close_conn", &b.closeConn},
		{"chdb_query_with_params_n", &b.query},
		{"chdb_stream_query_with_params_n", &b.streamQuery},
		{"chdb_stream_fetch_result", &b.fetch},
		{"chdb_stream_cancel_query", &b.cancelQuery},
		{"chdb_classify_query_n", &b.classify},
		{"chdb_stream_insert_with_params_n", &b.insert},
		{"chdb_stream_append", &b.insertAppend},
		{"chdb_stream_done", &b.insertDone},
		{"chdb_stream_cancel_insert", &b.insertCancel},
		{"chdb_stream_insert_error", &b.insertError},
		{"chdb_destroy_insert_stream", &b.insertDestroy},
		{"chdb_result_buffer", &b.resultBuffer},
		{"chdb_result_length", &b.resultLength},
		{"chdb_result_error", &b.resultError},
		{"chdb_result_rows_read", &b.resultRowsRead},
		{"chdb_result_rows_written", &b.resultRowsWritten},
		{"chdb_destroy_query_result", &b.resultDestroy},
	} {
		address, err := purego.Dlsym(handle, f.name)
		if err != nil {
			return nil, fmt.Errorf("find %s in %s: %w", f.name, path, err)
		}
		purego.RegisterFunc(f.target, address)
	}
	// Before the first connect: otherwise the library replaces the signal handlers of the Go runtime, and a fault in Go
	// code kills the process without a stack trace.
	b.setSignalHandlersEnabled(0)
	return b, nil
}
