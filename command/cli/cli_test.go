package cli

import (
	"testing"

	"github.com/eventrelay/relay/test/is"
)

// Files that Docker and Compose mount are readable for all users of the container.
func TestMountedSecretsDoNotWarn(t *testing.T) {
	for path, open := range map[string]bool{"/run/secrets/key": false, "/run/other/key": true, "run/secrets/key": true} {
		is.Equal(t, openToOthers(path, 0o444), open, path)
	}
}
