module github.com/eventrelay/relay/deploy/release

go 1.26

require (
	github.com/CycloneDX/cyclonedx-go v0.12.0
	github.com/google/licensecheck v0.3.1
)
