package doctor

import (
	"context"
	"time"
)

// warnBackup is the age of the last backup from which it is a warning: one that runs every day has failed twice.
const warnBackup = 48 * time.Hour

func (x *checker) backup(context.Context) Check {
	const advice = "run relay backup every day (docs/operate/upgrade.md, Back up one machine): a lost disk loses every " +
		"event since the last backup"
	last, err := x.BackedUp()
	switch age := x.Now().Sub(last); {
	case err != nil:
		return warn(advice, "cannot read when the last backup was made: %v", err)
	case last.IsZero():
		return warn(advice, "no backup was ever made")
	case age > warnBackup:
		return warn(advice, "the last backup began %s ago", formatAge(age))
	default:
		return ok("the last backup began %s ago", formatAge(age))
	}
}
