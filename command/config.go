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

	"github.com/eventrelay/relay/node/admin"
	"github.com/eventrelay/relay/pkg/config"
)

// Exported is what config export says of the file it has written.
type Exported struct {
	File       string   `json:"file"`
	Account    string   `json:"account"`
	Entities   int      `json:"entities"`
	MasterKeys []string `json:"master_keys"`
}

// Config are the commands about the configuration as a whole.
func Config() Group {
	return Group{name: "config", help: `Usage:
  relay config export [--file FILE]
  relay config import FILE [--replace] [--unsigned]

export writes the whole configuration as one JSON document: endpoints, destinations, keys, users, alert settings. API
keys stand in it as hashes, other secrets sealed under the master keys that it names: who has both has everything.
It has a MAC under the first of them, so changes are detected. One-time links are left out. Without --file it is
written to standard output. A file is replaced in one step, and only you can read it.

import makes it the configuration of the running process: for a new Kafka, with the same RELAY_MASTER_KEYS. Ids,
API keys, signing secrets and ingest URLs stay what they were. Events, deliveries on their way and replay runs are
not part of it. FILE is - for standard input. It is refused where there is a configuration already; --replace deletes
what is not in the document. Interrupted, it goes on where it stopped when it is given again. --unsigned takes an
export of an older version, which has no MAC: make sure where it comes from.
`, verbs: map[string]verb{"export": exportConfig, "import": importConfig}}
}

func exportConfig(flags *flag.FlagSet) action {
	file := flags.String("file", "", "where to; standard output when it is empty")
	return action{misuse: noWords, do: func(ctx context.Context, c *Client, _ []string) error {
		resp, err := c.request(ctx, http.MethodGet, "/config", nil)
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		if *file == "" {
			fmt.Fprintln(c.err, "warning: the output holds hashes of keys and passwords, and sealed secrets; --file makes a "+
				"file that only you can read")
			_, err := config.ReadExport(io.TeeReader(resp.Body, c.out), func(string, json.RawMessage) error { return nil })
			return err
		}
		head, err := writeWhole(*file, resp.Body)
		if err != nil {
			return err
		}
		if c.asJSON {
			return json.NewEncoder(c.out).Encode(Exported{*file, head.Account, head.Entities, head.MasterKeys})
		}
		fmt.Fprintf(c.out, "%d entities of %s are in %s; to import it, the master keys %v are needed\n", head.Entities,
			head.Account, *file, head.MasterKeys)
		return nil
	}}
}

// writeWhole writes an export beside the file and renames it when it is whole, so that there is never half of one.
func writeWhole(file string, from io.Reader) (head config.ExportHeader, err error) {
	out, err := os.CreateTemp(filepath.Dir(file), filepath.Base(file)+".*") // mode 0600
	if err != nil {
		return head, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.Remove(out.Name()))
		}
	}()
	head, err = config.ReadExport(io.TeeReader(from, out), func(string, json.RawMessage) error { return nil })
	if err = errors.Join(err, out.Sync(), out.Close()); err != nil {
		return head, err
	}
	return head, os.Rename(out.Name(), file)
}

func importConfig(flags *flag.FlagSet) action {
	replace := flags.Bool("replace", false, "delete what is there and not in the document")
	unsigned := flags.Bool("unsigned", false, "take a document without a MAC, as older versions wrote it")
	return action{
		misuse: func(words []string) string {
			if len(words) != 1 {
				return "import takes one file; - is standard input"
			}
			return ""
		},
		do: func(ctx context.Context, c *Client, words []string) error {
			from := io.Reader(os.Stdin)
			if words[0] != "-" {
				file, err := os.Open(words[0])
				if err != nil {
					return err
				}
				defer file.Close()
				from = file
			}
			path := fmt.Sprintf("/config?replace=%t&unsigned=%t", *replace, *unsigned)
			var im admin.Import
			err := c.follow(ctx, http.MethodPost, path, from, func(line []byte) error {
				im = admin.Import{}
				if err := json.Unmarshal(line, &im); err != nil {
					return err
				}
				if im.Done < im.Entities {
					fmt.Fprintf(c.out, "%d of %d entities\n", im.Done, im.Entities)
				}
				return nil
			})
			if err != nil || c.asJSON {
				return err
			}
			for _, w := range im.Warnings {
				fmt.Fprintln(c.out, "warning:", w)
			}
			if im.Changed+im.Removed == 0 {
				fmt.Fprintf(c.out, "all %d entities of the document were there already; nothing has changed\n", im.Entities)
				return nil
			}
			fmt.Fprintf(c.out, "%d entities are imported; %d that were there before are removed\n", im.Done, im.Removed)
			return nil
		},
	}
}
