package redis

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
	"time"
)

// saveInterval is how often counters are saved while they change.
const saveInterval = time.Second

// savedPrefixes begin the keys that are saved: counts of sign-ins and of other attempts, up to a day long (package
// limit). Tokens and circuit breakers begin anew with the process.
var savedPrefixes = []string{"window:", "distinct:"}

// counter is a saved key: a text, or the members of a set.
type counter struct {
	Value   string    `json:"value,omitempty"`
	Members []string  `json:"members,omitempty"`
	Until   time.Time `json:"until"`
}

// counters keeps them in a file.
type counters struct {
	*Server
	path  string
	known map[string]counter // as in the file
}

// load restores the counters. A file that is damaged or missing is none.
func (c *counters) load() error {
	raw, err := os.ReadFile(c.path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil {
		err = json.Unmarshal(raw, &c.known)
	}
	if err != nil {
		return fmt.Errorf("read the counters of attempts: %w", err)
	}
	for key, x := range c.known {
		left := time.Until(x.Until)
		if left <= 0 {
			continue
		}
		if len(x.Members) > 0 {
			_, err = c.redis.SAdd(key, x.Members...)
		} else {
			err = c.redis.Set(key, x.Value)
		}
		if err != nil {
			return err
		}
		c.redis.SetTTL(key, left)
	}
	return nil
}

// save writes the file if a counter has changed. The file of before stays until the new one is whole.
func (c *counters) save() error {
	now, same := time.Now(), true
	next := make(map[string]counter)
	for _, key := range c.redis.Keys() {
		if !slices.ContainsFunc(savedPrefixes, func(p string) bool { return strings.HasPrefix(key, p) }) {
			continue
		}
		x := counter{Until: now.Add(c.redis.TTL(key))}
		if x.Value, _ = c.redis.Get(key); x.Value == "" {
			x.Members, _ = c.redis.Members(key)
		}
		if before, ok := c.known[key]; ok && before.Value == x.Value && slices.Equal(before.Members, x.Members) {
			x = before
		} else {
			same = false
		}
		next[key] = x
	}
	if same && len(next) == len(c.known) {
		return nil
	}
	var text bytes.Buffer
	if err := json.NewEncoder(&text).Encode(next); err != nil {
		return err
	}
	f, err := os.OpenFile(c.path+".new", os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(text.Bytes())
	if err = errors.Join(err, f.Sync(), f.Close()); err == nil {
		err = os.Rename(f.Name(), c.path)
	}
	if err == nil {
		c.known = next
	}
	return err
}
