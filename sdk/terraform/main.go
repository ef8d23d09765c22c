// Command terraform-provider-eventrelay manages endpoints, destinations, tenants, their keys, event types, log drains
// and the settings of alerts as code, with Terraform or OpenTofu.
//
// The attributes of the resources are the members of the API's requests. attributes.json has them; a test of the relay
// compares it with the OpenAPI document. What the API does with a member is written there, and nowhere here.
package main

import (
	"context"
	"flag"
	"log"

	"github.com/hashicorp/terraform-plugin-framework/providerserver"
)

// address is that of the provider in a registry.
const address = "registry.terraform.io/eventrelay/eventrelay"

func main() {
	debug := flag.Bool("debug", false, "run until stopped, for a debugger")
	flag.Parse()
	options := providerserver.ServeOpts{Address: address, Debug: *debug}
	err := providerserver.Serve(context.Background(), newProvider, options)
	if err != nil {
		log.Fatal(err)
	}
}
