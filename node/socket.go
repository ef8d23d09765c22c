package node

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"

	"github.com/eventrelay/relay/dispatcher"
	"github.com/eventrelay/relay/node/admin"
	"github.com/eventrelay/relay/pkg/private"
	"github.com/eventrelay/relay/pkg/stream"
)

// newSocket creates the server of the operator's commands on a unix socket in the data directory.
func newSocket(n *Node) (runFunc, error) {
	// This replaces an old socket; the lock of the data directory ensures that no other process uses it.
	listener, err := private.Listen(filepath.Join(n.settings.DataDir, admin.SocketFile))
	if err != nil {
		return nil, fmt.Errorf("open command socket: %w", err)
	}
	handler, err := admin.New(admin.Deps{
		Log: n.log, Keys: n.control, Uses: n.reader, Users: n.control, Config: n.control, Producer: n.producer,
		Endpoints: n.control, Doctor: n.doctor, Backup: n.backup, BaseURL: n.dashboardURL(), Now: n.now,
		CheckURL: func(text string) error {
			_, err := n.policy.CheckURL(text)
			return err
		},
		Dead: func() (admin.DeadLetters, error) { return stream.NewReader(n.stream, "dead") },
		Partitions: func() (admin.Partitions, error) {
			r, err := stream.NewReader(n.stream, "move")
			return partitions{r}, err
		},
	})
	if err != nil {
		return nil, errors.Join(err, listener.Close())
	}
	return (&server{listener: listener, handler: handler, log: n.log, drain: operatorDrain}).Run, nil
}

// partitions reads the log for the move of an endpoint.
type partitions struct{ *stream.Reader }

// Count returns how many partitions events have.
func (p partitions) Count(ctx context.Context) (int, error) {
	ends, err := p.Ends(ctx, stream.Events)
	return len(ends), err
}

func (p partitions) Survey(endpoint string, partitions []int32) admin.Survey {
	return dispatcher.NewSurvey(p.Reader, endpoint, partitions)
}
