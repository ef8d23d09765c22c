package wire

import (
	"github.com/eventrelay/relay/pkg/web"
)

// Scan is one search of a website for leaked keys and exposed files.
type Scan struct {
	ID       string `json:"id" ref:"ScanId"`
	Object   string `json:"object" const:"scan"`
	DomainID string `json:"domain_id" ref:"DomainId" in:"required" pattern:"^dom_[0-9a-z]+$"`
	Hostname string `json:"hostname"`
	Status   string `json:"status" enum:"queued,running,completed,failed"`
	Trigger  string `json:"trigger" enum:"manual,weekly"`
	// At most 50.
	Pages int `json:"pages" minimum:"0"`
	// Other requests: scripts, source maps and probes. At most 300.
	Resources int `json:"resources" minimum:"0"`
	// After decompression.
	Bytes int64 `json:"bytes" minimum:"0"`
	// Findings that were not known before.
	FindingsNew int `json:"findings_new" minimum:"0"`
	// Findings that were known and are still there.
	FindingsSeen int `json:"findings_seen" minimum:"0"`
	// Paths that were skipped. `tripwire`: your own tripwire was found where you placed it.
	Skipped []ScanSkipped `json:"skipped" maxItems:"100"`
	// How many more were skipped.
	SkippedMore int `json:"skipped_more" minimum:"0"`
	// Other hosts whose scripts the pages load. They were not looked at.
	ThirdParty []string `json:"third_party" maxItems:"100"`
	// The website answers 200 to paths that it does not have.
	CatchAll bool `json:"catch_all"`
	// The first budget that ended.
	BudgetExhausted *string `json:"budget_exhausted" enum:"pages,resources,bytes,time"`
	// Why the scan failed.
	Error *string `json:"error" enum:"unreachable,blocked_address,verification_expired,interrupted"`
	// `null` for weekly scans.
	CreatedBy  *string   `json:"created_by"`
	CreatedAt  web.Time  `json:"created_at"`
	StartedAt  web.Time  `json:"started_at" nullable:"true"`
	FinishedAt web.Time  `json:"finished_at" nullable:"true"`
	Warnings   []Warning `json:"warnings,omitempty" ref:"Warnings"`
}

// ScanSkipped is something that a scan has not looked at.
type ScanSkipped struct {
	Path   string `json:"path"`
	Reason string `json:"reason" enum:"budget,depth,query,file_type,redirect,status,refused,too_large,timeout,unreachable,unreadable,not_verified,tripwire"`
}

// SetWarnings adds the warnings about the request to its answer.
func (s *Scan) SetWarnings(all []Warning) { s.Warnings = all }
