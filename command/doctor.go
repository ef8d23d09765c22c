package command

import (
	"context"
	"net/http"

	"github.com/eventrelay/relay/doctor"
)

// Doctor asks the running process how it is.
func Doctor(ctx context.Context, c *Client) error {
	var r doctor.Report
	if err := c.call(ctx, http.MethodGet, "/doctor", nil, &r, func() { r.Print(c.out) }); err != nil {
		return err
	}
	return r.Err()
}
