package cli

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"path/filepath"
	"time"

	"github.com/eventrelay/relay/node/admin"
	"github.com/eventrelay/relay/pkg/private"
)

// Client sends commands to the running process over its command socket.
type Client struct {
	AsJSON   bool
	Out, Err io.Writer
	Color    bool // of states
	path     string
}

// Client returns a client of the process with this data directory, which prints to the output of the call. It connects
// with the first request.
func (c Call) Client(dataDir string, asJSON bool) *Client {
	return &Client{AsJSON: asJSON, Out: c.Stdout, Err: c.Stderr, Color: c.Color,
		path: filepath.Join(dataDir, admin.SocketFile)}
}

// Bounds of a call: a healthy process answers within callTimeout, and a list of all keys fits into maxAnswer bytes.
const (
	callTimeout = 30 * time.Second
	maxAnswer   = 64 << 20
)

type noProcessError struct{ path string }

func (e noProcessError) Error() string {
	return ErrNoProcess.Error() + " on " + e.path + "; start one, or name its data directory with --data-dir"
}

func (e noProcessError) Is(target error) bool { return target == ErrNoProcess }

// Call sends one request, with body as JSON unless it is nil, and decodes the answer into the value into. With --json
// it prints the answer unchanged, else it calls print.
func (c *Client) Call(ctx context.Context, method, path string, body, into any, print func()) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	resp, err := c.Request(ctx, method, path, body)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if err != nil {
		return fmt.Errorf("read answer: %w", err)
	}
	if err := json.Unmarshal(raw, into); err != nil {
		return fmt.Errorf("read answer: %w", err)
	}
	if c.AsJSON {
		_, err := c.Out.Write(raw)
		return err
	}
	print()
	return nil
}

// CallWithProgress posts a long command. The answer is a line of JSON for each step; show gets each, or with --json
// they are printed unchanged. The last line is {"finished":true} or {"error":"…"}; an answer that ends without either
// was cut off.
func (c *Client) CallWithProgress(ctx context.Context, path string, body any, show func(line []byte) error) error {
	resp, err := c.Request(ctx, http.MethodPost, path, body)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	lines := bufio.NewScanner(resp.Body)
	lines.Buffer(nil, maxAnswer)
	for lines.Scan() {
		var end struct {
			Finished bool
			Error    string
		}
		if err := json.Unmarshal(lines.Bytes(), &end); err != nil {
			return fmt.Errorf("read answer: %w", err)
		}
		if c.AsJSON {
			fmt.Fprintf(c.Out, "%s\n", lines.Bytes())
		}
		switch {
		case end.Error != "":
			return errors.New("refused: " + end.Error)
		case end.Finished:
			return nil
		case c.AsJSON:
		default:
			if err := show(lines.Bytes()); err != nil {
				return fmt.Errorf("read answer: %w", err)
			}
		}
	}
	return errors.Join(errors.New(
		"the answer was cut off, and the command may have stopped; run it again"), lines.Err())
}

// Request sends a request, with body as JSON unless it is a reader or nil, and returns a refusal as an error.
func (c *Client) Request(ctx context.Context, method, path string, body any) (*http.Response, error) {
	send, isReader := body.(io.Reader)
	if !isReader {
		var raw []byte
		if body != nil {
			var err error
			if raw, err = json.Marshal(body); err != nil {
				return nil, fmt.Errorf("encode command: %w", err)
			}
		}
		send = bytes.NewReader(raw)
	}
	req, err := http.NewRequestWithContext(ctx, method, "http://relay"+path, send)
	if err != nil {
		return nil, err
	}
	resp, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true, DialContext: c.dial}}).Do(req)
	if absent, ok := errors.AsType[noProcessError](err); ok {
		return nil, absent // without the HTTP client's prefix
	}
	if err != nil {
		return nil, err
	}
	if resp.StatusCode < http.StatusBadRequest {
		return resp, nil
	}
	defer resp.Body.Close()
	var refusal struct {
		Error struct{ Message string }
	}
	raw, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if err != nil || json.Unmarshal(raw, &refusal) != nil || refusal.Error.Message == "" {
		return nil, fmt.Errorf("refused: %s", resp.Status)
	}
	return nil, errors.New("refused: " + refusal.Error.Message)
}

func (c *Client) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	conn, err := private.DialOwner(ctx, c.path)
	if errors.Is(err, fs.ErrPermission) || errors.Is(err, private.ErrOtherUser) {
		return nil, fmt.Errorf("%s belongs to another user; run the command as the user of the running process: sudo "+
			"-u <user>", c.path)
	}
	if err != nil {
		return nil, noProcessError{c.path}
	}
	return conn, nil
}
