package kit

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"
)

// Redis returns a redis-server: the one at RELAY_TEST_REDIS_URL; else a container of RELAY_TEST_REDIS_IMAGE or of the
// image that test/engines/image.sh builds; else a process of the installed redis-server.
func Redis(t testing.TB) *Engine {
	t.Helper()
	if text := os.Getenv("RELAY_TEST_REDIS_URL"); text != "" {
		u, err := url.Parse(text)
		if err != nil || u.Host == "" {
			t.Fatal("RELAY_TEST_REDIS_URL must be a URL such as redis://host:port")
		}
		return externalEngine(t, &Engine{Addr: u.Host, URL: text, Description: "Redis at RELAY_TEST_REDIS_URL"})
	}
	image := chooseImage(t, "Redis", "RELAY_TEST_REDIS_IMAGE")
	port := FreePort(t)
	e := &Engine{Addr: fmt.Sprintf("127.0.0.1:%d", port), checkReady: checkPing, startLimit: 5 * time.Minute,
		dial: net.Dial}
	e.URL = "redis://" + e.Addr
	if image != "" {
		e.Description = "redis-server, a container"
		e.runner = &containerRunner{image: image, command: redisCommand("0.0.0.0", port, "/tmp"), ports: []int{port}}
	} else {
		e.Description = "redis-server, a process of its own"
		e.runner = redisProcess(t, "127.0.0.1", port)
	}
	return startEngine(t, e)
}

// SecureRedis starts a redis-server that serves TLS alone on Addr, with a certificate. It wants client certificates of
// the CA if wantsClient is set.
func SecureRedis(t testing.TB, ca *CA, certificate Pair, wantsClient bool) *Engine {
	t.Helper()
	plain, secure := FreePort(t), FreePort(t)
	run := redisProcess(t, "127.0.0.1", plain)
	clients := map[bool]string{true: "yes", false: "no"}[wantsClient]
	run.command = append(run.command, "--tls-port", strconv.Itoa(secure), "--tls-ca-cert-file", ca.File,
		"--tls-cert-file", certificate.CertFile, "--tls-key-file", certificate.KeyFile, "--tls-auth-clients", clients)
	e := &Engine{Addr: fmt.Sprintf("127.0.0.1:%d", secure), checkReady: checkPing, startLimit: 5 * time.Minute,
		Description: "redis-server with TLS, a process of its own", runner: run}
	e.URL = "rediss://" + e.Addr
	// Whether it is ready is asked without TLS.
	e.dial = func(network, _ string) (net.Conn, error) {
		return net.Dial(network, fmt.Sprintf("127.0.0.1:%d", plain))
	}
	return startEngine(t, e)
}

func redisProcess(t testing.TB, bind string, port int) *process {
	t.Helper()
	if _, err := exec.LookPath("redis-server"); err != nil {
		SkipMissing(t, "redis-server is not installed")
	}
	return &process{command: redisCommand(bind, port, t.TempDir())}
}

func redisCommand(bind string, port int, dir string) []string {
	return []string{"redis-server", "--bind", bind, "--protected-mode", "no", "--port", strconv.Itoa(port), "--save", "",
		"--appendonly", "no", "--dir", dir}
}

// checkPing sends PING. Connecting is not enough: a container's port accepts connections before redis-server runs.
func checkPing(_ context.Context, e *Engine) error {
	conn, err := e.dial("tcp", e.Addr)
	if err != nil {
		return err
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(time.Second)); err != nil {
		return err
	}
	if _, err := conn.Write([]byte("PING\r\n")); err != nil {
		return err
	}
	answer, err := bufio.NewReader(conn).ReadString('\n')
	if err != nil {
		return err
	}
	if !strings.HasPrefix(answer, "+PONG") {
		return errors.New(strings.TrimSpace(answer))
	}
	return nil
}
