package admin

import (
	"net/http"
	"path/filepath"
	"time"

	"github.com/eventrelay/relay/pkg/web"
)

// BackUp asks for a backup.
type BackUp struct {
	Dir      string `json:"dir"`      // absolute; new or empty
	Previous string `json:"previous"` // absolute, or "": copy all files
}

// BackupDone is the answer.
type BackupDone struct {
	Time   time.Time `json:"time"`
	Files  int       `json:"files"`
	Bytes  int64     `json:"bytes"`
	Copied int64     `json:"copied"` // bytes that the previous backup does not have
}

// backUp is the handler of relay backup.
func (d Deps) backUp(r *http.Request, report func(any)) error {
	var ask BackUp
	if err := readCommand(r, &ask); err != nil {
		return err
	}
	if !filepath.IsAbs(ask.Dir) {
		return web.Invalid("dir", "must be an absolute path")
	}
	if ask.Previous != "" && !filepath.IsAbs(ask.Previous) {
		return web.Invalid("previous", "must be an absolute path")
	}
	m, err := d.Backup(r.Context(), ask.Dir, ask.Previous)
	if err != nil { // the operator of this machine may see all of it
		return web.WrongState("", "no backup was written: %v", err)
	}
	report(BackupDone{m.Time, len(m.Files), m.Bytes(), m.Copied})
	return nil
}
