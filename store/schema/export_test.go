package schema

import (
	"context"
	"io/fs"
)

// Files are those of the program.
var Files fs.FS = files

// MigrateFrom is Migrate with other tables and migrations.
func MigrateFrom(ctx context.Context, cfg Config, files fs.FS) (Migrated, error) {
	return migrateFrom(ctx, cfg, files)
}
