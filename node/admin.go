package node

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/pprof"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/eventrelay/relay/pkg/web"
)

// A profile may take maxProfile, and its answer is written soon after that.
const (
	maxProfile     = 60 * time.Second
	adminReadTime  = 10 * time.Second
	adminWriteTime = maxProfile + 10*time.Second
)

// symbolPath takes addresses in a body.
const symbolPath = "/debug/pprof/symbol"

// newAdmin serves metrics and pprof where the settings say; dev tries the usual port and goes on without.
func (n *Node) newAdmin() (func(context.Context) error, error) {
	address := n.s.AdminListen
	if address == "" {
		if !n.s.Embedded {
			return nil, nil
		}
		address = "127.0.0.1:9090"
	}
	listener, err := net.Listen("tcp", address)
	if err != nil {
		if n.s.AdminListen != "" {
			return nil, fmt.Errorf("listen on RELAY_ADMIN_LISTEN: %w", err)
		}
		n.log.Warn("metrics are off: the usual address is taken", "addr", address)
		return nil, nil
	}
	if at := listener.Addr(); beyondLoopback(at) {
		n.log.LogAttrs(n.st.Context(), slog.LevelWarn, "metrics and profiles can be read by other machines, without a "+
			"password: "+
			"let only your monitoring reach RELAY_ADMIN_LISTEN", slog.String("addr", at.String()))
	}
	srv := &server{
		listener: listener, handler: adminHandler(n.registry, append(slices.Clone(n.s.AdminHosts), n.s.NodeName)), log: n.log,
		readTime: adminReadTime, writeTime: adminWriteTime,
	}
	n.log.Info("metrics and pprof", "addr", listener.Addr().String())
	return srv.Run, nil
}

// beyondLoopback reports whether other machines can reach what listens there.
func beyondLoopback(at net.Addr) bool {
	tcp, ok := at.(*net.TCPAddr)
	return !ok || !tcp.IP.IsLoopback()
}

// adminHandler serves metrics and pprof under addresses, localhost and these names, and to no page of a browser but its
// own: a page can send requests to this machine, and a foreign name can be made to lead here, so that the page reads
// the answers.
func adminHandler(metrics prometheus.Gatherer, hosts []string) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("/metrics", promhttp.HandlerFor(metrics, promhttp.HandlerOpts{}))
	mux.HandleFunc("/debug/pprof/", pprof.Index)
	mux.HandleFunc("/debug/pprof/profile", pprof.Profile)
	mux.HandleFunc(symbolPath, pprof.Symbol)
	mux.HandleFunc("/debug/pprof/trace", pprof.Trace)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Content-Type-Options", "nosniff")
		name := web.HostName(r.Host)
		address, err := netip.ParseAddr(name)
		// 0.0.0.0 and :: lead to this machine too, past what browsers do against pages that ask local addresses.
		known := err == nil && !address.IsUnspecified() && !address.Is4In6() || name == "localhost" ||
			slices.ContainsFunc(hosts, func(h string) bool { return name != "" && strings.EqualFold(h, name) })
		switch {
		case !known:
			http.Error(w, "unknown host name: use an address, the node's name, or add it to RELAY_ADMIN_HOSTS",
				http.StatusForbidden)
		case len(r.Header.Values("Origin")) > 0, slices.ContainsFunc(r.Header.Values("Sec-Fetch-Site"), foreign):
			http.Error(w, "pages of other sites may not ask for this", http.StatusForbidden)
		case r.Method != http.MethodGet && r.Method != http.MethodHead && r.URL.Path != symbolPath:
			http.Error(w, "use GET", http.StatusMethodNotAllowed) // a form could say other seconds than the query
		case tooLong(r.URL.Query().Get("seconds")):
			http.Error(w, fmt.Sprintf("seconds must be at most %.0f", maxProfile.Seconds()), http.StatusBadRequest)
		default:
			mux.ServeHTTP(w, r)
		}
	})
}

// foreign reports whether a Sec-Fetch-Site is that of a page from elsewhere.
func foreign(site string) bool { return site != "none" && site != "same-origin" }

// tooLong reports whether the seconds of a profile are more than maxProfile. What is no number pprof takes for its
// default.
func tooLong(seconds string) bool {
	n, err := strconv.ParseFloat(seconds, 64)
	return err == nil && !(n <= maxProfile.Seconds())
}
