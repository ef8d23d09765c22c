package helm

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	monitoring "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	"github.com/santhosh-tekuri/jsonschema/v6"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/openapi/openapitest"
	gateway "sigs.k8s.io/gateway-api/apis/v1"
	sigyaml "sigs.k8s.io/yaml"
)

// Documents that no package of their modules embeds. kyaml has version 1.21, in which these two groups were already as
// they are now but for members that the strict decoding knows.
const (
	autoscaling = "k8s.io/kubectl/testdata/openapi/v3/apis/autoscaling/v2.json"
	others      = "sigs.k8s.io/kustomize/kyaml/openapi/kubernetesapi/data/" +
		"kubernetes-openapi-union-v1.21.2.bundle-v1.json.gz"
)

// openAPI has the schemas of Kubernetes by group and version.
type openAPI struct {
	compiler *jsonschema.Compiler
	where    map[string]string // prefix of the schemas by group and version
}

func newOpenAPI(t *testing.T) openAPI {
	t.Helper()
	api := openAPI{jsonschema.NewCompiler(), map[string]string{}}
	embedded, err := openapitest.NewEmbeddedFileClient().Paths()
	if err != nil {
		t.Fatal(err)
	}
	for version, path := range map[string]string{"v1": "api/v1", "apps/v1": "apis/apps/v1", "batch/v1": "apis/batch/v1"} {
		text, err := embedded[path].Schema("application/json")
		if err != nil {
			t.Fatal(err)
		}
		api.add(t, version, text, "components/schemas")
	}
	api.add(t, "autoscaling/v2", moduleFile(t, autoscaling), "components/schemas")
	unpacked, err := gzip.NewReader(bytes.NewReader(moduleFile(t, others)))
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(unpacked)
	if err != nil {
		t.Fatal(err)
	}
	api.add(t, "networking.k8s.io/v1", text, "definitions")
	api.where["policy/v1"] = api.where["networking.k8s.io/v1"]
	return api
}

// moduleFile reads a file of a module. No package of the tests is in these modules: a fresh machine fetches them here.
func moduleFile(t *testing.T, path string) []byte {
	t.Helper()
	for _, module := range []string{"k8s.io/kubectl", "sigs.k8s.io/kustomize/kyaml"} {
		rest, ok := strings.CutPrefix(path, module+"/")
		if !ok {
			continue
		}
		out, err := exec.CommandContext(t.Context(), "go", "mod", "download", "-json", module).Output()
		if err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		var fetched struct{ Dir string }
		if err := json.Unmarshal(out, &fetched); err != nil {
			t.Fatal(err)
		}
		text, err := os.ReadFile(filepath.Join(fetched.Dir, rest))
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	t.Fatalf("%s is in no module that this test knows", path)
	return nil
}

func (api openAPI) add(t *testing.T, version string, text []byte, schemas string) {
	t.Helper()
	document, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	if definitions, ok := document.(map[string]any)["definitions"].(map[string]any); ok {
		// OpenAPI 2 has no word for "a number or a text" and calls these texts; Kubernetes takes both.
		for _, name := range []string{"util.intstr.IntOrString", "api.resource.Quantity"} {
			definition := definitions["io.k8s.apimachinery.pkg."+name].(map[string]any)
			definition["type"] = []any{"number", "string"}
		}
	}
	url := "kubernetes:" + version
	if err := api.compiler.AddResource(url, document); err != nil {
		t.Fatal(err)
	}
	api.where[version] = url + "#/" + schemas + "/io.k8s.api."
}

// check validates one object. ok is false for a kind that Kubernetes does not have.
func (api openAPI) check(t *testing.T, kind schema.GroupVersionKind, text []byte) (ok bool, err error) {
	t.Helper()
	where, ok := api.where[kind.GroupVersion().String()]
	if !ok {
		return false, nil
	}
	group, _, _ := strings.Cut(kind.Group, ".")
	if group == "" {
		group = "core"
	}
	compiled, err := api.compiler.Compile(where + group + "." + kind.Version + "." + kind.Kind)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := sigyaml.YAMLToJSON(text)
	if err != nil {
		t.Fatal(err)
	}
	content, err := jsonschema.UnmarshalJSON(bytes.NewReader(raw))
	if err != nil {
		t.Fatal(err)
	}
	return true, compiled.Validate(content)
}

// Every object is what Kubernetes' own OpenAPI documents say; render has decoded it strictly before.
func TestObjectsAgreeWithKubernetes(t *testing.T) {
	api := newOpenAPI(t)
	kinds := map[string]int{}
	for _, set := range sets {
		for _, o := range render(t, set) {
			kinds[o.kind.Kind]++
			known, err := api.check(t, o.kind, o.text)
			if err != nil {
				t.Errorf("%s: %s: %v\n%s", set, o.template, err, o.text)
			}
			foreign := o.kind.Group == monitoring.SchemeGroupVersion.Group || o.kind.Group == gateway.GroupName
			if known == foreign {
				t.Errorf("%s: %s: is %s a kind of Kubernetes? %v", set, o.template, o.kind, known)
			}
		}
	}
	for _, kind := range []string{"StatefulSet", "Deployment", "Job", "Service", "ServiceAccount", "PodDisruptionBudget",
		"HorizontalPodAutoscaler", "NetworkPolicy", "Ingress", "HTTPRoute", "PodMonitor", "PrometheusRule", "Pod"} {
		if kinds[kind] == 0 {
			t.Errorf("no set of values makes a %s", kind)
		}
	}
}

// The schemas refuse what Kubernetes refuses: without this a document that says nothing would pass everything.
func TestOpenAPIRefuses(t *testing.T) {
	api := newOpenAPI(t)
	for _, wrong := range []string{
		"apiVersion: apps/v1\nkind: Deployment\nspec: {replicas: two, selector: {}, template: {}}",
		"apiVersion: apps/v1\nkind: StatefulSet\nspec: {template: {}}",
		"apiVersion: v1\nkind: Service\nspec: {ports: [{name: http}]}",
		"apiVersion: batch/v1\nkind: Job\nspec: {backoffLimit: many, template: {}}",
		"apiVersion: autoscaling/v2\nkind: HorizontalPodAutoscaler\nspec: {maxReplicas: 3}",
		"apiVersion: networking.k8s.io/v1\nkind: NetworkPolicy\nspec: {podSelector: {}, egress: [{to: [{ipBlock: {}}]}]}",
		"apiVersion: networking.k8s.io/v1\nkind: Ingress\nspec: {rules: [{http: {paths: [{path: /}]}}]}",
		"apiVersion: policy/v1\nkind: PodDisruptionBudget\nspec: {maxUnavailable: [1]}",
	} {
		var head struct{ APIVersion, Kind string }
		if err := sigyaml.Unmarshal([]byte(wrong), &head); err != nil {
			t.Fatal(err)
		}
		kind := schema.FromAPIVersionAndKind(head.APIVersion, head.Kind)
		if known, err := api.check(t, kind, []byte(wrong)); !known || err == nil {
			t.Errorf("accepted:\n%s", wrong)
		}
	}
}
