package admin

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"slices"
	"time"

	"github.com/eventrelay/relay/pkg/config"
	"github.com/eventrelay/relay/pkg/web"
)

// Import is how far config import has come.
type Import struct {
	Entities int      `json:"entities"` // of the document
	Done     int      `json:"done"`
	Changed  int      `json:"changed"` // of them: were not there already
	Removed  int      `json:"removed"` // what was there before
	Warnings []string `json:"warnings"`
}

// maxImport bounds an import, in bytes; 200,000 endpoints are some 250 MB.
const maxImport = 1 << 30

// Configuration is the configuration as a whole.
type Configuration interface {
	Sync(ctx context.Context) error
	Export(ctx context.Context, to io.Writer) error
	Import(ctx context.Context, from io.Reader, how config.ImportOptions, tell func(config.ImportProgress)) (
		config.ImportProgress, error)
}

// configuration are the handlers of relay config.
type configuration struct {
	log      *slog.Logger
	config   Configuration
	checkURL func(text string) error // of a destination that comes from a document
}

// exportDocument writes the configuration as one document. When it breaks off, the document has no end, which whoever
// reads it finds out.
func (x *configuration) exportDocument(w http.ResponseWriter, r *http.Request) {
	if err := x.config.Sync(r.Context()); err != nil {
		web.WriteError(w, r, x.log, commandError(err))
		return
	}
	w.Header().Set("Content-Type", "application/json")
	if err := x.config.Export(r.Context(), w); err != nil {
		x.log.Warn("export broke off", "error", err)
		panic(http.ErrAbortHandler)
	}
}

// importDocument makes a document the configuration.
func (x *configuration) importDocument(r *http.Request, tell func(any)) error {
	var told time.Time
	asked := r.URL.Query()
	how := config.ImportOptions{
		Replace: asked.Get("replace") == "true", Unsigned: asked.Get("unsigned") == "true", CheckURL: x.checkURL,
	}
	done, err := x.config.Import(r.Context(), r.Body, how, func(im config.ImportProgress) {
		if now := time.Now(); now.Sub(told) >= tellEvery {
			told = now
			tell(commandImport(im))
		}
	})
	tooLarge, isLarge := errors.AsType[*http.MaxBytesError](err)
	switch {
	case isLarge:
		return web.Invalid("", "the document is larger than %d bytes", tooLarge.Limit)
	case errors.Is(err, config.ErrInvalidExport):
		return web.Invalid("", "%v", err)
	case errors.Is(err, config.ErrUnsignedExport):
		return web.State("", "%v; make sure where it comes from, then give --unsigned", err)
	case errors.Is(err, config.ErrStateFull):
		return web.State("", "%v", err)
	case errors.Is(err, config.ErrNotEmpty):
		return web.State("", "%v; import into an empty configuration log, or give --replace to delete them", err)
	case errors.Is(err, config.ErrMissingMasterKey), errors.Is(err, config.ErrConflict):
		return web.State("", "%v", err)
	case err != nil:
		return err
	}
	tell(commandImport(done))
	return nil
}

func commandImport(im config.ImportProgress) Import {
	return Import{
		Entities: im.Entities, Done: im.Done, Changed: im.Changed, Removed: im.Removed,
		Warnings: slices.Concat([]string{}, im.Warnings),
	}
}
