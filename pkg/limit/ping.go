package limit

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Ping measures one PING to the configured Redis over a connection of its own, without the time to connect. Without a
// URL it fails.
func Ping(ctx context.Context, cfg Config) (took time.Duration, err error) {
	if err := cfg.Validate(); err != nil {
		return 0, err
	}
	client, cancelDials := cfg.client()
	defer cancelDials()
	if client == nil {
		return 0, errUnavailable
	}
	defer func() { err = errors.Join(err, client.Close()) }()
	for range 2 { // the first connects
		began := time.Now()
		if err := client.Ping(ctx).Err(); err != nil {
			return 0, fmt.Errorf("ping redis: %w", explainTLS(err))
		}
		took = time.Since(began)
	}
	return took, nil
}
