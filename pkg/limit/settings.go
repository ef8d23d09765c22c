package limit

import (
	"context"
	"errors"
	"strings"
)

// Settings of Redis that decide what it loses.
type Settings struct {
	Eviction string // maxmemory-policy; empty if it could not be read
	Volatile bool   // neither save nor appendonly: a restart loses all keys
}

// ReadSettings reads settings of Redis. What it does not show, because of its ACL or because it is another program that
// speaks its protocol, is left empty.
func ReadSettings(ctx context.Context, cfg Config) (s Settings, err error) {
	client, cancelDials := cfg.client()
	defer cancelDials()
	if client == nil {
		return s, errUnavailable
	}
	defer func() { err = errors.Join(err, client.Close()) }()
	if info, err := client.Info(ctx, "memory").Result(); err == nil {
		for line := range strings.Lines(info) {
			if policy, ok := strings.CutPrefix(strings.TrimSpace(line), "maxmemory_policy:"); ok {
				s.Eviction = policy
			}
		}
	}
	save, saveErr := client.ConfigGet(ctx, "save").Result()
	appends, appendErr := client.ConfigGet(ctx, "appendonly").Result()
	if saveErr == nil && appendErr == nil && len(save) > 0 && len(appends) > 0 {
		s.Volatile = save["save"] == "" && appends["appendonly"] == "no"
	}
	return s, nil
}
