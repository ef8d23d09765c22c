package clickhouse

import (
	"runtime"
	"unsafe"
)

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
