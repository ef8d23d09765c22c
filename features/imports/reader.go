package imports

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/eventrelay/relay/command/cli"
	"github.com/eventrelay/relay/pkg/egress"
	"github.com/eventrelay/relay/pkg/wait"
)

// Bounds of what another system may answer.
const (
	requestTime = 30 * time.Second
	maxAnswer   = 8 << 20   // bytes of one answer
	maxAnswers  = 256 << 20 // bytes of all of them, which are in memory
	maxPages    = 10_000    // of one list
	maxObjects  = 100_000
	maxTries    = 6
	maxPause    = 5 * time.Minute // that the other system may ask for
	maxShown    = 200             // bytes of an answer that an error shows
)

// backoff spaces tries when the other system does not say how long to wait.
var backoff = wait.Backoff{First: 500 * time.Millisecond, Longest: 10 * time.Second}

// errAbsent is the error of what the other system, or an export of it, does not have.
var errAbsent = errors.New("is not there; is this the address of the API, or all of an export?")

// source is the API of another system, or an export of it.
type source struct {
	http    *http.Client // nil: an export, from which everything is kept
	base    string
	token   string
	kept    *state
	pause   func(context.Context, time.Duration) error
	tell    func(text string) // tells a person who waits
	read    int               // answers from the API in this run
	objects int
}

// newSource returns the API at a URL. It goes to an address that the operator of this program named.
func newSource(base, token string, kept *state, getenv func(string) string) (*source, error) {
	u, err := url.Parse(base)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil {
		return nil, errors.New("--api-url must be http:// or https:// with a host, without a user name")
	}
	dialer, err := egress.NewOperatorDialer(getenv("RELAY_EGRESS_CA_FILE"), getenv("RELAY_DNS_SERVER"))
	if err != nil {
		return nil, err
	}
	return &source{http: dialer.Client(requestTime, maxAnswer), base: strings.TrimSuffix(base, "/"), token: token,
		kept: kept}, nil
}

// get reads the answer at a path, or a page of it, from 1, into a value. Answers of an earlier run are not asked for
// again.
func (s *source) get(ctx context.Context, path string, query url.Values, page int, into any) error {
	raw, found, err := s.kept.find(path, page)
	if err != nil {
		return err
	}
	if !found && s.http != nil {
		if raw, err = s.ask(ctx, path, query); err != nil {
			return err
		}
		s.read++
		if err := s.kept.add(path, page, raw); err != nil {
			return err
		}
	}
	if len(raw) == 0 {
		return fmt.Errorf("%s %w", cli.Printable(path), errAbsent)
	}
	if err := decode(raw, into); err != nil {
		return fmt.Errorf("%s: the answer does not have the form of the API: %w", cli.Printable(path), err)
	}
	return nil
}

// getIfThere is get for what older versions of a system, or some of its objects, do not have: the value stays as it is.
func (s *source) getIfThere(ctx context.Context, path string, query url.Values, into any) error {
	if err := s.get(ctx, path, query, 1, into); !errors.Is(err, errAbsent) {
		return err
	}
	return nil
}

// ask sends a request, and again while the other system is overloaded or unavailable. It returns nothing for what is
// not there.
func (s *source) ask(ctx context.Context, path string, query url.Values) ([]byte, error) {
	for try := 0; ; try++ {
		raw, pause, err := s.try(ctx, path, query)
		if err == nil || pause < 0 || try == maxTries-1 || ctx.Err() != nil {
			return raw, err
		}
		pause = min(cmp.Or(pause, backoff.After(try)), maxPause)
		if s.tell != nil && pause > 5*time.Second {
			s.tell(fmt.Sprintf("%v; the next try is in %v", err, pause.Round(time.Second)))
		}
		if err := s.pause(ctx, pause); err != nil {
			return nil, err
		}
	}
}

// try sends a request once. On an error it returns how long to wait before the next try: 0 = as long as the client
// likes, less than 0 = another try is of no use.
func (s *source) try(ctx context.Context, path string, query url.Values) (_ []byte, pause time.Duration, err error) {
	const never = -1
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.base+path+"?"+query.Encode(), http.NoBody)
	if err != nil {
		return nil, never, err
	}
	req.Header.Set("Authorization", "Bearer "+s.token)
	req.Header.Set("Accept", "application/json")
	resp, err := s.http.Do(req)
	if err != nil {
		return nil, 0, err
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	if _, large := errors.AsType[*http.MaxBytesError](err); large {
		return nil, never, fmt.Errorf("GET %s: the answer has more than %d bytes", path, maxAnswer)
	}
	switch status := resp.StatusCode; {
	case err != nil:
		return nil, 0, err
	case status == http.StatusUnauthorized, status == http.StatusForbidden:
		return nil, never, fmt.Errorf("GET %s: the token is refused: %d %.*q", path, status, maxShown, raw)
	case status == http.StatusNotFound:
		return nil, never, nil
	case status == http.StatusTooManyRequests, status >= http.StatusInternalServerError &&
		status != http.StatusNotImplemented:
		return nil, retryAfter(resp.Header), fmt.Errorf("GET %s: %d %.*q", path, status, maxShown, raw)
	case status != http.StatusOK:
		return nil, never, fmt.Errorf("GET %s: %d %.*q", path, status, maxShown, raw)
	case !json.Valid(raw):
		return nil, never, fmt.Errorf("GET %s: the answer is not JSON; is this the address of the API? %.*q", path,
			maxShown, raw)
	}
	return raw, 0, nil
}

func retryAfter(h http.Header) time.Duration {
	text := h.Get("Retry-After")
	if seconds, err := strconv.Atoi(text); err == nil && seconds >= 0 {
		return time.Duration(min(seconds, int(maxPause/time.Second))) * time.Second
	}
	if at, err := http.ParseTime(text); err == nil {
		return max(time.Until(at), 0)
	}
	return 0
}

// list says how a system pages a list. Paths lead to members of an answer, with dots; "" is the answer itself.
type list struct {
	path   string
	query  url.Values
	id     string // member of an object that tells it from others
	items  string // path of the objects
	next   string // path of the cursor of the next page
	more   string // path of what says that there is one; "" = the cursor does
	last   string // path of what says that there is none
	cursor string // parameter with the cursor
}

// each calls f with each object of a list, page by page. An object that comes twice, because the list has changed
// meanwhile, counts once. A page that comes again ends the list with an error.
func (s *source) each(ctx context.Context, l list, f func(doc) error) error {
	query := url.Values{}
	maps.Copy(query, l.query)
	seen, cursors := map[string]bool{}, map[string]bool{}
	shown := cli.Printable(l.path)
	for number := 1; ; number++ {
		var answer any
		if err := s.get(ctx, l.path, query, number, &answer); err != nil {
			return err
		}
		page := doc{"": answer}
		items, isList := page.at(l.items).([]any)
		if !isList && (page.at(l.items) != nil || !page.has(l.items)) {
			return fmt.Errorf("%s: the answer does not have the form of the API: it has no list %s", shown, l.items)
		}
		for _, item := range items {
			members, _ := item.(map[string]any)
			object := doc(members)
			id := object.text(l.id)
			if id == "" {
				return fmt.Errorf("%s: an object has no member %s", shown, l.id)
			}
			if seen[id] {
				continue
			}
			if s.objects++; s.objects > maxObjects {
				return fmt.Errorf("there are more than %d objects", maxObjects)
			}
			seen[id] = true
			if err := f(object); err != nil {
				return err
			}
		}
		next := page.text(l.next)
		switch {
		case l.next == "", next == "", l.more != "" && !page.flag(l.more), l.last != "" && page.flag(l.last):
			return nil
		case cursors[next]:
			return fmt.Errorf("%s: page %d comes again: the API returns the cursor %.*q twice", shown, number, maxShown, next)
		case number == maxPages:
			return fmt.Errorf("%s has more than %d pages", shown, maxPages)
		}
		cursors[next] = true
		query.Set(l.cursor, next)
	}
}

// decode reads JSON and keeps the digits of numbers.
func decode(raw []byte, into any) error {
	decoder := json.NewDecoder(bytes.NewReader(raw))
	decoder.UseNumber()
	return decoder.Decode(into)
}

// doc is an object of another system. A member that it does not have is empty. The member "" is an answer as a whole.
type doc map[string]any

func (d doc) find(path string) (v any, found bool) {
	if whole, isAnswer := d[""]; isAnswer {
		if path == "" {
			return whole, true
		}
		d, _ = whole.(map[string]any)
	}
	name, rest, deeper := strings.Cut(path, ".")
	v, found = d[name]
	if below, isObject := v.(map[string]any); deeper && isObject {
		return doc(below).find(rest)
	}
	return v, found && !deeper
}

func (d doc) at(path string) any { v, _ := d.find(path); return v }

func (d doc) has(path string) bool { _, found := d.find(path); return found }

func (d doc) text(path string) string {
	if v := d.at(path); v != nil {
		return fmt.Sprint(v)
	}
	return ""
}

// number returns a number, or the seconds of a text such as 10s.
func (d doc) number(path string) float64 {
	text := d.text(path)
	if lasts, err := time.ParseDuration(text); err == nil {
		return lasts.Seconds()
	}
	n, _ := strconv.ParseFloat(text, 64)
	return n
}

func (d doc) flag(path string) bool { return d.at(path) == true }

func (d doc) doc(path string) doc { below, _ := d.at(path).(map[string]any); return below }

func (d doc) list(path string) (all []doc) {
	items, _ := d.at(path).([]any)
	for _, item := range items {
		members, _ := item.(map[string]any)
		all = append(all, members)
	}
	return all
}

func (d doc) texts(path string) (all []string) {
	items, _ := d.at(path).([]any)
	for _, item := range items {
		all = append(all, fmt.Sprint(item))
	}
	return all
}

// pairs returns an object of texts, such as metadata.
func (d doc) pairs(path string) map[string]string {
	all := map[string]string{}
	for name, v := range d.doc(path) {
		all[name] = fmt.Sprint(v)
	}
	return all
}
