// Command pictures draws the diagrams and plots of the documents for light and dark pages. make generate calls it:
//
//	go run -C tools ./pictures ../docs/pictures bench/delivery.md
//
// The plots show the figures in the second file.
package main

import (
	"fmt"
	"os"
	"path/filepath"
)

func main() {
	files, err := pictures(os.Args[2])
	for name, text := range files {
		if err == nil {
			err = os.WriteFile(filepath.Join(os.Args[1], name), []byte(text), 0o644)
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "pictures:", err)
		os.Exit(1)
	}
}

// pictures returns the text of each file. measurements is the path of the document with the figures.
func pictures(measurements string) (map[string]string, error) {
	text, err := os.ReadFile(measurements)
	if err != nil {
		return nil, err
	}
	throughput, latency, err := plotMeasurements(string(text))
	files := map[string]string{}
	for name, p := range map[string]*picture{
		"path": drawPath(), "delivery": drawDelivery(), "recovery": drawRecovery(), "retry": plotRetries(),
		"throughput": throughput, "latency": latency,
	} {
		for scheme, colours := range palettes {
			files[name+"-"+scheme+".svg"] = p.svg(colours)
		}
	}
	return files, err
}
