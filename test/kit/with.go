package kit

import (
	"os"
	"testing"
)

// With what an engine runs when the environment gives no address of one.
const (
	withContainers = "containers"
	withProcesses  = "processes"
)

// choose decides what an engine runs as: RELAY_TEST_WITH says it (containers or processes), or a container
// is taken where a Docker engine with the image is there, and a process otherwise. imageEnv names the
// image. The image is empty for a process.
func choose(t testing.TB, engine, imageEnv string) (imageName string) {
	t.Helper()
	wish := os.Getenv("RELAY_TEST_WITH")
	switch wish {
	case "", withContainers:
	case withProcesses:
		return ""
	default:
		t.Fatalf("RELAY_TEST_WITH is %q: %s, %s or nothing", wish, withContainers, withProcesses)
	}
	name, err := image(t, imageEnv)
	if err != nil && wish == withContainers {
		Absent(t, "%s in a container: %v", engine, err)
	}
	return name
}
