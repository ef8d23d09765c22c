package doctor

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/eventrelay/relay/command/cli"
	"github.com/eventrelay/relay/pkg/nodeconfig"
	"github.com/eventrelay/relay/pkg/stream"
	"github.com/eventrelay/relay/test/is"
	"github.com/eventrelay/relay/test/must"
)

// The doctor examines the files of a log on which no process runs, and names what is missing.
func TestDoctorNamesMissingRecords(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	l := must.Get(stream.OpenLog(stream.LogConfig{Dir: filepath.Join(dir, nodeconfig.LogDir), Fsync: true}))(t)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- l.Run(ctx) }()
	cfg := stream.Config{Embedded: l, Prefix: "relay."}
	must.Get(stream.Migrate(t.Context(), cfg, 1, 1))(t)
	p := must.Get(stream.NewProducer(cfg, "test"))(t)
	must.Do(t, p.ProduceSync(t.Context(), stream.Events, 0, &stream.Record{Value: []byte("x")}))
	p.Close()
	stop()
	must.Do(t, <-ended)
	examine := func() (string, error) {
		var out bytes.Buffer
		s := nodeconfig.Config{DataDir: dir, Fsync: true}
		err := runDoctor(t.Context(), s, cli.Call{Stdout: &out, Stderr: &out}, false)
		return out.String(), err
	}
	_, err := examine()
	is.ErrorIs(t, err, cli.ErrNoProcess)
	must.Do(t, os.Truncate(must.Get(filepath.Glob(filepath.Join(dir, nodeconfig.LogDir, "*.seg")))(t)[0], 0))
	text, err := examine()
	is.Failed(t, err, "log")
	is.Has(t, text, "RELAY_SKIP_MISSING_RECORDS=true")
}
