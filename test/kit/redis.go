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

// Redis returns a redis-server: RELAY_TEST_REDIS_URL, a container of RELAY_TEST_REDIS_IMAGE or of the image
// that deploy/engines/image.sh builds, or a process of the system's package.
func Redis(t testing.TB) *Engine {
	t.Helper()
	if text := os.Getenv("RELAY_TEST_REDIS_URL"); text != "" {
		u, err := url.Parse(text)
		if err != nil || u.Host == "" {
			t.Fatal("RELAY_TEST_REDIS_URL is no URL such as redis://host:port")
		}
		return found(t, &Engine{Addr: u.Host, URL: text, How: "Redis at RELAY_TEST_REDIS_URL"})
	}
	image := choose(t, "Redis", "RELAY_TEST_REDIS_IMAGE")
	port := FreePort(t)
	e := &Engine{Addr: fmt.Sprintf("127.0.0.1:%d", port), ready: pong, limit: 5 * time.Minute, dial: net.Dial}
	e.URL = "redis://" + e.Addr
	if image != "" {
		e.How = "redis-server, a container"
		e.run = &contained{image: image, command: redisCommand("0.0.0.0", port, "/tmp"), ports: []int{port}}
	} else {
		e.How = "redis-server, a process of its own"
		e.run = redisProcess(t, "127.0.0.1", port)
	}
	return begin(t, e)
}

func redisProcess(t testing.TB, bind string, port int) *process {
	t.Helper()
	if _, err := exec.LookPath("redis-server"); err != nil {
		Absent(t, "redis-server is not installed")
	}
	return &process{command: redisCommand(bind, port, t.TempDir())}
}

func redisCommand(bind string, port int, dir string) []string {
	return []string{"redis-server", "--bind", bind, "--protected-mode", "no", "--port", strconv.Itoa(port), "--save", "",
		"--appendonly", "no", "--dir", dir}
}

// pong asks a redis-server for an answer; its address may take connections before it runs.
func pong(_ context.Context, e *Engine) error {
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
