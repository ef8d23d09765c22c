package ch

import (
	"fmt"
	"time"
)

// Positive is an error unless v is.
func Positive[T int | time.Duration](name string, v T) error {
	if v > 0 {
		return nil
	}
	return fmt.Errorf("store: %s must be positive, not %v", name, v)
}
