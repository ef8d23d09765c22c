package command

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"

	"github.com/eventrelay/relay/command/cli"
	"github.com/eventrelay/relay/node/admin"
	"github.com/eventrelay/relay/pkg/config/document"
)

// Exported is the JSON answer of relay config export --file.
type Exported struct {
	File       string   `json:"file"`
	Account    string   `json:"account"`
	Entities   int      `json:"entities"`
	MasterKeys []string `json:"master_keys"`
}

// configCommands returns the commands that export and import the whole configuration.
func configCommands() cli.Group {
	return cli.Group{Name: "config", Verbs: []cli.Verb{
		{Name: "export", Args: "[--file FILE]", Help: "write the whole configuration as JSON", Flags: exportConfig},
		{Name: "import", Args: "FILE [--paused] [--replace] [--unsigned]", Help: "load an export into the running process",
			Flags: importConfig},
		{Name: "resume", Args: "FILE [--unsigned]", Help: "resume the endpoints that import --paused paused",
			Flags: resumeConfig},
	}, About: `export writes the whole configuration as one JSON document: endpoints, destinations, keys, users, alert
settings. It holds API keys as hashes and other secrets sealed under the master keys that it names: whoever
has the document and those keys has all secrets. A MAC under the first master key detects changes. One-time
links are left out. Without --file the document goes to standard output. A file is replaced in one step, and
only you can read it.

import loads a document into the running process, for a new Kafka, with the same RELAY_MASTER_KEYS. Ids, API keys,
signing secrets and ingest URLs stay the same. The document has no events, waiting deliveries or replay runs. FILE is -
for standard input. A process that has a configuration refuses; --replace then deletes what is not in the document. Run
an interrupted import again: it continues where it stopped. --unsigned accepts an export of an older version, which has
no MAC: make sure where it comes from.

--paused pauses all endpoints of the document: events are accepted, and nothing is delivered. Check what you have
restored, revoke the keys that were revoked after the export, then give the same file to resume. It resumes the
endpoints that the document does not have as paused, and nothing else.
`}
}

func exportConfig(flags *flag.FlagSet) cli.Action {
	file := flags.String("file", "", "file to write; empty = standard output")
	return cli.Action{Misuse: cli.NoArguments, Do: func(ctx context.Context, c *cli.Client, _ []string) error {
		resp, err := c.Request(ctx, http.MethodGet, "/config", nil)
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		if *file == "" {
			fmt.Fprintln(c.Err, "warning: the output holds hashes of keys and passwords, and sealed secrets; --file writes a "+
				"file that only you can read")
			_, err := document.Read(io.TeeReader(resp.Body, c.Out), func(string, json.RawMessage) error { return nil })
			return err
		}
		head, err := writeExport(*file, resp.Body)
		if err != nil {
			return err
		}
		if c.AsJSON {
			return json.NewEncoder(c.Out).Encode(Exported{*file, head.Account, head.Entities, head.MasterKeys})
		}
		fmt.Fprintf(c.Out, "%d entities of %s are in %s; an import needs the master keys %v\n", head.Entities,
			head.Account, *file, head.MasterKeys)
		return nil
	}}
}

// writeExport writes an export to a temporary file and renames it when it is complete.
func writeExport(file string, from io.Reader) (head document.Header, err error) {
	out, err := os.CreateTemp(filepath.Dir(file), filepath.Base(file)+".*") // mode 0600
	if err != nil {
		return head, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.Remove(out.Name()))
		}
	}()
	head, err = document.Read(io.TeeReader(from, out), func(string, json.RawMessage) error { return nil })
	if err = errors.Join(err, out.Sync(), out.Close()); err != nil {
		return head, err
	}
	return head, os.Rename(out.Name(), file)
}

func importConfig(flags *flag.FlagSet) cli.Action {
	replace := flags.Bool("replace", false, "delete entities that are not in the document")
	unsigned := flags.Bool("unsigned", false, "accept a document without a MAC, as older versions wrote it")
	paused := flags.Bool("paused", false, "pause all endpoints of the document until relay config resume")
	return cli.Action{
		Misuse: oneDocument("import"),
		Do: func(ctx context.Context, c *cli.Client, arguments []string) error {
			from, err := openDocument(arguments[0])
			if err != nil {
				return err
			}
			defer from.Close()
			path := fmt.Sprintf("/config?replace=%t&unsigned=%t&paused=%t", *replace, *unsigned, *paused)
			var im admin.Import
			err = c.CallWithProgress(ctx, path, from, func(line []byte) error {
				im = admin.Import{}
				if err := json.Unmarshal(line, &im); err != nil {
					return err
				}
				if im.Done < im.Entities {
					fmt.Fprintf(c.Out, "%d of %d entities\n", im.Done, im.Entities)
				}
				return nil
			})
			if err != nil || c.AsJSON {
				return err
			}
			for _, w := range im.Warnings {
				fmt.Fprintln(c.Out, "warning:", w)
			}
			if im.Changed+im.Removed == 0 {
				fmt.Fprintf(c.Out, "nothing has changed: all %d entities of the document exist already\n", im.Entities)
				return nil
			}
			fmt.Fprintf(c.Out, "imported %d entities, removed %d that were there before\n", im.Done, im.Removed)
			return nil
		},
	}
}

// oneDocument returns the check of a command that takes a document.
func oneDocument(verb string) func(arguments []string) string {
	return func(arguments []string) string {
		if len(arguments) != 1 {
			return verb + " takes one file; - is standard input"
		}
		return ""
	}
}

// openDocument opens a file, or standard input if name is -.
func openDocument(name string) (io.ReadCloser, error) {
	if name == "-" {
		return io.NopCloser(os.Stdin), nil
	}
	return os.Open(name)
}

func resumeConfig(flags *flag.FlagSet) cli.Action {
	unsigned := flags.Bool("unsigned", false, "accept a document without a MAC, as older versions wrote it")
	return cli.Action{
		Misuse: oneDocument("resume"),
		Do: func(ctx context.Context, c *cli.Client, arguments []string) error {
			from, err := openDocument(arguments[0])
			if err != nil {
				return err
			}
			defer from.Close()
			path := fmt.Sprintf("/resume?unsigned=%t", *unsigned)
			return c.CallWithProgress(ctx, path, from, func(line []byte) error {
				var r admin.Resumed
				if err := json.Unmarshal(line, &r); err != nil {
					return err
				}
				_, err := fmt.Fprintf(c.Out, "resumed %d endpoints\n", r.Resumed)
				return err
			})
		},
	}
}
