module github.com/eventrelay/relay/sdk/go

go 1.25.0
