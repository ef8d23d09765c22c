// Command grafana writes the dashboards for Grafana, which are made of the few kinds of panels in panel.go:
//
//	go run -C tools ./grafana ../deploy/grafana/dashboards
//
// `make generate` calls it. boards.go says what each dashboard shows. Files that are in the directory already are
// overwritten.
package main

import (
	"fmt"
	"os"
	"path/filepath"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "grafana: which directory? go run -C tools ./grafana ../deploy/grafana/dashboards")
		os.Exit(2)
	}
	for _, b := range boards() {
		text, err := b.json()
		if err == nil {
			err = os.WriteFile(filepath.Join(os.Args[1], b.name+".json"), text, 0o644)
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, "grafana:", err)
			os.Exit(1)
		}
	}
}
