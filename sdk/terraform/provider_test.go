package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/terraform-plugin-framework/providerserver"
	"github.com/hashicorp/terraform-plugin-go/tfprotov6"
	"github.com/hashicorp/terraform-plugin-go/tftypes"
)

const apiKey = "rly_live_terraform0123456789abcdef"

// startRelay starts bin/relay dev and returns its address.
func startRelay(t *testing.T) string {
	t.Helper()
	program, err := filepath.Abs("../../bin/relay")
	if _, missing := os.Stat(program); err != nil || missing != nil {
		t.Skip("bin/relay is missing: make build")
	}
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := free.Addr().String()
	_ = free.Close()
	var log bytes.Buffer
	cmd := exec.Command(program, "dev")
	cmd.Stdout, cmd.Stderr = &log, &log
	cmd.Env = append(os.Environ(), "RELAY_LISTEN="+address, "RELAY_BASE_URL=http://"+address,
		"RELAY_ADMIN_LISTEN=127.0.0.1:0", "RELAY_DATA_DIR="+t.TempDir(), "RELAY_BOOTSTRAP_KEY="+apiKey,
		"RELAY_EGRESS_ALLOW=127.0.0.0/8",
		"RELAY_DNS_SERVER=127.0.0.1:9")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Signal(os.Interrupt)
		if _ = cmd.Wait(); t.Failed() {
			t.Logf("the log of the relay:\n%s", log.String())
		}
	})
	for deadline := time.Now().Add(2 * time.Minute); ; time.Sleep(100 * time.Millisecond) {
		resp, err := http.Get("http://" + address + "/readyz")
		if err == nil {
			_ = resp.Body.Close()
			if resp.StatusCode == http.StatusOK {
				return "http://" + address
			}
		}
		if time.Now().After(deadline) {
			t.Fatalf("the relay is not ready:\n%s", log.String())
		}
	}
}

// core does what Terraform does with a provider, and checks what Terraform checks.
type core struct {
	t       *testing.T
	server  tfprotov6.ProviderServer
	schemas map[string]*tfprotov6.Schema
}

func newCore(t *testing.T, baseURL string) *core {
	server, err := providerserver.NewProtocol6WithError(newProvider())()
	if err != nil {
		t.Fatal(err)
	}
	c := &core{t: t, server: server}
	got, err := server.GetProviderSchema(t.Context(), &tfprotov6.GetProviderSchemaRequest{})
	c.ok(got.Diagnostics, err)
	c.schemas = got.ResourceSchemas
	config := c.dynamic(got.Provider.ValueType(), object{"base_url": baseURL, "api_key": apiKey})
	configured, err := server.ConfigureProvider(t.Context(), &tfprotov6.ConfigureProviderRequest{Config: config})
	c.ok(configured.Diagnostics, err)
	return c
}

func said(all []*tfprotov6.Diagnostic) string {
	var text strings.Builder
	for _, d := range all {
		fmt.Fprintf(&text, "%s: %s %s; ", d.Attribute, d.Summary, d.Detail)
	}
	return text.String()
}

func (c *core) ok(all []*tfprotov6.Diagnostic, err error) {
	c.t.Helper()
	if err != nil || len(all) > 0 {
		c.t.Fatalf("%v %s", err, said(all))
	}
}

// value makes a value of JSON; what is missing is null.
func (c *core) value(kind tftypes.Type, x any) tftypes.Value {
	c.t.Helper()
	switch kind := kind.(type) {
	case tftypes.Object:
		if x == nil {
			return tftypes.NewValue(kind, nil)
		}
		members := map[string]tftypes.Value{}
		for name := range x.(object) {
			if kind.AttributeTypes[name] == nil {
				c.t.Fatalf("there is no attribute %s", name)
			}
		}
		for name, of := range kind.AttributeTypes {
			members[name] = c.value(of, x.(object)[name])
		}
		return tftypes.NewValue(kind, members)
	case tftypes.List:
		if x == nil {
			return tftypes.NewValue(kind, nil)
		}
		elements := []tftypes.Value{}
		for _, element := range x.([]any) {
			elements = append(elements, c.value(kind.ElementType, element))
		}
		return tftypes.NewValue(kind, elements)
	case tftypes.Map:
		if x == nil {
			return tftypes.NewValue(kind, nil)
		}
		members := map[string]tftypes.Value{}
		for name, element := range x.(object) {
			members[name] = c.value(kind.ElementType, element)
		}
		return tftypes.NewValue(kind, members)
	}
	return tftypes.NewValue(kind, x)
}

func (c *core) dynamic(kind tftypes.Type, x any) *tfprotov6.DynamicValue {
	c.t.Helper()
	v, isValue := x.(tftypes.Value)
	if !isValue {
		v = c.value(kind, x)
	}
	out, err := tfprotov6.NewDynamicValue(kind, v)
	if err != nil {
		c.t.Fatal(err)
	}
	return &out
}

func (c *core) read(kind tftypes.Type, x *tfprotov6.DynamicValue) tftypes.Value {
	c.t.Helper()
	v, err := x.Unmarshal(kind)
	if err != nil {
		c.t.Fatal(err)
	}
	return v
}

// proposed is the configuration, with the state where the configuration says nothing and the service may.
func proposed(of []*tfprotov6.SchemaAttribute, config, state tftypes.Value) tftypes.Value {
	if !isSet(config) || !isSet(state) {
		return config
	}
	var all map[string]tftypes.Value
	_ = config.As(&all)
	out := maps.Clone(all)
	for _, a := range of {
		switch now := member(state, a.Name, a.ValueType()); {
		case a.Computed && all[a.Name].IsNull():
			out[a.Name] = now
		case a.NestedType != nil:
			out[a.Name] = proposed(a.NestedType.Attributes, all[a.Name], now)
		}
	}
	return tftypes.NewValue(config.Type(), out)
}

// managedResource is a resource in the state.
type managedResource struct {
	*core
	name  string
	kind  tftypes.Type
	state tftypes.Value
}

func (c *core) resource(name string) *managedResource {
	kind := c.schemas[name].ValueType()
	return &managedResource{c, name, kind, tftypes.NewValue(kind, nil)}
}

// plan returns the planned state, and the attributes that replace the resource.
func (r *managedResource) plan(config tftypes.Value) (tftypes.Value, []string) {
	r.t.Helper()
	next := proposed(r.schemas[r.name].Block.Attributes, config, r.state)
	if config.IsNull() {
		next = config
	} else if r.state.IsNull() {
		next = config
	}
	planned, err := r.server.PlanResourceChange(r.t.Context(), &tfprotov6.PlanResourceChangeRequest{TypeName: r.name,
		PriorState: r.dynamic(r.kind, r.state), ProposedNewState: r.dynamic(r.kind, next), Config: r.dynamic(r.kind, config)})
	r.ok(planned.Diagnostics, err)
	var replaced []string
	for _, p := range planned.RequiresReplace {
		replaced = append(replaced, p.String())
	}
	return r.read(r.kind, planned.PlannedState), replaced
}

// try applies a configuration and returns what the provider says.
func (r *managedResource) try(config any) string {
	r.t.Helper()
	want := r.value(r.kind, config)
	if config != nil {
		valid, err := r.server.ValidateResourceConfig(r.t.Context(), &tfprotov6.ValidateResourceConfigRequest{
			TypeName: r.name, Config: r.dynamic(r.kind, want)})
		r.ok(valid.Diagnostics, err)
	}
	planned, _ := r.plan(want)
	applied, err := r.server.ApplyResourceChange(r.t.Context(), &tfprotov6.ApplyResourceChangeRequest{TypeName: r.name,
		PriorState: r.dynamic(r.kind, r.state), PlannedState: r.dynamic(r.kind, planned), Config: r.dynamic(r.kind, want)})
	if err != nil {
		r.t.Fatal(err)
	}
	if len(applied.Diagnostics) > 0 {
		return said(applied.Diagnostics)
	}
	got := r.read(r.kind, applied.NewState)
	if diffs, err := planned.Diff(got); err != nil {
		r.t.Fatal(err)
	} else {
		for _, d := range diffs {
			if d.Value1 != nil && d.Value1.IsFullyKnown() && d.Value2 != nil {
				r.t.Errorf("%s: planned %s, applied %s", d.Path, d.Value1, d.Value2)
			}
		}
	}
	if !got.IsFullyKnown() {
		r.t.Errorf("after an apply something is unknown: %s", got)
	}
	r.state = got
	return ""
}

// apply applies a configuration, after which the service says the same and nothing is left to do.
func (r *managedResource) apply(config any) {
	r.t.Helper()
	if message := r.try(config); message != "" {
		r.t.Fatal(message)
	}
	if config == nil {
		return
	}
	r.refresh()
	if planned, replaced := r.plan(r.value(r.kind, config)); !planned.Equal(r.state) || len(replaced) > 0 {
		diffs, _ := r.state.Diff(planned)
		r.t.Errorf("%s: the plan is not empty after an apply: %v %v", r.name, diffs, replaced)
	}
}

// refresh reads the resource; it is gone if the state is null then.
func (r *managedResource) refresh() {
	r.t.Helper()
	got, err := r.server.ReadResource(r.t.Context(), &tfprotov6.ReadResourceRequest{TypeName: r.name,
		CurrentState: r.dynamic(r.kind, r.state)})
	r.ok(got.Diagnostics, err)
	r.state = r.read(r.kind, got.NewState)
}

func (r *managedResource) text(names ...string) string {
	v := r.state
	for _, name := range names[:len(names)-1] {
		v = member(v, name, tftypes.DynamicPseudoType)
	}
	return textOf(v, names[len(names)-1])
}

// imported is the resource as an import finds it.
func (r *managedResource) imported(id string) *managedResource {
	r.t.Helper()
	got, err := r.server.ImportResourceState(r.t.Context(), &tfprotov6.ImportResourceStateRequest{
		TypeName: r.name, ID: id})
	r.ok(got.Diagnostics, err)
	x := &managedResource{r.core, r.name, r.kind, r.read(r.kind, got.ImportedResources[0].State)}
	x.refresh()
	return x
}

// Every resource is created with little and with much, changed, read, imported and deleted.
func TestResources(t *testing.T) {
	c := newCore(t, startRelay(t))
	hook := object{"url": "https://shop.example.com/hooks"}

	ep := c.resource("eventrelay_endpoint")
	ep.apply(object{"destination": hook})
	if !strings.HasPrefix(ep.text("id"), "ep_") || !strings.Contains(ep.text("ingest_url"), "/") {
		t.Errorf("%s", ep.state)
	}
	id, destination := ep.text("id"), ep.text("destination", "id")
	much := object{"name": "orders", "description": "Orders of the shop", "validate": "warn",
		"retry_policy": object{"strategy": "schedule", "schedule_seconds": []any{5, 60}},
		"metadata":     object{"team": "shop"}, "alerts": object{"enabled": false},
		"dedup": object{"key": "header:X-Id", "window_seconds": 60}, "ingest_limit": object{"events_per_second": 50},
		"transformation": `{"ops":[{"op":"drop","paths":["/data/internal"]}]}`,
		"destination": object{"url": "https://shop.example.com/other", "headers": object{"X-Key": "abcdefghijkl"},
			"max_in_flight": 5, "rate_limit": object{"per_second": 2.5},
			"filter": object{"types": []any{"order.*"}},
			"auth":   object{"type": "basic", "username": "relay", "password": "a secret of letters"}}}
	ep.apply(much)
	if ep.text("id") != id || ep.text("destination", "id") != destination {
		t.Errorf("was replaced: %s", ep.state)
	}
	again := ep.imported(id)
	again.apply(much)
	ep.apply(object{"name": "orders", "destination": hook})
	if v := member(ep.state, "description", tftypes.String); !v.IsNull() {
		t.Errorf("a description that is left out stays: %s", v)
	}
	pushes := c.resource("eventrelay_endpoint")
	signed := object{"webhook_provider": "github", "verification": object{"secret": "a secret of twenty letters"},
		"destination": hook}
	pushes.apply(signed)
	pushes.imported(pushes.text("id")).apply(signed)
	signed["verification"] = object{"secrets": []any{"another secret of letters", "a secret of twenty letters"}}
	pushes.apply(signed)
	pushes.apply(nil)
	other := ep.value(ep.kind, object{"destination": hook, "webhook_provider": "github"})
	if _, replaced := ep.plan(other); len(replaced) != 1 {
		t.Errorf("another provider replaces %v", replaced)
	}
	message := ep.try(object{"name": "orders", "destination": object{"url": "ftp://x"}})
	if !strings.Contains(message, "url") {
		t.Errorf("a wrong URL: %s", message)
	}

	misspelled := c.dynamic(ep.kind, object{"validate": "wran", "destination": hook})
	refused, err := c.server.ValidateResourceConfig(t.Context(), &tfprotov6.ValidateResourceConfigRequest{
		TypeName: ep.name, Config: misspelled})
	if err != nil || !strings.Contains(said(refused.Diagnostics), "validate") {
		t.Errorf("a misspelled value passes the plan: %v %v", err, refused)
	}

	more := c.resource("eventrelay_destination")
	sqs := object{"endpoint_id": id, "name": "queue", "sqs": object{
		"queue_url": "https://sqs.eu-west-1.amazonaws.com/123456789012/orders", "access_key_id": "AKIAEXAMPLE",
		"secret_access_key": "0123456789012345678901234567890123456789"}}
	more.apply(sqs)
	sqs["enabled"] = false
	more.apply(sqs)
	more.imported(id + "/" + more.text("id")).apply(sqs)
	ep.apply(object{"name": "orders", "destination": hook}) // knows only its own
	gone := more.text("id")
	more.apply(nil)
	deleted := &managedResource{c, more.name, more.kind, more.value(more.kind, object{"endpoint_id": id, "id": gone})}
	if deleted.refresh(); !deleted.state.IsNull() {
		t.Errorf("a deleted destination is %s", deleted.state)
	}

	tenant := c.resource("eventrelay_tenant")
	tenant.apply(object{"tenant": "acme"})
	tenant.apply(object{"tenant": "acme", "name": "Acme Ltd", "limits": object{"endpoints": 5}, "allowance_events": 1000,
		"portal": object{"title": "Webhooks"}})
	tenant.imported("acme").apply(object{"tenant": "acme", "name": "Acme Ltd", "allowance_events": 1000})
	key := c.resource("eventrelay_tenant_key")
	backend := object{"tenant": "acme", "name": "backend", "scope": "read_write"}
	key.apply(backend)
	if !strings.HasPrefix(key.text("key"), "rly_") {
		t.Errorf("no key: %s", key.state)
	}
	another := key.value(key.kind, object{"tenant": "acme", "name": "other", "scope": "read"})
	if _, replaced := key.plan(another); len(replaced) != 2 {
		t.Errorf("another name and scope replace %v", replaced)
	}
	revoked := *key
	key.apply(nil)
	if revoked.refresh(); !revoked.state.IsNull() {
		t.Errorf("a revoked key is %s", revoked.state)
	}
	tenant.apply(nil)

	kind := c.resource("eventrelay_event_type")
	kind.apply(object{"name": "order.paid"})
	kind.apply(object{"name": "order.paid", "description": "An order was paid.", "group": "Orders",
		"schema": `{ "type": "object", "required": ["total"] }`, "example": `{"total": 1}`})
	kind.imported("order.paid").apply(object{"name": "order.paid", "group": "Orders"})
	kind.apply(nil)

	drain := c.resource("eventrelay_drain")
	drain.apply(object{})
	drain.apply(object{"name": "production", "platform": "vercel", "signing_secret": "a-secret-of-letters"})
	if !strings.HasPrefix(drain.text("url"), "http") {
		t.Errorf("no url: %s", drain.state)
	}
	drain.imported(drain.text("id")).apply(object{"name": "production", "platform": "vercel"})
	drain.apply(nil)

	alerts := c.resource("eventrelay_alert_settings")
	alerts.apply(object{})
	alerts.apply(object{"cooldown_seconds": 60, "rules": object{"usage": object{"enabled": true, "percent": []any{50}}},
		"channels": object{"slack": object{"webhook_url": "https://hooks.slack.com/services/abcdefgh"},
			"email": object{"to": []any{"ops@example.com"}}}})
	alerts.imported("account").apply(object{"cooldown_seconds": 60})
	alerts.apply(nil)
	ep.apply(nil)
}

// The example of the README is applied, planned again and destroyed with OpenTofu or Terraform, which find the provider
// where the README installs it: the archive RELAY_TEST_PROVIDER of a release, or else one of this source.
func TestExample(t *testing.T) {
	tool, packed := "", os.Getenv("RELAY_TEST_PROVIDER")
	for _, name := range []string{os.Getenv("RELAY_TEST_TOFU"), "tofu", "terraform"} {
		if found, err := exec.LookPath(name); err == nil && tool == "" {
			tool = found
		}
	}
	if tool == "" {
		if packed != "" {
			t.Fatal("the check of a release needs OpenTofu or Terraform")
		}
		t.Skip("neither OpenTofu nor Terraform is installed")
	}
	dir, baseURL := t.TempDir(), startRelay(t)
	run := func(args ...string) string {
		t.Helper()
		cmd := exec.Command(tool, args...)
		cmd.Dir = dir
		cmd.Env = append(os.Environ(), "RELAY_BASE_URL="+baseURL, "RELAY_API_KEY="+apiKey, "HOME="+dir,
			"TF_CLI_CONFIG_FILE=", "CHECKPOINT_DISABLE=1")
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%s %v: %v\n%s", tool, args, err, out)
		}
		return string(out)
	}
	host, version := "registry.terraform.io", "0.0.1"
	if strings.Contains(filepath.Base(tool), "tofu") {
		host = "registry.opentofu.org"
	}
	mirror := filepath.Join(dir, ".terraform.d/plugins", host, "eventrelay/eventrelay")
	if packed != "" {
		version = strings.Split(filepath.Base(packed), "_")[1]
		if err := errors.Join(os.MkdirAll(mirror, 0o700),
			os.Symlink(packed, filepath.Join(mirror, filepath.Base(packed)))); err != nil {
			t.Fatal(err)
		}
	} else {
		program := filepath.Join(mirror, version, runtime.GOOS+"_"+runtime.GOARCH, "terraform-provider-eventrelay")
		if out, err := exec.Command("go", "build", "-o", program, ".").CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
	}
	example, err := os.ReadFile("examples/main.tf")
	if err != nil {
		t.Fatal(err)
	}
	const source = `source = "eventrelay/eventrelay"`
	pinned := strings.Replace(string(example), source, source+"\nversion = \""+version+"\"", 1)
	if err := os.WriteFile(filepath.Join(dir, "main.tf"), []byte(pinned), 0o600); err != nil {
		t.Fatal(err)
	}
	run("init", "-no-color")
	run("apply", "-auto-approve", "-no-color")
	if out := run("plan", "-no-color"); !strings.Contains(out, "No changes") {
		t.Errorf("after an apply:\n%s", out)
	}
	var outputs map[string]struct{ Value string }
	if err := json.Unmarshal([]byte(run("output", "-json")), &outputs); err != nil ||
		!strings.HasPrefix(outputs["ingest_url"].Value, baseURL) {
		t.Errorf("%v, %v", err, outputs)
	}
	run("destroy", "-auto-approve", "-no-color")
}

// Plans do not show headers, which often have a credential.
func TestHeadersAreSensitive(t *testing.T) {
	found := 0
	for _, a := range bodies["destination"] {
		if a.Name == "headers" {
			if found++; !a.schema().IsSensitive() {
				t.Error("plans show the headers of a destination")
			}
		}
	}
	if found != 1 {
		t.Errorf("%d members are headers", found)
	}
}
