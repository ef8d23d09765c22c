package kit

import (
	"context"
	"fmt"
	"io"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/api/types/network"
	"github.com/moby/moby/client"
	"github.com/testcontainers/testcontainers-go"
	"github.com/testcontainers/testcontainers-go/log"
	tcnetwork "github.com/testcontainers/testcontainers-go/network"
	"golang.org/x/sys/unix"
)

// dockerLimit bounds one request to the Docker engine. It is long because an image may have to be pulled.
const dockerLimit = 5 * time.Minute

// Labels of every container name the host and process that created it. A killed test cannot clean up, so the next test
// process removes containers whose process no longer exists.
const (
	labelHost = "eventrelay.test.host"
	labelPid  = "eventrelay.test.pid"
)

// dockerClient connects to the Docker engine once for all tests of a process.
var dockerClient = sync.OnceValues(func() (*testcontainers.DockerClient, error) {
	log.SetDefault(log.NewNoopLogger())
	// Ryuk, the library's reaper, is one more image to pull; the labels above replace it.
	if _, set := os.LookupEnv("TESTCONTAINERS_RYUK_DISABLED"); !set {
		if err := os.Setenv("TESTCONTAINERS_RYUK_DISABLED", "true"); err != nil {
			return nil, err
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	cl, err := testcontainers.NewDockerClientWithOpts(ctx)
	if err != nil {
		return nil, err
	}
	defer cl.Close() // closes idle connections; the client opens new ones
	return cl, removeStaleContainers(ctx, cl)
})

// removeStaleContainers removes containers whose test process no longer exists.
func removeStaleContainers(ctx context.Context, cl *testcontainers.DockerClient) error {
	host, err := os.Hostname()
	if err != nil {
		return err
	}
	all, err := cl.ContainerList(
		ctx, client.ContainerListOptions{All: true, Filters: make(client.Filters).Add("label", labelHost+"="+host)})
	if err != nil {
		return err
	}
	for _, c := range all.Items {
		if pid, err := strconv.Atoi(c.Labels[labelPid]); err == nil && syscall.Kill(pid, 0) == syscall.ESRCH {
			// Another test process may remove it at the same moment.
			_, _ = cl.ContainerRemove(ctx, c.ID, client.ContainerRemoveOptions{Force: true, RemoveVolumes: true})
		}
	}
	return nil
}

// engineImage returns the name of an engine's image: the value of the environment variable env, or the image that
// test/engines/image.sh built. It fails if there is no Docker engine, or if the built image is not in it.
func engineImage(t testing.TB, env string) (string, error) {
	t.Helper()
	cl, err := dockerClient()
	if err != nil {
		return "", fmt.Errorf("no Docker engine: %w", err)
	}
	if name := os.Getenv(env); name != "" {
		return name, nil
	}
	stamp, err := os.ReadFile(filepath.Join(Root(t), "bin", "engines", "image"))
	if err != nil {
		return "", fmt.Errorf("%s names no image, and test/engines/image.sh has built none", env)
	}
	defer cl.Close()
	name := strings.TrimSpace(string(stamp))
	if _, err := cl.ImageInspect(t.Context(), name); err != nil {
		return "", fmt.Errorf("image %s: %w; test/engines/image.sh builds it", name, err)
	}
	return name, nil
}

// containerRunner runs an engine as a container.
type containerRunner struct {
	image   string
	command []string
	ports   []int             // published on loopback under the same number
	files   map[string]string // host path → path in the container
	network string            // Docker network; "" = the default one
	alias   string            // name on the network

	c *testcontainers.DockerContainer // nil before the first start
}

func (r *containerRunner) start() error {
	ctx, cancel := context.WithTimeout(context.Background(), dockerLimit)
	defer cancel()
	if r.c != nil {
		return r.c.Start(ctx)
	}
	host, err := os.Hostname()
	if err != nil {
		return err
	}
	bindings := network.PortMap{}
	options := []testcontainers.ContainerCustomizer{
		testcontainers.WithEntrypoint(r.command[0]), testcontainers.WithCmd(r.command[1:]...),
		testcontainers.WithLabels(map[string]string{labelHost: host, labelPid: strconv.Itoa(os.Getpid())}),
		testcontainers.WithHostConfigModifier(func(c *container.HostConfig) { c.PortBindings = bindings }),
	}
	for _, port := range r.ports {
		name := fmt.Sprintf("%d/tcp", port)
		bindings[network.MustParsePort(name)] = []network.PortBinding{
			{HostIP: netip.AddrFrom4([4]byte{127, 0, 0, 1}), HostPort: strconv.Itoa(port)}}
		options = append(options, testcontainers.WithExposedPorts(name))
	}
	for from, to := range r.files {
		options = append(options,
			testcontainers.WithFiles(testcontainers.ContainerFile{HostFilePath: from, ContainerFilePath: to, FileMode: 0o755}))
	}
	if r.network != "" {
		options = append(options, tcnetwork.WithNetworkName([]string{r.alias}, r.network))
	}
	r.c, err = testcontainers.Run(ctx, r.image, options...)
	return err
}

func (r *containerRunner) signal(s syscall.Signal) error {
	cl, err := dockerClient()
	if err != nil {
		return err
	}
	defer cl.Close()
	ctx, cancel := context.WithTimeout(context.Background(), stopLimit)
	defer cancel()
	_, err = cl.ContainerKill(ctx, r.c.GetContainerID(), client.ContainerKillOptions{Signal: unix.SignalName(s)})
	return err
}

func (r *containerRunner) wait(limit time.Duration) (ended bool) {
	for deadline := time.Now().Add(limit); ; {
		ctx, cancel := context.WithTimeout(context.Background(), stopLimit)
		state, err := r.c.State(ctx)
		cancel()
		if err == nil && !state.Running {
			return true
		}
		if left := time.Until(deadline); left <= 0 {
			return false
		} else {
			<-time.After(min(left, 50*time.Millisecond))
		}
	}
}

func (r *containerRunner) output() string {
	ctx, cancel := context.WithTimeout(context.Background(), stopLimit)
	defer cancel()
	logs, err := r.c.Logs(ctx)
	if err != nil {
		return err.Error()
	}
	defer logs.Close()
	out, err := io.ReadAll(io.LimitReader(logs, 1<<20))
	if err != nil {
		return err.Error()
	}
	return string(out)
}

func (r *containerRunner) remove() {
	if r.c == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), dockerLimit)
	defer cancel()
	// What cannot be removed now is removed by the next test process.
	_ = testcontainers.TerminateContainer(r.c, testcontainers.StopContext(ctx), testcontainers.StopTimeout(0))
}
