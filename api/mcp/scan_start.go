package mcp

import (
	"cmp"
	"context"
	"fmt"
	"net/url"
	"strings"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/eventrelay/relay/pkg/config"
	"github.com/eventrelay/relay/pkg/id"
)

type scanStartInput struct {
	Domain string `json:"domain" jsonschema:"host name of a verified domain, such as shop.example.com, or its id (dom_…)"`
	Note   string `json:"note,omitempty" jsonschema:"why, for the person who decides" most:"500"`
}

// addScanStart adds the tool that asks for a leak scan.
func (s *Server) addScanStart(server *sdk.Server) {
	addChange(s, server, false, "scan_start", "Start a leak scan",
		"Asks a person to start a scan of the website of a verified domain for leaked keys and exposed files. It takes up "+
			"to two minutes; findings_list with source scan shows what it found. Five scans can be started in 24 hours.",
		func(ctx context.Context, key *config.Key, in scanStartInput) (change, error) {
			domain, err := s.domainNamed(ctx, key, in.Domain)
			if err != nil {
				return change{}, err
			}
			return change{"/v1/domains/" + url.PathEscape(domain), false, "/v1/scans", in.Note, scanOf(domain)}, nil
		})
}

// scanOf is the id of a domain to be scanned.
type scanOf string

// body has no condition: a scan asks only names whose proof is there when it does.
func (domain scanOf) body(map[string]any) any { return map[string]any{"domain_id": string(domain)} }

// check returns why the domain cannot be scanned.
func (scanOf) check(v map[string]any) error {
	if v["status"] != config.DomainVerified {
		return fmt.Errorf("invalid_state: domain: is %v; a person verifies it in the dashboard, under Domains", v["status"])
	}
	return nil
}

func (scanOf) summary(v map[string]any) string {
	return fmt.Sprintf("Scan the website of %v (%v) for leaked keys and exposed files: GET requests for at most 50 pages "+
		"and 300 other paths, in at most two minutes", v["hostname"], v["id"])
}

// domainNamed returns the id of the domain with that id or host name.
func (s *Server) domainNamed(ctx context.Context, key *config.Key, name string) (string, error) {
	if strings.HasPrefix(name, id.Domain) {
		return name, nil
	}
	v, _, err := s.read(ctx, key, "/v1/domains") // one page has all
	if err != nil {
		return "", err
	}
	all, _ := v["data"].([]any)
	var verified []string
	for _, each := range all {
		d, _ := each.(map[string]any)
		hostname, _ := d["hostname"].(string)
		if strings.EqualFold(hostname, name) {
			return fmt.Sprint(d["id"]), nil
		}
		if d["status"] == config.DomainVerified {
			verified = append(verified, hostname)
		}
	}
	return "", fmt.Errorf("not_found: domain: is none of this account; verified are: %s",
		cleanText(cmp.Or(strings.Join(verified, ", "), "none"), maxText))
}
