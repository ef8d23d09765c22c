package dashboard

import "strconv"

// maxRows is how many rows a page of a list shows whose things are in memory.
const maxRows = 50

// pager is where a page stands in its list, for the template "pager".
type pager struct {
	First, Last, Total int64  // number of the first and the last row of the page, and of all
	Previous, Next     string // paths of the pages before and after; empty: there is none
}

// paginate returns the rows of the page that ?page= names, of the list at path. What names no page is the first one,
// and what lies behind the end the last.
func paginate[T any](v *visit, path string, rows []T) ([]T, pager) {
	pages := max(1, (len(rows)+maxRows-1)/maxRows)
	page := 1
	if n, err := strconv.Atoi(v.r.URL.Query().Get("page")); err == nil {
		page = max(1, min(n, pages))
	}
	from, to := (page-1)*maxRows, min(page*maxRows, len(rows))
	p := pager{First: int64(from + 1), Last: int64(to), Total: int64(len(rows))}
	if page > 1 {
		p.Previous = path + "?page=" + strconv.Itoa(page-1)
	}
	if page < pages {
		p.Next = path + "?page=" + strconv.Itoa(page+1)
	}
	return rows[from:to], p
}
