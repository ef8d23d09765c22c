package doctor

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/eventrelay/relay/test/is"
)

// The growth of the disk is known after an hour, and is that of the last six hours.
func TestDiskHistory(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		d := &diskHistory{now: time.Now, free: func() (uint64, error) {
			return uint64(1000 - time.Since(began)/time.Hour), nil
		}}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- d.Run(ctx) }()
		f := func(after time.Duration, free uint64, ago time.Duration) {
			t.Helper()
			time.Sleep(after - time.Since(began))
			synctest.Wait()
			if gotFree, gotAgo := d.before(); gotFree != free || gotAgo != ago {
				t.Errorf("after %v: %d free %v ago, want %d and %v", after, gotFree, gotAgo, free, ago)
			}
		}
		f(59*time.Minute, 0, 0)
		f(61*time.Minute, 1000, 61*time.Minute)
		f(10*time.Hour, 996, 6*time.Hour)
		cancel()
		is.OK(t, <-done)
	})
}
