package schema

import (
	"context"
	"io/fs"
)

// Files are the tables and migrations of this program.
var Files fs.FS = files

// MigrateFrom is Migrate with the given tables and migrations.
func MigrateFrom(ctx context.Context, cfg Config, files fs.FS) (Migrated, error) {
	return migrateFrom(ctx, cfg, files)
}
