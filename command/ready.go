package command

import (
	"cmp"
	"context"
	"crypto/tls"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/eventrelay/relay/command/cli"
	"github.com/eventrelay/relay/pkg/nodeconfig"
)

// Bounds of one health check: /readyz is answered from memory, with a few checks of less than 100 bytes each.
const (
	readyTimeout = 5 * time.Second
	maxReadiness = 64 << 10
)

// readyCommand asks the node at RELAY_LISTEN on this machine for /readyz, or with --alive for /healthz. It returns
// cli.ExitDone if the node is ready (or runs), and cli.ExitRefused if it is not or nothing answers, so that containers
// without a shell have a health check.
func readyCommand(ctx context.Context, c cli.Call) int {
	var s nodeconfig.Config
	flags := flag.NewFlagSet("relay ready", flag.ContinueOnError)
	asJSON := flags.Bool("json", false, "print the node's answer as JSON")
	alive := flags.Bool("alive", false, "ask only whether the node runs (/healthz), as it does without Kafka")
	// Only these: a health check must not depend on files with secrets.
	eachSetting(&s, func(f setting) {
		switch f.flag {
		case "listen", "tls-cert-file", "acme-hosts":
			_ = f.set(cmp.Or(c.Getenv(f.env), f.defaultValue)) // it is a text or a list of texts
			flags.Func(f.flag, f.help+" ("+f.env+")", f.set)
		}
	})
	if err := c.ParseFlags(flags, cli.Help{Usage: "relay ready [flags]", About: cli.Sentence(c.Help)}); err != nil {
		return cli.ExitCode(err, c.Stderr)
	}
	ctx, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	if *alive {
		return cli.ExitCode(askHealth(ctx, s, *asJSON, c.Stdout), c.Stderr)
	}
	return cli.ExitCode(askReadiness(ctx, s, *asJSON, c.Stdout), c.Stderr)
}

// askNode returns the status and the body of a node's answer.
func askNode(ctx context.Context, s nodeconfig.Config, path string) (status int, body []byte, err error) {
	scheme, name := "http", ""
	if s.TLSCertFile != "" || len(s.ACMEHosts) > 0 {
		scheme = "https"
	}
	if len(s.ACMEHosts) > 0 {
		name = s.ACMEHosts[0]
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, scheme+"://localhost"+path, nil)
	if err != nil {
		return 0, nil, err
	}
	resp, err := (&http.Client{Transport: &http.Transport{
		DisableKeepAlives: true,
		// For an unspecified address, such as 0.0.0.0, this connects to the local machine.
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "tcp", s.Listen)
		},
		// The certificate is for the public name. Nothing secret is sent, and the answer only says whether the node is well.
		TLSClientConfig: &tls.Config{InsecureSkipVerify: true, ServerName: name},
	}}).Do(req)
	if err != nil {
		return 0, nil, fmt.Errorf("no node answers at RELAY_LISTEN %s: %w", s.Listen, err)
	}
	defer resp.Body.Close()
	body, err = io.ReadAll(io.LimitReader(resp.Body, maxReadiness))
	if err != nil {
		return 0, nil, fmt.Errorf("read the answer of %s: %w", s.Listen, err)
	}
	return resp.StatusCode, body, nil
}

// askHealth prints whether the node runs.
func askHealth(ctx context.Context, s nodeconfig.Config, asJSON bool, out io.Writer) error {
	status, raw, err := askNode(ctx, s, "/healthz")
	switch {
	case err != nil:
		return fmt.Errorf("not alive: %w", err)
	case status != http.StatusOK:
		return fmt.Errorf("not alive: the server at %s answered %d %s", s.Listen, status, http.StatusText(status))
	case asJSON:
		_, err := out.Write(raw)
		return err
	}
	fmt.Fprintln(out, "alive")
	return nil
}

// askReadiness prints whether the node is ready, and returns an error that names what is missing if it is not.
func askReadiness(ctx context.Context, s nodeconfig.Config, asJSON bool, out io.Writer) error {
	status, raw, err := askNode(ctx, s, "/readyz")
	if err != nil {
		return fmt.Errorf("not ready: %w", err)
	}
	var answer struct {
		Checks []struct {
			Name         string
			OK, Required bool
		}
	}
	if err := json.Unmarshal(raw, &answer); err != nil {
		return fmt.Errorf("not ready: the server at %s is not a relay node; it answered %d %s", s.Listen, status,
			http.StatusText(status))
	}
	if asJSON {
		if _, err := out.Write(raw); err != nil {
			return err
		}
	}
	var missing, without []string
	for _, check := range answer.Checks {
		switch {
		case check.OK:
		case check.Required:
			missing = append(missing, check.Name)
		default:
			without = append(without, check.Name)
		}
	}
	switch {
	case status != http.StatusOK:
		return fmt.Errorf("not ready: %s; the node's log says why, and relay doctor what to do",
			cmp.Or(strings.Join(missing, ", "), fmt.Sprintf("%d %s", status, http.StatusText(status))))
	case asJSON:
	case len(without) > 0:
		fmt.Fprintf(out, "ready, but without: %s\n", strings.Join(without, ", "))
	default:
		fmt.Fprintln(out, "ready")
	}
	return nil
}
