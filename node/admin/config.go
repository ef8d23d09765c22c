package admin

import (
	"errors"
	"net/http"
	"slices"
	"time"

	"github.com/eventrelay/relay/pkg/config"
	"github.com/eventrelay/relay/pkg/config/document"
	"github.com/eventrelay/relay/pkg/config/seal"
	"github.com/eventrelay/relay/pkg/web"
)

// Import is the progress of relay config import.
type Import struct {
	Entities int      `json:"entities"` // in the document
	Done     int      `json:"done"`
	Changed  int      `json:"changed"` // of them: new or different
	Removed  int      `json:"removed"` // entities that existed and are not in the document
	Warnings []string `json:"warnings"`
}

// maxImport bounds an import, in bytes; 200,000 endpoints are some 250 MB.
const maxImport = 1 << 30

// Resumed is the answer of relay config resume.
type Resumed struct {
	Resumed int `json:"resumed"` // endpoints that an import had paused
}

// configuration are the handlers of relay config.
type configuration struct{ *Deps }

// exportDocument writes the configuration as one document. When that fails midway, the connection is closed and the
// document has no end, which its reader detects.
func (x *configuration) exportDocument(w http.ResponseWriter, r *http.Request) {
	if err := x.Config.Sync(r.Context()); err != nil {
		web.WriteError(w, r, x.Log, commandError(err))
		return
	}
	w.Header().Set("Content-Type", "application/json")
	if err := x.Config.Export(r.Context(), w); err != nil {
		x.Log.Warn("cannot finish the export of the configuration", "error", err)
		panic(http.ErrAbortHandler)
	}
}

// importDocument writes the entities of a document into the configuration log.
func (x *configuration) importDocument(r *http.Request, report func(any)) error {
	var reported time.Time
	done, err := x.Config.Import(r.Context(), r.Body, x.importOptions(r), func(im config.ImportProgress) {
		if now := time.Now(); now.Sub(reported) >= progressInterval {
			reported = now
			report(commandImport(im))
		}
	})
	if err != nil {
		return importError(err)
	}
	report(commandImport(done))
	return nil
}

// resumeEndpoints ends the pause of an import.
func (x *configuration) resumeEndpoints(r *http.Request, report func(any)) error {
	n, err := x.Config.Resume(r.Context(), r.Body, x.importOptions(r))
	if err != nil {
		return importError(err)
	}
	report(Resumed{n})
	return nil
}

func (x *configuration) importOptions(r *http.Request) config.ImportOptions {
	is := func(name string) bool { return r.URL.Query().Get(name) == "true" }
	return config.ImportOptions{
		Replace: is("replace"), Unsigned: is("unsigned"), Paused: is("paused"), CheckURL: x.CheckURL,
	}
}

// importError says what the operator can do about an error of an import.
func importError(err error) error {
	tooLarge, isLarge := errors.AsType[*http.MaxBytesError](err)
	switch {
	case isLarge:
		return web.Invalid("", "the document is larger than %d bytes", tooLarge.Limit)
	case errors.Is(err, document.ErrInvalid):
		return web.Invalid("", "%v", err)
	case errors.Is(err, document.ErrUnsigned):
		return web.WrongState("", "%v; make sure where it comes from, then give --unsigned", err)
	case errors.Is(err, config.ErrStateFull):
		return web.WrongState("", "%v", err)
	case errors.Is(err, config.ErrNotEmpty):
		return web.WrongState("", "%v; import into an empty configuration log, or give --replace to delete them", err)
	case errors.Is(err, seal.ErrMissingKey), errors.Is(err, config.ErrConflict):
		return web.WrongState("", "%v", err)
	}
	return err
}

func commandImport(im config.ImportProgress) Import {
	return Import{
		Entities: im.Entities, Done: im.Done, Changed: im.Changed, Removed: im.Removed,
		Warnings: slices.Concat([]string{}, im.Warnings),
	}
}
