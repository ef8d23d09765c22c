// Package helm lints and renders the chart in deploy/chart with Helm's own module, and holds what comes out against the
// types and the OpenAPI documents of Kubernetes. It is a module of its own: the relay needs no library of Kubernetes.
package helm

import (
	"bytes"
	"errors"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	monitoring "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	"helm.sh/helm/v4/pkg/chart/common"
	"helm.sh/helm/v4/pkg/chart/common/util"
	chartv2 "helm.sh/helm/v4/pkg/chart/v2"
	"helm.sh/helm/v4/pkg/chart/v2/loader"
	"helm.sh/helm/v4/pkg/engine"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer/json"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/kubernetes/scheme"
	gateway "sigs.k8s.io/gateway-api/apis/v1"
	sigyaml "sigs.k8s.io/yaml"
)

const chartDir = "../../deploy/chart/eventrelay"

// sets are the values that the chart is rendered with, by the name of their file.
var sets = []string{"small", "default", "large"}

// object is one rendered object of Kubernetes.
type object struct {
	template string
	text     []byte
	kind     schema.GroupVersionKind
	runtime.Object
	metav1.ObjectMeta
}

// values returns the values of a file in examples, with changes to them.
func values(t *testing.T, set string, changes ...map[string]any) map[string]any {
	t.Helper()
	all := map[string]any{}
	text, err := os.ReadFile(filepath.Join(chartDir, "examples", set+".yaml"))
	if err != nil {
		t.Fatal(err)
	}
	if err := sigyaml.Unmarshal(text, &all); err != nil {
		t.Fatal(err)
	}
	for _, change := range changes {
		all = loader.MergeMaps(all, change)
	}
	return all
}

func load(t *testing.T, path string) *chartv2.Chart {
	t.Helper()
	chart, err := loader.Load(path)
	if err != nil {
		t.Fatal(err)
	}
	return chart
}

// templates renders the chart as helm template does.
func templates(chart *chartv2.Chart, release string, given map[string]any) (map[string]string, error) {
	options := common.ReleaseOptions{Name: release, Namespace: "relay", Revision: 1, IsInstall: true}
	prepared, err := util.ToRenderValues(chart, given, options, nil)
	if err != nil {
		return nil, err
	}
	return engine.Engine{Strict: true}.Render(chart, prepared)
}

// decoder knows every kind that the chart makes, and refuses unknown and repeated members.
func decoder(t *testing.T) runtime.Decoder {
	t.Helper()
	known := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{scheme.AddToScheme, monitoring.AddToScheme, gateway.Install} {
		if err := add(known); err != nil {
			t.Fatal(err)
		}
	}
	strict := json.SerializerOptions{Yaml: true, Strict: true}
	return json.NewSerializerWithOptions(json.DefaultMetaFactory, known, known, strict)
}

// render returns the objects that the chart makes of the values.
func render(t *testing.T, set string, changes ...map[string]any) []object {
	t.Helper()
	return renderAs(t, "prod", set, changes...)
}

func renderAs(t *testing.T, release, set string, changes ...map[string]any) (all []object) {
	t.Helper()
	rendered, err := templates(load(t, chartDir), release, values(t, set, changes...))
	if err != nil {
		t.Fatalf("%s: %v", set, err)
	}
	if all = decode(t, set, rendered); len(all) < 5 {
		t.Fatalf("%s: %d objects", set, len(all))
	}
	return all
}

// decode returns the objects in rendered templates.
func decode(t *testing.T, set string, rendered map[string]string) (all []object) {
	t.Helper()
	strict := decoder(t)
	for _, name := range slices.Sorted(maps.Keys(rendered)) {
		if filepath.Ext(name) != ".yaml" {
			continue
		}
		documents := yaml.NewDocumentDecoder(io.NopCloser(strings.NewReader(rendered[name])))
		for text := range split(t, documents) {
			o := object{template: name, text: text}
			decoded, kind, err := strict.Decode(text, nil, nil)
			if err != nil {
				t.Errorf("%s: %s: %v\n%s", set, name, err, text)
				continue
			}
			o.Object, o.kind = decoded, *kind
			if o.ObjectMeta, err = metaOf(decoded); err != nil {
				t.Fatal(err)
			}
			all = append(all, o)
		}
	}
	return all
}

// split yields the documents that are more than comments.
func split(t *testing.T, r io.ReadCloser) func(func([]byte) bool) {
	return func(yield func([]byte) bool) {
		buffer := make([]byte, 1<<20)
		for {
			n, err := r.Read(buffer)
			if errors.Is(err, io.EOF) {
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			var content any
			text := bytes.Clone(buffer[:n])
			if err := sigyaml.Unmarshal(text, &content); err != nil {
				t.Fatalf("%v\n%s", err, text)
			}
			if content != nil && !yield(text) {
				return
			}
		}
	}
}

func metaOf(o runtime.Object) (metav1.ObjectMeta, error) {
	var meta struct {
		metav1.ObjectMeta `json:"metadata"`
	}
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(o)
	if err == nil {
		err = runtime.DefaultUnstructuredConverter.FromUnstructured(content, &meta)
	}
	return meta.ObjectMeta, err
}

// pod is the template of a workload's pods.
type pod struct {
	name, kind string
	meta       metav1.ObjectMeta
	spec       corev1.PodSpec
	replicas   *int32
}

func pods(all []object) (found []pod) {
	for _, o := range all {
		p := pod{name: o.Name, kind: o.kind.Kind}
		switch o := o.Object.(type) {
		case *appsv1.StatefulSet:
			p.meta, p.spec, p.replicas = o.Spec.Template.ObjectMeta, o.Spec.Template.Spec, o.Spec.Replicas
		case *appsv1.Deployment:
			p.meta, p.spec, p.replicas = o.Spec.Template.ObjectMeta, o.Spec.Template.Spec, o.Spec.Replicas
		case *batchv1.Job:
			p.meta, p.spec = o.Spec.Template.ObjectMeta, o.Spec.Template.Spec
		case *corev1.Pod:
			p.meta, p.spec = o.ObjectMeta, o.Spec
		default:
			continue
		}
		found = append(found, p)
	}
	return found
}

// nodes are the pods that run relay serve.
func nodes(all []object) []pod {
	return slices.DeleteFunc(pods(all), func(p pod) bool { return p.spec.Containers[0].Args[0] != "serve" })
}

// variables are those of the pod's container: their values, or where they come from.
func (p pod) variables() map[string]string {
	all := map[string]string{}
	for _, v := range p.spec.Containers[0].Env {
		all[v.Name] = v.Value
		if from := v.ValueFrom; from != nil && from.FieldRef != nil {
			all[v.Name] = "field " + from.FieldRef.FieldPath
		} else if from != nil && from.SecretKeyRef != nil {
			all[v.Name] = "secret " + from.SecretKeyRef.Name + " " + from.SecretKeyRef.Key
		}
	}
	return all
}

// find returns the object of a kind with this name.
func find[T runtime.Object](t *testing.T, all []object, name string) (found T) {
	t.Helper()
	for _, o := range all {
		if typed, ok := o.Object.(T); ok && o.Name == name {
			return typed
		}
	}
	t.Fatalf("no %T %s", found, name)
	return found
}
