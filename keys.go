package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/eventrelay/relay/pkg/control"
	"github.com/eventrelay/relay/pkg/web"
)

// The command socket speaks HTTP over a unix socket in the data directory, which only the owner of the
// directory can reach. It makes, lists and revokes API keys: there is no route for that under /v1.

// keyJSON is a key as the commands print it. Key is set only in the answer that creates it.
type keyJSON struct {
	ID        string     `json:"id"`
	Name      string     `json:"name"`
	Scope     string     `json:"scope"`
	Agent     bool       `json:"agent"`
	Key       string     `json:"key,omitempty"`
	Last4     string     `json:"last4"`
	CreatedAt time.Time  `json:"created_at"`
	ExpiresAt *time.Time `json:"expires_at"`
	RevokedAt *time.Time `json:"revoked_at"`
}

func toKeyJSON(k *control.Key, text string) keyJSON {
	j := keyJSON{ID: k.ID, Name: k.Name, Scope: string(k.Scope), Agent: k.Agent, Key: text, Last4: k.Last4, CreatedAt: k.CreatedAt}
	if !k.ExpiresAt.IsZero() {
		j.ExpiresAt = &k.ExpiresAt
	}
	if !k.RevokedAt.IsZero() {
		j.RevokedAt = &k.RevokedAt
	}
	return j
}

type createKey struct {
	Name           string `json:"name"`
	Scope          string `json:"scope"`
	Agent          bool   `json:"agent"`
	ExpiresSeconds int64  `json:"expires_seconds"`
}

// startSocket serves the commands.
func (n *node) startSocket() error {
	path := filepath.Join(n.s.DataDir, socketFile)
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("remove old command socket: %w", err) // the lock says that nobody else uses it
	}
	listener, err := net.Listen("unix", path)
	if err != nil {
		return fmt.Errorf("listen on command socket: %w", err)
	}
	if err := os.Chmod(path, 0o600); err != nil {
		return errors.Join(fmt.Errorf("restrict command socket: %w", err), listener.Close())
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /keys", n.socketHandler(n.listKeys))
	mux.HandleFunc("POST /keys", n.socketHandler(n.createKey))
	mux.HandleFunc("DELETE /keys/{id}", n.socketHandler(n.revokeKey))
	n.st.start("command socket", (&server{listener: listener, handler: mux, log: n.log}).Run)
	return nil
}

func (n *node) socketHandler(h func(*http.Request) (any, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		answer, err := h(r)
		if errors.Is(err, control.ErrUnavailable) {
			err = web.Away(err, "the configuration log is away at the moment; list the keys before you repeat it")
		}
		if err != nil {
			web.WriteError(w, r, n.log, err)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(answer)
	}
}

func (n *node) listKeys(*http.Request) (any, error) {
	keys := []keyJSON{}
	for _, k := range n.control.Keys(n.control.Account().ID) {
		keys = append(keys, toKeyJSON(k, ""))
	}
	return keys, nil
}

func (n *node) createKey(r *http.Request) (any, error) {
	var c createKey
	if err := json.NewDecoder(r.Body).Decode(&c); err != nil {
		return nil, web.Invalid("", "the command could not be read: %v", err)
	}
	scope := control.Scope(c.Scope)
	if scope != control.Read && scope != control.ReadWrite {
		return nil, web.Invalid("scope", "must be read or read_write")
	}
	// Lists print it as it is, one key a line.
	if n := utf8.RuneCountInString(c.Name); n < 1 || n > 100 || strings.ContainsFunc(c.Name, func(r rune) bool { return !unicode.IsPrint(r) }) {
		return nil, web.Invalid("name", "must have 1 to 100 printable characters")
	}
	if c.ExpiresSeconds < 0 {
		return nil, web.Invalid("expires_seconds", "must not be negative")
	}
	var expires time.Time
	if c.ExpiresSeconds > 0 {
		expires = n.now().Add(time.Duration(c.ExpiresSeconds) * time.Second)
	}
	text, k, err := n.control.CreateKey(r.Context(), c.Name, scope, c.Agent, expires)
	if err != nil {
		return nil, err
	}
	return toKeyJSON(k, text), nil
}

func (n *node) revokeKey(r *http.Request) (any, error) {
	err := n.control.RevokeKey(r.Context(), r.PathValue("id"))
	if errors.Is(err, control.ErrNotFound) {
		return nil, &web.Error{Status: http.StatusNotFound, Type: "not_found", Message: "no key has this id"}
	}
	return map[string]any{"id": r.PathValue("id"), "revoked": true}, err
}

const keysUsage = `Usage:
  relay keys create --name NAME --scope read|read_write [--expires 720h] [--agent] [--json]
  relay keys list [--json]
  relay keys revoke ID [--json]

The commands speak to the running process over the socket in its data directory (--data-dir, RELAY_DATA_DIR).
A key is shown once, when it is made. --expires takes hours, minutes and seconds, such as 720h or 1h30m.

Exit codes: 0 done, 1 refused, 2 wrong usage, 3 no running process.
`

// runKeys is the client side; it returns the exit code: 0 done, 1 refused, 2 misuse, 3 no running process.
func runKeys(ctx context.Context, args []string, getenv func(string) string, stdout, stderr io.Writer) int {
	if len(args) == 0 {
		fmt.Fprint(stderr, keysUsage)
		return exitUsage
	}
	if args[0] == "help" || args[0] == "-h" || args[0] == "--help" {
		fmt.Fprint(stdout, keysUsage)
		return exitOK
	}
	flags := flag.NewFlagSet("relay keys "+args[0], flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.Usage = func() { fmt.Fprint(stderr, keysUsage) }
	dir := flags.String("data-dir", orDefault(getenv("RELAY_DATA_DIR"), "./.relay"), "data directory of the running process")
	asJSON := flags.Bool("json", false, "print JSON")
	var c createKey
	flags.StringVar(&c.Name, "name", "", "what the key is for")
	flags.StringVar(&c.Scope, "scope", "", "read or read_write")
	flags.BoolVar(&c.Agent, "agent", false, "for a program whose changes people approve")
	expires := flags.Duration("expires", 0, "how long the key works; 0 = until it is revoked")
	// Flags may stand before or after the id.
	var words []string
	for rest := args[1:]; ; {
		if err := flags.Parse(rest); err != nil {
			if errors.Is(err, flag.ErrHelp) {
				return exitOK
			}
			return exitUsage
		}
		if rest = flags.Args(); len(rest) == 0 {
			break
		}
		words, rest = append(words, rest[0]), rest[1:]
	}
	c.ExpiresSeconds = int64(*expires / time.Second)
	if fault := keysMisuse(args[0], words, c, *expires); fault != "" {
		fmt.Fprintf(stderr, "relay keys: %s\n\n%s", fault, keysUsage)
		return exitUsage
	}
	client := socketClient{path: filepath.Join(*dir, socketFile), asJSON: *asJSON, stdout: stdout}
	var err error
	switch args[0] {
	case "create":
		err = client.create(ctx, c)
	case "list":
		err = client.list(ctx)
	case "revoke":
		err = client.revoke(ctx, words[0])
	}
	var absent noProcessError
	switch {
	case errors.As(err, &absent):
		fmt.Fprintln(stderr, "relay:", absent)
		return exitNoPeer
	case err != nil:
		fmt.Fprintln(stderr, "relay:", err)
		return exitRefused
	}
	return exitOK
}

// keysMisuse says what is wrong with a command, "" if nothing is.
func keysMisuse(command string, words []string, c createKey, expires time.Duration) string {
	switch {
	case command != "create" && command != "list" && command != "revoke":
		return fmt.Sprintf("unknown command %q", command)
	case command == "revoke" && len(words) != 1:
		return "revoke takes the id of one key; list shows them"
	case command != "revoke" && len(words) > 0:
		return fmt.Sprintf("unexpected argument %q", words[0])
	case command == "create" && c.Name == "":
		return "--name is required: what the key is for"
	case command == "create" && c.Scope == "":
		return "--scope is required: read or read_write"
	case expires != 0 && c.ExpiresSeconds < 1: // shorter would be none at all
		return "--expires must be at least 1s"
	}
	return ""
}

func orDefault(s, def string) string {
	if s == "" {
		return def
	}
	return s
}

type noProcessError struct{ path string }

func (e noProcessError) Error() string {
	return "no running process answers on " + e.path + "; start one, or name its data directory with --data-dir"
}

// socketClient asks the running process.
type socketClient struct {
	path   string
	asJSON bool
	stdout io.Writer
}

func (c socketClient) create(ctx context.Context, k createKey) error {
	body, err := json.Marshal(k)
	if err != nil {
		return err
	}
	var made keyJSON
	return c.call(ctx, http.MethodPost, "/keys", body, &made, func() {
		fmt.Fprintf(c.stdout, "%s\n%s\n%s\n", made.ID, made.Scope, made.Key)
	})
}

func (c socketClient) list(ctx context.Context) error {
	var keys []keyJSON
	return c.call(ctx, http.MethodGet, "/keys", nil, &keys, func() {
		for _, k := range keys {
			state := "active"
			switch {
			case k.RevokedAt != nil:
				state = "revoked"
			case k.ExpiresAt != nil && k.ExpiresAt.Before(time.Now()):
				state = "expired"
			}
			fmt.Fprintf(c.stdout, "%s\t%s\t%s\t…%s\t%s\t%s\n", k.ID, k.Scope, state, k.Last4, k.CreatedAt.Format(time.RFC3339), k.Name)
		}
	})
}

func (c socketClient) revoke(ctx context.Context, id string) error {
	var answer struct{}
	return c.call(ctx, http.MethodDelete, "/keys/"+url.PathEscape(id), nil, &answer, func() {
		fmt.Fprintln(c.stdout, "revoked", id)
	})
}

// call sends one command and prints its answer, as JSON when that was asked for.
func (c socketClient) call(ctx context.Context, method, path string, body []byte, into any, print func()) error {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	client := &http.Client{Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			conn, err := (&net.Dialer{}).DialContext(ctx, "unix", c.path)
			if errors.Is(err, fs.ErrPermission) {
				return nil, fmt.Errorf("%s belongs to another user; run the command as the user of the running process", c.path)
			}
			if err != nil {
				return nil, noProcessError{c.path}
			}
			return conn, nil
		},
	}}
	req, err := http.NewRequestWithContext(ctx, method, "http://relay"+path, bytes.NewReader(body))
	if err != nil {
		return err
	}
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(io.LimitReader(resp.Body, 16<<20))
	if err != nil {
		return fmt.Errorf("read answer: %w", err)
	}
	if resp.StatusCode >= http.StatusBadRequest {
		var refusal struct {
			Error struct{ Message string }
		}
		if json.Unmarshal(raw, &refusal) != nil || refusal.Error.Message == "" {
			return fmt.Errorf("refused: %s", resp.Status)
		}
		return errors.New("refused: " + refusal.Error.Message)
	}
	if c.asJSON {
		_, err := c.stdout.Write(raw)
		return err
	}
	if err := json.Unmarshal(raw, into); err != nil {
		return fmt.Errorf("read answer: %w", err)
	}
	print()
	return nil
}
