//go:build !linux

package clickhouse

import "log/slog"

// Confine only logs that this system cannot restrict a process to its files; Linux can.
func Confine(_ Config, log *slog.Logger) error {
	log.Warn("this system cannot confine the engine to its data directory")
	return nil
}
