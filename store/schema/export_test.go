package schema

import (
	"context"
	"io/fs"
)

// Files are those of the program.
var Files fs.FS = files

// MigrateFrom is MigrateTables with other tables and migrations.
func MigrateFrom(ctx context.Context, cfg MigrateConfig, files fs.FS) (Migrated, error) {
	return migrateFrom(ctx, cfg, files)
}
