package schema

import (
	"context"
	"math"
	"slices"
)

// MigrateUpTo is the migration of a version that knew fewer files, and no baseline.
func MigrateUpTo(ctx context.Context, url string, last uint32) error {
	steps, err := schemaSteps()
	if err != nil {
		return err
	}
	steps = slices.DeleteFunc(steps, func(s step) bool { return s.number > last })
	_, err = migrateTo(ctx, MigrateConfig{URL: url, RetentionDays: 30}, steps, nil)
	return err
}

// MigrateByFiles runs all files, also on an empty database.
func MigrateByFiles(ctx context.Context, url string) error {
	return MigrateUpTo(ctx, url, math.MaxUint32)
}
