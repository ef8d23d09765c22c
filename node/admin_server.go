package node

import (
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"net/http/pprof"
	"net/netip"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/eventrelay/relay/node/admin"
	"github.com/eventrelay/relay/pkg/private"
	"github.com/eventrelay/relay/pkg/stream"
	"github.com/eventrelay/relay/pkg/web"
)

// Timeouts of the admin server: a profile takes up to maxProfile, and its answer is written after that.
const (
	maxProfile     = 60 * time.Second
	adminReadTime  = 10 * time.Second
	adminWriteTime = maxProfile + 10*time.Second
)

// symbolPath is the one path that is POSTed to: pprof sends program addresses in the body.
const symbolPath = "/debug/pprof/symbol"

// newAdminServer creates the server of metrics and pprof on RELAY_ADMIN_LISTEN. If that is not set, serve has no such
// server, and dev uses 127.0.0.1:9090 unless that port is taken.
func newAdminServer(n *Node) (runFunc, error) {
	address := n.Settings.AdminListen
	if address == "" {
		if !n.Settings.Dev {
			return nil, nil
		}
		address = "127.0.0.1:9090"
	}
	listener, err := net.Listen("tcp", address)
	if err != nil {
		if n.Settings.AdminListen != "" {
			return nil, fmt.Errorf("listen on RELAY_ADMIN_LISTEN: %w", err)
		}
		n.Log.Warn("metrics are off: cannot listen on the default address", "addr", address, "error", err)
		return nil, nil
	}
	if at := listener.Addr(); beyondLoopback(at) {
		n.Log.LogAttrs(n.stack.Context(), slog.LevelWarn, "metrics can be read by other machines, without a password: "+
			"let only your monitoring reach RELAY_ADMIN_LISTEN", slog.String("addr", at.String()),
			slog.Bool("pprof", n.Settings.Pprof))
	}
	hosts := append(slices.Clone(n.Settings.AdminHosts), n.Settings.NodeName)
	srv := &server{
		listener: listener, handler: adminHandler(n.registry, hosts, n.Settings.Pprof), log: n.Log,
		readTime: adminReadTime, writeTime: adminWriteTime, drain: operatorDrain,
	}
	n.Log.Info("serving metrics", "addr", listener.Addr().String(), "pprof", n.Settings.Pprof)
	return srv.Run, nil
}

// beyondLoopback reports whether other machines can reach a listener at this address.
func beyondLoopback(at net.Addr) bool {
	tcp, ok := at.(*net.TCPAddr)
	return !ok || !tcp.IP.IsLoopback()
}

// adminHandler serves metrics, and pprof if withPprof, under IP addresses, localhost and these host names only, and
// refuses requests of web pages from elsewhere. A page can send requests to this machine, and with DNS rebinding it
// could read the answers.
func adminHandler(metrics prometheus.Gatherer, hosts []string, withPprof bool) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("/metrics", promhttp.HandlerFor(metrics, promhttp.HandlerOpts{}))
	if withPprof {
		mux.HandleFunc("/debug/pprof/", pprof.Index)
		mux.HandleFunc("/debug/pprof/profile", pprof.Profile)
		mux.HandleFunc(symbolPath, pprof.Symbol)
		mux.HandleFunc("/debug/pprof/trace", pprof.Trace)
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Content-Type-Options", "nosniff")
		name := web.HostName(r.Host)
		address, err := netip.ParseAddr(name)
		// 0.0.0.0 and :: reach this machine too, but browsers do not protect them as they protect local addresses.
		known := err == nil && !address.IsUnspecified() && !address.Is4In6() || name == "localhost" ||
			slices.ContainsFunc(hosts, func(h string) bool { return name != "" && strings.EqualFold(h, name) })
		switch {
		case !known:
			http.Error(w, "unknown host name: use an IP address or the node's name, or add the name to RELAY_ADMIN_HOSTS",
				http.StatusForbidden)
		case len(r.Header.Values("Origin")) > 0, slices.ContainsFunc(r.Header.Values("Sec-Fetch-Site"), crossSite):
			http.Error(w, "pages of other sites may not ask for this", http.StatusForbidden)
		case r.Method != http.MethodGet && r.Method != http.MethodHead && r.URL.Path != symbolPath:
			http.Error(w, "use GET", http.StatusMethodNotAllowed) // the seconds of a form would not be checked below
		case exceedsMaxProfile(r.URL.Query().Get("seconds")):
			http.Error(w, fmt.Sprintf("seconds must be at most %.0f", maxProfile.Seconds()), http.StatusBadRequest)
		default:
			mux.ServeHTTP(w, r)
		}
	})
}

// crossSite reports whether the Sec-Fetch-Site header (Fetch Metadata, W3C) says that another site sent the request.
func crossSite(site string) bool { return site != "none" && site != "same-origin" }

// exceedsMaxProfile reports whether a profile would take longer than maxProfile. pprof uses its default for what is not
// a number.
func exceedsMaxProfile(seconds string) bool {
	n, err := strconv.ParseFloat(seconds, 64)
	return err == nil && !(n <= maxProfile.Seconds())
}

// newSocket creates the server of the operator's commands on a unix socket in the data directory.
func newSocket(n *Node) (runFunc, error) {
	// This replaces an old socket; the lock of the data directory ensures that no other process uses it.
	listener, err := private.Listen(filepath.Join(n.Settings.DataDir, admin.SocketFile))
	if err != nil {
		return nil, fmt.Errorf("open command socket: %w", err)
	}
	answers, steps := map[string]func(*http.Request) (any, error){}, map[string]func(*http.Request, func(any)) error{}
	for i := range n.features {
		maps.Copy(answers, n.features[i].Answers)
		maps.Copy(steps, n.features[i].Steps)
	}
	handler, err := admin.New(admin.Deps{
		Answers: answers, Steps: steps,
		Log: n.Log, Keys: n.Control, Uses: n.Reader, Config: n.Control, Producer: n.Producer,
		BaseURL: n.DashboardURL, Now: n.Now,
		CheckURL: func(text string) error {
			_, err := n.Policy.CheckURL(text)
			return err
		},
		Dead: func() (admin.DeadLetters, error) { return stream.NewReader(n.Stream, "dead") },
	})
	if err != nil {
		return nil, errors.Join(err, listener.Close())
	}
	return (&server{listener: listener, handler: handler, log: n.Log, drain: operatorDrain}).Run, nil
}
