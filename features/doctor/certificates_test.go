package doctor

import (
	"crypto/tls"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"

	"github.com/eventrelay/relay/pkg/certfile"
	"github.com/eventrelay/relay/pkg/stream"
	"github.com/eventrelay/relay/test/is"
	"github.com/eventrelay/relay/test/kit"
	"github.com/eventrelay/relay/test/must"
)

// Certificates that Kafka, ClickHouse and Redis present are checked, whether they are accepted or not. The doctor names
// the engine, its address and what to do.
func TestCertificatesOfEnginesAreChecked(t *testing.T) {
	ca, other := kit.NewCA(t), kit.NewCA(t)
	issued := 0
	serving := func(left time.Duration) *tls.Config {
		issued++
		p := ca.Issue(t, fmt.Sprint("engine", issued), time.Now().Add(left))
		pair := must.Get(tls.LoadX509KeyPair(p.CertFile, p.KeyFile))(t)
		return &tls.Config{Certificates: []tls.Certificate{pair}}
	}
	at := func(engine string, trusted *kit.CA, conf *tls.Config) Endpoint {
		server := httptest.NewUnstartedServer(http.NotFoundHandler())
		server.TLS, server.Config.ErrorLog = conf, log.New(io.Discard, "", 0)
		server.StartTLS()
		t.Cleanup(server.Close)
		roots := must.Get(certfile.Roots(trusted.File))(t)
		return Endpoint{engine, certfile.Endpoint{Addr: server.Listener.Addr().String(), TLS: &tls.Config{RootCAs: roots}}}
	}
	const day = 24 * time.Hour
	brokers := func(left time.Duration) stream.Config {
		cluster := must.Get(kfake.NewCluster(kfake.NumBrokers(2), kfake.TLS(serving(left))))(t)
		t.Cleanup(cluster.Close)
		return stream.Config{Brokers: cluster.ListenAddrs()[:1], TLS: ca.File}
	}
	healthy, soon, ended := brokers(60*day), brokers(5*day+time.Hour), brokers(-time.Hour)
	wantsClient := serving(5*day + time.Hour)
	wantsClient.ClientAuth, wantsClient.MaxVersion = tls.RequireAnyClientCert, tls.VersionTLS12
	redis, unknownCA := at(EngineRedis, ca, serving(-time.Hour)), at(EngineRedis, other, serving(60*day))
	clickhouse, mutual := at(EngineClickHouse, ca, serving(5*day+time.Hour)), at(EngineClickHouse, ca, wantsClient)
	unavailable := Endpoint{EngineRedis, certfile.Endpoint{Addr: "127.0.0.1:1", TLS: &tls.Config{}}}
	for name, f := range map[string]struct {
		kafka               stream.Config
		others              []Endpoint
		state, text, advice string
	}{
		"all are valid":            {healthy, []Endpoint{unknownCA}, StateOK, "3 certificates of engines, valid", ""},
		"the brokers' ends":        {soon, nil, StateWarn, "Kafka at 127.0.0.1:", "a broker loads it at its start"},
		"the brokers' has ended":   {ended, nil, StateFail, "has expired", "a broker loads it at its start"},
		"ClickHouse's ends":        {stream.Config{}, []Endpoint{clickhouse}, StateWarn, "in 5 days", "RELOAD CONFIG"},
		"the client is refused":    {stream.Config{}, []Endpoint{mutual}, StateWarn, "in 5 days", "RELOAD CONFIG"},
		"that of Redis has ended":  {stream.Config{}, []Endpoint{redis}, StateFail, "Redis at " + redis.Addr, "CONFIG SET"},
		"Redis cannot be reached":  {stream.Config{}, []Endpoint{unavailable}, StateOK, "was not asked", ""},
		"several at the same time": {soon, []Endpoint{redis, clickhouse}, StateFail, "4 of 4 certificates", "; Redis"},
	} {
		if len(f.kafka.Brokers) == 0 {
			f.kafka.Brokers = []string{"127.0.0.1:1"}
		}
		reader := must.Get(stream.NewReader(f.kafka, "test"))(t)
		x := checker{Target: Target{Stream: f.kafka, Endpoints: f.others, Now: time.Now}, log: reader}
		c := x.engineCertificates(t.Context())
		reader.Close()
		text := c.Text + " " + strings.Join(c.Details, " ")
		if c.State != f.state || !strings.Contains(text, f.text) || !strings.Contains(c.Advice, f.advice) ||
			(c.Advice == "") != (f.advice == "") {
			t.Errorf("%s: %+v, want %s %q %q", name, c, f.state, f.text, f.advice)
		}
	}
}

// One day is not one days.
func TestPlural(t *testing.T) {
	for want, got := range map[string]string{"1 day": plural(1, "day"), "2 days": plural(2, "day"),
		"3 entries": plural(3, "entry")} {
		is.Equal(t, got, want)
	}
}
