package doctor

import "context"

// openFiles checks the limit of open files, which bounds the requests to destinations and the connections of clients.
func (x *checker) openFiles(context.Context) Check {
	if x.OpenFiles < x.WantFiles {
		return warn("raise the limit (ulimit -n, LimitNOFILE in systemd, ulimits in compose) and restart the node; 32768 "+
			"are enough", "the node may open %d files at once, want %d at least: one destination that hangs holds up to 1000",
			x.OpenFiles, x.WantFiles)
	}
	return ok("the node may open %d files at once", x.OpenFiles)
}
