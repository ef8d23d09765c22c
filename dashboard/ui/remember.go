package ui

import (
	"sync"
	"time"
)

// maxRemembered bounds how many values a dashboard remembers; there is one for an account and a kind of page.
const maxRemembered = 1000

// memory holds values that pages share for some seconds.
type memory struct {
	mu  sync.Mutex
	all map[string]remembered
}

type remembered struct {
	at    time.Time
	value any
}

// Remember returns the value of a key, made anew if the last one is older than life: what many open pages ask for costs
// the store one read then. It belongs to the visitor's account.
func Remember[T any](v *Visit, key string, life time.Duration, made func() (T, error)) (T, error) {
	m, key, now := &v.memory, v.Person.Account+" "+key, v.Now()
	m.mu.Lock()
	last, ok := m.all[key]
	m.mu.Unlock()
	if age := now.Sub(last.at); ok && age >= 0 && age < life {
		return last.value.(T), nil
	}
	value, err := made()
	if err != nil {
		return value, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.all == nil || len(m.all) >= maxRemembered {
		m.all = map[string]remembered{}
	}
	m.all[key] = remembered{now, value}
	return value, nil
}
