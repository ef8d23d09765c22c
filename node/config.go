package node

import (
	"errors"
	"net/http"
	"slices"
	"time"

	"github.com/eventrelay/relay/command"
	"github.com/eventrelay/relay/pkg/control"
	"github.com/eventrelay/relay/pkg/web"
)

// maxImport bounds an import, in bytes; 200,000 endpoints are some 250 MB.
const maxImport = 1 << 30

// exportConfig writes the configuration as one document. When it breaks off, the document has no end, which whoever
// reads it finds out.
func (n *node) exportConfig(w http.ResponseWriter, r *http.Request) {
	if err := n.control.Sync(r.Context()); err != nil {
		web.WriteError(w, r, n.log, commandError(err))
		return
	}
	w.Header().Set("Content-Type", "application/json")
	if err := n.control.Export(r.Context(), w); err != nil {
		n.log.Warn("export broke off", "error", err)
		panic(http.ErrAbortHandler)
	}
}

// importConfig makes a document the configuration.
func (n *node) importConfig(r *http.Request, tell func(any)) error {
	var told time.Time
	asked := r.URL.Query()
	how := control.Importing{Replace: asked.Get("replace") == "true", Unsigned: asked.Get("unsigned") == "true", CheckURL: n.checkStoredURL}
	done, err := n.control.Import(r.Context(), r.Body, how, func(im control.Imported) {
		if now := time.Now(); now.Sub(told) >= tellEvery {
			told = now
			tell(commandImport(im))
		}
	})
	tooLarge, isLarge := errors.AsType[*http.MaxBytesError](err)
	switch {
	case isLarge:
		return web.Invalid("", "the document is larger than %d bytes", tooLarge.Limit)
	case errors.Is(err, control.ErrExport):
		return web.Invalid("", "%v", err)
	case errors.Is(err, control.ErrUnsigned):
		return web.State("", "%v; make sure where it comes from, then give --unsigned", err)
	case errors.Is(err, control.ErrStateFull):
		return web.State("", "%v", err)
	case errors.Is(err, control.ErrNotEmpty):
		return web.State("", "%v; import into an empty configuration log, or give --replace to delete them", err)
	case errors.Is(err, control.ErrKeys), errors.Is(err, control.ErrConflict):
		return web.State("", "%v", err)
	case err != nil:
		return err
	}
	tell(commandImport(done))
	return nil
}

// checkStoredURL judges the URL of a destination that comes from a document.
func (n *node) checkStoredURL(text string) error {
	_, err := n.policy.CheckURL(text)
	return err
}

func commandImport(im control.Imported) command.Import {
	return command.Import{Entities: im.Entities, Done: im.Done, Removed: im.Removed, Warnings: slices.Concat([]string{}, im.Warnings)}
}
