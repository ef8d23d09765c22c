//go:build !linux

package clickhouse

import "log/slog"

// Confine does nothing: only Linux can confine a process that way.
func Confine(_ Config, log *slog.Logger) error {
	log.Warn("this system cannot confine the engine to its data directory")
	return nil
}
