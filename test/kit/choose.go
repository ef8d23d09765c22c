package kit

import (
	"os"
	"testing"
)

// Values of RELAY_TEST_WITH: how engines run whose address no environment variable gives.
const (
	withContainers = "containers"
	withProcesses  = "processes"
)

// chooseImage returns the image of the container that an engine shall run as, or "" for a process. RELAY_TEST_WITH
// decides; if it is empty, a container is used if a Docker engine has the image. imageEnv is the environment variable
// that may name the image.
func chooseImage(t testing.TB, engine, imageEnv string) (imageName string) {
	t.Helper()
	wish := os.Getenv("RELAY_TEST_WITH")
	switch wish {
	case "", withContainers:
	case withProcesses:
		return ""
	default:
		t.Fatalf("RELAY_TEST_WITH is %q; set it to %s, %s or leave it empty", wish, withContainers, withProcesses)
	}
	name, err := engineImage(t, imageEnv)
	if err != nil && wish == withContainers {
		SkipMissing(t, "%s cannot run in a container: %v", engine, err)
	}
	return name
}
