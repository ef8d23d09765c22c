package helm

import (
	"fmt"
	"maps"
	"net"
	"os"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"helm.sh/helm/v4/pkg/chart/common"
	"helm.sh/helm/v4/pkg/chart/common/util"
	"helm.sh/helm/v4/pkg/chart/v2/lint"
	"helm.sh/helm/v4/pkg/chart/v2/lint/support"
	"helm.sh/helm/v4/pkg/engine"
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/fake"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/pod-security-admission/api"
	"k8s.io/pod-security-admission/policy"
	gateway "sigs.k8s.io/gateway-api/apis/v1"
)

func TestLint(t *testing.T) {
	for _, set := range sets {
		for _, m := range lint.RunAll(chartDir, values(t, set), "relay").Messages {
			if m.Severity >= support.WarningSev {
				t.Errorf("%s: %v", set, m)
			}
		}
	}
}

// known are the environment variables of nodeconfig.Config, those of the Go runtime that the program leaves alone, and
// whether each is a secret.
func known(t *testing.T) map[string]bool {
	t.Helper()
	text, err := os.ReadFile("../../pkg/nodeconfig/nodeconfig.go")
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]bool{"GOMEMLIMIT": false}
	for _, tag := range regexp.MustCompile("`.*\\bflag:\"([a-z-]+)\".*`").FindAllStringSubmatch(string(text), -1) {
		all["RELAY_"+strings.ToUpper(strings.ReplaceAll(tag[1], "-", "_"))] = strings.Contains(tag[0], `secret:"yes"`)
	}
	if len(all) < 40 {
		t.Fatalf("%d settings: this test looks for the wrong text", len(all))
	}
	return all
}

// Each variable is a setting of the program, once. A secret is a reference to a Secret or to a file of a mount.
func TestVariablesAreSettings(t *testing.T) {
	settings := known(t)
	for _, set := range sets {
		for _, as := range []string{"files", "environment"} {
			for _, p := range pods(render(t, set, at("secrets.as", as), at("goMemoryLimit", "800MiB"))) {
				for name, value := range p.variables() {
					plain := strings.TrimSuffix(name, "_FILE")
					_, isSetting := settings[name]
					switch {
					case settings[plain] && plain != name && strings.HasPrefix(value, "/"):
						checkMounted(t, p, value)
					case isSetting && settings[name] != strings.HasPrefix(value, "secret "):
						t.Errorf("%s: %s has %s=%q", set, p.name, name, value)
					case !isSetting:
						t.Errorf("%s: %s sets %s, which the program does not know", set, p.name, name)
					case strings.HasSuffix(name, "_FILE"):
						checkMounted(t, p, value)
					}
				}
				if n := len(p.spec.Containers[0].Env); n != len(p.variables()) {
					t.Errorf("%s: %s sets a variable twice: %v", set, p.name, p.spec.Containers[0].Env)
				}
			}
		}
	}
}

// checkMounted looks for a file among the mounts of the pod, and for the item of the volume that has its name.
func checkMounted(t *testing.T, p pod, file string) {
	t.Helper()
	if p.meta.Labels["app.kubernetes.io/component"] == "test" {
		return // relay ready does not open it
	}
	mounts := p.spec.Containers[0].VolumeMounts
	mount := slices.IndexFunc(mounts, func(m corev1.VolumeMount) bool { return m.MountPath == path.Dir(file) })
	if mount < 0 {
		t.Errorf("%s: nothing is mounted where %s is", p.name, file)
		return
	}
	name := mounts[mount].Name
	for _, v := range p.spec.Volumes {
		var items []corev1.KeyToPath
		switch {
		case v.Name != name:
			continue
		case v.Secret != nil:
			items = v.Secret.Items
		case v.ConfigMap != nil:
			items = v.ConfigMap.Items
		}
		has := func(i corev1.KeyToPath) bool { return i.Path == path.Base(file) }
		if isPair := strings.HasPrefix(path.Base(file), "tls."); !slices.ContainsFunc(items, has) && !isPair {
			t.Errorf("%s: volume %s has no file %s: %v", p.name, name, file, items)
		}
		return
	}
	t.Errorf("%s mounts %s, which is no volume", p.name, name)
}

// A node has what its roles need, and what the program refuses to start without.
func TestNodes(t *testing.T) {
	want := map[string][]string{
		"small": {"ingest,dispatch,write,api"}, "default": {"api", "dispatch", "ingest", "write"},
		"large": {"api", "dispatch", "ingest", "write"},
	}
	for _, set := range sets {
		var roles []string
		for _, p := range nodes(render(t, set)) {
			v := p.variables()
			roles = append(roles, v["RELAY_ROLES"])
			isMember := strings.Contains(v["RELAY_ROLES"], "dispatch") || strings.Contains(v["RELAY_ROLES"], "write")
			if isMember != (p.kind == "StatefulSet") {
				t.Errorf("%s: %s with the roles %s is a %s: static members of consumer groups keep their names", set, p.name,
					v["RELAY_ROLES"], p.kind)
			}
			if v["RELAY_NODE_NAME"] != "field metadata.name" {
				t.Errorf("%s: the name of a node of %s is %q, want that of its pod", set, p.name, v["RELAY_NODE_NAME"])
			}
			// sun_path holds 104 bytes on BSD with a terminating zero.
			if socket := v["RELAY_DATA_DIR"] + "/relay.sock"; len(socket) > 103 {
				t.Errorf("%s: the path of the command socket has %d bytes: %s", set, len(socket), socket)
			}
			checkWritable(t, p, v["RELAY_DATA_DIR"])
			checkPorts(t, p, v)
			checkStop(t, p, v)
			checkSpread(t, p)
		}
		if slices.Sort(roles); !slices.Equal(roles, want[set]) {
			t.Errorf("%s: roles %q, want %q", set, roles, want[set])
		}
	}
}

// checkWritable looks for a volume that the data directory is in. The volume belongs to root: the node makes a
// directory of mode 700 in it. It is in memory: the free space of a disk would be that of the machine, whose images may
// fill it, and the alert of a full data directory would tell of it.
func checkWritable(t *testing.T, p pod, dir string) {
	t.Helper()
	for _, m := range p.spec.Containers[0].VolumeMounts {
		if m.MountPath == path.Dir(dir) && !m.ReadOnly {
			for _, v := range p.spec.Volumes {
				if v.Name == m.Name && (v.EmptyDir == nil || v.EmptyDir.Medium != corev1.StorageMediumMemory) {
					t.Errorf("%s: %s is not in memory: %+v", p.name, dir, v)
				}
			}
			return
		}
	}
	t.Errorf("%s: %s is in no writable volume", p.name, dir)
}

// checkSpread checks that pods of a group spread over machines with and without a zone: the scheduler leaves out
// machines that lack the key of one soft constraint. New pods of a Deployment spread among themselves, wherever the old
// ones are.
func checkSpread(t *testing.T, p pod) {
	t.Helper()
	if n := len(p.spec.TopologySpreadConstraints); n != 1 {
		t.Fatalf("%s: %d spread constraints, want one", p.name, n)
	}
	c := p.spec.TopologySpreadConstraints[0]
	if c.TopologyKey != corev1.LabelHostname ||
		slices.Equal(c.MatchLabelKeys, []string{"pod-template-hash"}) != (p.kind == "Deployment") {
		t.Errorf("%s, a %s, spreads over %s by %q", p.name, p.kind, c.TopologyKey, c.MatchLabelKeys)
	}
	if p.spec.Affinity == nil || p.spec.Affinity.PodAntiAffinity == nil {
		t.Fatalf("%s: no affinity", p.name)
	}
	preferred := p.spec.Affinity.PodAntiAffinity.PreferredDuringSchedulingIgnoredDuringExecution
	if len(preferred) != 1 || preferred[0].PodAffinityTerm.TopologyKey != corev1.LabelTopologyZone ||
		!maps.Equal(preferred[0].PodAffinityTerm.LabelSelector.MatchLabels, c.LabelSelector.MatchLabels) {
		t.Errorf("%s spreads over zones by %+v", p.name, preferred)
	}
}

func checkPorts(t *testing.T, p pod, v map[string]string) {
	t.Helper()
	for name, setting := range map[string]string{"http": "RELAY_LISTEN", "admin": "RELAY_ADMIN_LISTEN"} {
		host, port, err := net.SplitHostPort(v[setting])
		at := slices.IndexFunc(p.spec.Containers[0].Ports, func(c corev1.ContainerPort) bool { return c.Name == name })
		if err != nil || at < 0 || fmt.Sprint(p.spec.Containers[0].Ports[at].ContainerPort) != port || host != "0.0.0.0" {
			t.Errorf("%s: %s=%q, ports %v", p.name, setting, v[setting], p.spec.Containers[0].Ports)
		}
	}
	public, err := os.ReadFile("../../api/public.go")
	if err != nil {
		t.Fatal(err)
	}
	c := p.spec.Containers[0]
	for probe, path := range map[*corev1.Probe]string{
		c.StartupProbe: "/healthz", c.LivenessProbe: "/healthz", c.ReadinessProbe: "/readyz"} {
		wantScheme := map[bool]corev1.URIScheme{true: "HTTPS", false: "HTTP"}[v["RELAY_TLS_CERT_FILE"] != ""]
		if probe.HTTPGet.Path != path || probe.HTTPGet.Port.String() != "http" || probe.HTTPGet.Scheme != wantScheme {
			t.Errorf("%s: a probe asks %v, want %s", p.name, probe.HTTPGet, path)
		}
		if !strings.Contains(string(public), `case "`+path+`"`) {
			t.Errorf("api/public.go does not serve %s", path)
		}
	}
}

// Where the kubelet cannot reach pods, it asks none of them over the network: it would kill those that do not answer.
func TestProbesByCommand(t *testing.T) {
	help, err := os.ReadFile("../../command/ready.go")
	if err != nil || !strings.Contains(string(help), `flags.Bool("alive"`) {
		t.Errorf("relay ready has no --alive: %v", err)
	}
	for _, p := range nodes(render(t, "default", at("readiness", "command"))) {
		c := p.spec.Containers[0]
		for probe, want := range map[*corev1.Probe][]string{
			c.StartupProbe: {"ready", "--alive"}, c.LivenessProbe: {"ready", "--alive"}, c.ReadinessProbe: {"ready"}} {
			switch {
			case probe.HTTPGet != nil || probe.Exec == nil:
				t.Errorf("%s: %+v", p.name, probe.ProbeHandler)
			case !slices.Equal(probe.Exec.Command[1:], want) || probe.TimeoutSeconds <= 5: // relay ready takes up to 5 s
				t.Errorf("%s: a probe runs %q for %d s, want %q", p.name, probe.Exec.Command, probe.TimeoutSeconds, want)
			}
		}
	}
}

// checkStop compares the grace period with the bounds in node/stack.go: the delay, requests and deliveries in flight,
// the last flush, and 7 s for operators' servers, alerts and traces.
func checkStop(t *testing.T, p pod, v map[string]string) {
	t.Helper()
	text, err := os.ReadFile("../../node/stack.go")
	if err != nil {
		t.Fatal(err)
	}
	delay, drain := int64(0), int64(7)
	if _, err := fmt.Sscan(v["RELAY_SHUTDOWN_DELAY_SECONDS"], &delay); err != nil {
		t.Errorf("%s: RELAY_SHUTDOWN_DELAY_SECONDS: %v", p.name, err)
	}
	for _, name := range []string{"requestDrain", "deliveryDrain", "flushTimeout"} {
		found := regexp.MustCompile(name + `\s+= (\d+) \* time\.Second`).FindSubmatch(text)
		if found == nil {
			t.Fatalf("node/stack.go has no %s in seconds: this test looks for the wrong text", name)
		}
		seconds, err := strconv.ParseInt(string(found[1]), 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		drain += seconds
	}
	if grace := *p.spec.TerminationGracePeriodSeconds; grace < delay+drain {
		t.Errorf("%s: terminationGracePeriodSeconds %d, and a stop may take %d + %d s", p.name, grace, delay, drain)
	}
	if isPublic := regexp.MustCompile("ingest|api").MatchString(v["RELAY_ROLES"]); isPublic == (delay == 0) {
		t.Errorf("%s: roles %s, delay %d", p.name, v["RELAY_ROLES"], delay)
	}
}

// Every pod passes the restricted level of Kubernetes' Pod Security Standards, and more than it asks for.
func TestPodsAreRestricted(t *testing.T) {
	evaluator, err := policy.NewEvaluator(policy.DefaultChecks(), nil)
	if err != nil {
		t.Fatal(err)
	}
	restricted := api.LevelVersion{Level: api.LevelRestricted, Version: api.LatestVersion()}
	for _, set := range sets {
		all := pods(render(t, set))
		for _, p := range all {
			if r := policy.AggregateCheckResults(evaluator.EvaluatePod(restricted, &p.meta, &p.spec)); !r.Allowed {
				t.Errorf("%s: %s: %s", set, p.name, r.ForbiddenDetail())
			}
			c, s := p.spec.Containers[0], p.spec.SecurityContext
			switch {
			case len(p.spec.Containers) != 1 || len(p.spec.InitContainers) != 0:
				t.Errorf("%s: %s has other containers", set, p.name)
			case !*c.SecurityContext.ReadOnlyRootFilesystem, *s.RunAsUser != 65532, *s.RunAsGroup != 65532, *s.FSGroup != 65532:
				t.Errorf("%s: %s: %+v, %+v", set, p.name, c.SecurityContext, s)
			case *p.spec.AutomountServiceAccountToken || *p.spec.EnableServiceLinks:
				t.Errorf("%s: %s gets a token, or variables named after Services", set, p.name)
			case c.Resources.Requests.Cpu().IsZero() || c.Resources.Limits.Memory().IsZero():
				t.Errorf("%s: %s: %v", set, p.name, c.Resources)
			case !strings.HasPrefix(c.Image, "registry.example.com/eventrelay/relay"):
				t.Errorf("%s: %s runs %s", set, p.name, c.Image)
			}
		}
		if len(all) < 4 {
			t.Errorf("%s: %d pods", set, len(all))
		}
	}
}

// The job ends before anything else is made or changed, and what it needs is there by then.
func TestMigrateRunsFirst(t *testing.T) {
	for _, set := range sets {
		all := render(t, set)
		job := find[*batchv1.Job](t, all, "prod-eventrelay-migrate")
		account := find[*corev1.ServiceAccount](t, all, job.Spec.Template.Spec.ServiceAccountName)
		for _, o := range all {
			first := o.Annotations["helm.sh/hook"] == "pre-install,pre-upgrade"
			// Helm deletes a hook only while it is in the chart. A policy that stays would bind later jobs.
			if deleted := strings.Contains(o.Annotations["helm.sh/hook-delete-policy"], "hook-succeeded"); first &&
				deleted != (o.kind.Kind != "Job") {
				t.Errorf("%s: %s %s: deleted after the hook: %v", set, o.kind.Kind, o.Name, deleted)
			}
			if isJobs := o.Labels["app.kubernetes.io/component"] == "migrate"; first != isJobs {
				t.Errorf("%s: %s %s: hook %q", set, o.kind.Kind, o.Name, o.Annotations["helm.sh/hook"])
			}
		}
		if *account.AutomountServiceAccountToken || job.Spec.Template.Spec.RestartPolicy != "Never" {
			t.Errorf("%s: %v %v", set, account, job.Spec.Template.Spec)
		}
		if args := job.Spec.Template.Spec.Containers[0].Args; !slices.Equal(args, []string{"migrate"}) {
			t.Errorf("%s: %q", set, args)
		}
	}
	secret := func(changes ...map[string]any) (names []string) {
		job := find[*batchv1.Job](t, render(t, "large", changes...), "prod-eventrelay-migrate")
		for _, v := range job.Spec.Template.Spec.Volumes {
			if v.Name == "secrets" {
				for _, item := range v.Secret.Items {
					names = append(names, v.Secret.SecretName+" "+item.Key)
				}
			}
		}
		return names
	}
	want := []string{"eventrelay-migrate clickhouse_url", "eventrelay-migrate kafka_sasl"}
	if got := secret(); !slices.Equal(got, want) {
		t.Errorf("the job sees %q, want %q", got, want)
	}
	finalize := map[string]any{"migrate": map[string]any{"finalize": true}}
	if got := secret(finalize); !slices.Contains(got, "eventrelay-migrate master_keys") {
		t.Errorf("relay migrate --finalize sees %q", got)
	}
	job := find[*batchv1.Job](t, render(t, "large", finalize), "prod-eventrelay-migrate")
	if args := job.Spec.Template.Spec.Containers[0].Args; !slices.Equal(args, []string{"migrate", "--finalize"}) {
		t.Errorf("%q", args)
	}
	job = find[*batchv1.Job](t, render(t, "large", at("migrate.fix", true)), "prod-eventrelay-migrate")
	if args := job.Spec.Template.Spec.Containers[0].Args; !slices.Equal(args, []string{"migrate", "--fix"}) {
		t.Errorf("%q", args)
	}
	for _, o := range render(t, "large", map[string]any{"migrate": map[string]any{"enabled": false}}) {
		if o.Labels["app.kubernetes.io/component"] == "migrate" {
			t.Errorf("without the job there is a %s %s", o.kind.Kind, o.Name)
		}
	}
}

// The job has the place, the annotations and the credentials that its own values give it; nodes do not see these.
func TestValuesOfTheJob(t *testing.T) {
	csi := func(class string) map[string]any {
		return map[string]any{"csi": map[string]any{"driver": "secrets-store.csi.k8s.io",
			"volumeAttributes": map[string]any{"secretProviderClass": class}}}
	}
	of := func(changes ...map[string]any) (job, node pod) {
		all := render(t, "default", changes...)
		for _, p := range pods(all) {
			if p.kind == "Job" {
				job = p
			}
		}
		return job, nodes(all)[0]
	}
	volume := func(p pod, name string) string {
		for _, v := range p.spec.Volumes {
			switch {
			case v.Name != name:
			case v.CSI != nil:
				return v.CSI.VolumeAttributes["secretProviderClass"]
			case v.Secret != nil:
				return v.Secret.SecretName
			}
		}
		return ""
	}

	job, node := of(at("podAnnotations", map[string]any{"mesh": "yes", "team": "hooks"}), at("migrate", map[string]any{
		"nodeSelector": map[string]any{"kubernetes.io/arch": "amd64"}, "podAnnotations": map[string]any{"mesh": "no"},
		"tolerations": []any{map[string]any{"key": "pool", "operator": "Exists"}}}))
	if job.spec.NodeSelector["kubernetes.io/arch"] != "amd64" || len(job.spec.Tolerations) != 1 ||
		job.meta.Annotations["mesh"] != "no" || job.meta.Annotations["team"] != "hooks" {
		t.Errorf("%v %v %v", job.spec.NodeSelector, job.spec.Tolerations, job.meta.Annotations)
	}
	if len(node.spec.NodeSelector) != 0 || node.meta.Annotations["mesh"] != "yes" {
		t.Errorf("%v %v", node.spec.NodeSelector, node.meta.Annotations)
	}

	for _, x := range []struct {
		name              string
		change            map[string]any
		wantJob, wantNode string
	}{
		{"secrets", map[string]any{"secrets": map[string]any{"volume": csi("nodes")}}, "nodes", "nodes"},
		{"secrets", map[string]any{"secrets": map[string]any{"volume": csi("nodes")},
			"migrate": map[string]any{"secretName": "job"}}, "job", "nodes"},
		{"secrets", at("migrate.volume", csi("job")), "job", "eventrelay"},
		{"kafka-client", map[string]any{"kafka": at("tls", map[string]any{"enabled": true, "clientSecretName": "nodes"}),
			"migrate": map[string]any{"kafkaClientSecretName": "job"}}, "job", "nodes"},
		{"kafka-client", at("kafka.tls", map[string]any{"enabled": true, "clientSecretName": "nodes"}), "nodes", "nodes"},
	} {
		job, node := of(x.change)
		if got := volume(job, x.name); got != x.wantJob {
			t.Errorf("%v: the job mounts %q as %s, want %q", x.change, got, x.name, x.wantJob)
		}
		if got := volume(node, x.name); got != x.wantNode {
			t.Errorf("%v: nodes mount %q as %s, want %q", x.change, got, x.name, x.wantNode)
		}
	}
}

// Ingest and the API scale by CPU, the writer slowly by consumer lag, and nothing scales the dispatcher.
func TestAutoscaling(t *testing.T) {
	all := render(t, "large")
	scaled := map[string]string{}
	for _, o := range all {
		h, ok := o.Object.(*autoscalingv2.HorizontalPodAutoscaler)
		if !ok {
			continue
		}
		metric := h.Spec.Metrics[0]
		scaled[h.Spec.ScaleTargetRef.Kind+" "+h.Spec.ScaleTargetRef.Name] = string(metric.Type)
		if external := metric.External; external != nil {
			if m := external.Metric; m.Name != "relay_log_unread_records" || m.Selector.MatchLabels["group"] != "store" {
				t.Errorf("%s scales by %v", h.Name, external.Metric)
			}
			if window := *h.Spec.Behavior.ScaleDown.StabilizationWindowSeconds; window < 900 {
				t.Errorf("a writer is removed after %d s", window)
			}
		}
		for _, p := range nodes(all) {
			if p.name == h.Spec.ScaleTargetRef.Name && p.replicas != nil {
				t.Errorf("an upgrade would set the replicas of %s back", p.name)
			}
		}
	}
	want := map[string]string{
		"Deployment prod-eventrelay-ingest": "Resource", "Deployment prod-eventrelay-api": "Resource",
		"StatefulSet prod-eventrelay-write": "External",
	}
	if !maps.Equal(scaled, want) {
		t.Errorf("scaled: %v, want %v", scaled, want)
	}
	metrics, err := os.ReadFile("../../pkg/stream/trim.go")
	if err != nil || !strings.Contains(string(metrics), `"relay_log_unread_records"`) {
		t.Errorf("the program has no metric relay_log_unread_records, by which the writer scales: %v", err)
	}
}

// Turning autoscaling on keeps the pods that run: without the member the API server would set it to 1. A group that is
// not there yet, and what is rendered without a cluster, leave the number to the autoscaler.
func TestAutoscalingKeepsPods(t *testing.T) {
	running := func(name string, replicas int32) *appsv1.Deployment {
		return &appsv1.Deployment{
			TypeMeta:   metav1.TypeMeta{APIVersion: "apps/v1", Kind: "Deployment"},
			ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "relay"},
			Spec:       appsv1.DeploymentSpec{Replicas: new(replicas)},
		}
	}
	prepared, err := util.ToRenderValues(load(t, chartDir), values(t, "large"),
		common.ReleaseOptions{Name: "prod", Namespace: "relay", Revision: 2, IsUpgrade: true}, nil)
	if err != nil {
		t.Fatal(err)
	}
	rendered, err := engine.RenderWithClientProvider(load(t, chartDir), prepared,
		cluster{fake.NewSimpleDynamicClient(scheme.Scheme, running("prod-eventrelay-ingest", 12),
			running("prod-eventrelay-api", 0))})
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]*int32{
		"prod-eventrelay-ingest": new(int32(12)), "prod-eventrelay-write": nil,
		"prod-eventrelay-api": new(int32(2)), // minReplicas: an autoscaler leaves a group of 0 pods alone
	}
	for _, p := range pods(decode(t, "large", rendered)) {
		if n, is := want[p.name]; is && (n == nil) != (p.replicas == nil) || n != nil && *n != *p.replicas {
			t.Errorf("%s: replicas %v, want %v", p.name, p.replicas, n)
		}
	}
}

// cluster answers lookups of the chart.
type cluster struct{ dynamic.Interface }

func (c cluster) GetClientFor(version, kind string) (dynamic.NamespaceableResourceInterface, bool, error) {
	resource, _ := meta.UnsafeGuessKindToResource(schema.FromAPIVersionAndKind(version, kind))
	return c.Resource(resource), true, nil
}

// Services, disruption budgets and policies select the pods of their group, and every group has a budget.
func TestSelectorsMatch(t *testing.T) {
	for _, set := range sets {
		all := render(t, set)
		budgets := 0
		for _, o := range all {
			var selector map[string]string
			switch o := o.Object.(type) {
			case *corev1.Service:
				selector = o.Spec.Selector
			case *policyv1.PodDisruptionBudget:
				selector, budgets = o.Spec.Selector.MatchLabels, budgets+1
			case *networkingv1.NetworkPolicy:
				selector = o.Spec.PodSelector.MatchLabels
			case *appsv1.StatefulSet:
				selector = o.Spec.Selector.MatchLabels
				find[*corev1.Service](t, all, o.Spec.ServiceName)
			case *appsv1.Deployment:
				selector = o.Spec.Selector.MatchLabels
			default:
				continue
			}
			var selected []string
			for _, p := range pods(all) {
				matches := true
				for key, value := range selector {
					matches = matches && p.meta.Labels[key] == value
				}
				if matches {
					selected = append(selected, p.name)
				}
			}
			if len(selector) != 3 || len(selected) != 1 {
				t.Errorf("%s: %s %s selects %q by %v", set, o.kind.Kind, o.Name, selected, selector)
			}
		}
		if want := map[string]int{"default": 4, "large": 4}[set]; budgets != want {
			t.Errorf("%s: %d disruption budgets, want %d", set, budgets, want)
		}
	}
}

// ingestPaths are those that the load balancer of Compose sends to nodes with the role ingest.
func ingestPaths(t *testing.T) []string {
	t.Helper()
	text, err := os.ReadFile("../../deploy/compose/haproxy.cfg")
	if err != nil {
		t.Fatal(err)
	}
	found := regexp.MustCompile(`(?m)acl to_ingest path_beg (.*)$`).FindSubmatch(text)
	if found == nil {
		t.Fatal("haproxy.cfg has no paths of ingest: this test looks for the wrong text")
	}
	return append(strings.Fields(string(found[1])), "/")
}

// Paths lead to the nodes that serve them, and the admin port is in nothing that leads anywhere.
func TestWaysIn(t *testing.T) {
	all := render(t, "large")
	want := ingestPaths(t)
	service := func(path string) string {
		return "prod-eventrelay-" + map[bool]string{true: "api", false: "ingest"}[path == "/"]
	}
	for _, rule := range find[*networkingv1.Ingress](t, all, "prod-eventrelay").Spec.Rules {
		var got []string
		for _, p := range rule.HTTP.Paths {
			got = append(got, p.Path)
			if b := p.Backend.Service; b.Name != service(p.Path) || b.Port.Name != "http" {
				t.Errorf("%s%s leads to %v", rule.Host, p.Path, b)
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("paths of %s: %q, want %q", rule.Host, got, want)
		}
	}
	var got []string
	for _, rule := range find[*gateway.HTTPRoute](t, all, "prod-eventrelay").Spec.Rules {
		if limit := rule.Timeouts; limit == nil || limit.Request == nil || *limit.Request != "0s" {
			t.Errorf("a rule of the HTTPRoute has the timeouts %+v", limit)
		}
		for _, m := range rule.Matches {
			got = append(got, *m.Path.Value)
			if b := rule.BackendRefs[0]; string(b.Name) != service(*m.Path.Value) || *b.Port != 80 {
				t.Errorf("%s leads to %v", *m.Path.Value, b)
			}
		}
	}
	if !slices.Equal(got, want) {
		t.Errorf("paths of the HTTPRoute: %q, want %q", got, want)
	}
	for _, o := range all {
		if s, ok := o.Object.(*corev1.Service); ok {
			for _, port := range s.Spec.Ports {
				if len(s.Spec.Ports) != 1 || port.TargetPort.String() != "http" {
					t.Errorf("Service %s has the port %v", s.Name, port)
				}
			}
		}
	}
}

// Nobody reaches what he need not reach, and each node what it needs.
func TestNetworkPolicies(t *testing.T) {
	all := render(t, "large")
	for _, group := range []string{"ingest", "api", "dispatch", "write", "migrate"} {
		spec := find[*networkingv1.NetworkPolicy](t, all, "prod-eventrelay-"+group).Spec
		public, internet := group == "ingest" || group == "api", group == "dispatch" || group == "api"
		var in []string
		for _, rule := range spec.Ingress {
			in = append(in, rule.Ports[0].Port.String())
			if len(rule.From) == 0 {
				t.Errorf("%s lets everybody in to %v", group, rule.Ports)
			}
		}
		want := map[bool][]string{true: {"http", "admin"}, false: {"admin"}}[public]
		if group == "migrate" {
			want = nil
		}
		if !slices.Equal(in, want) {
			t.Errorf("%s takes requests to %q, want %q", group, in, want)
		}
		reaches := false
		for _, rule := range spec.Egress {
			for _, to := range rule.To {
				if to.IPBlock != nil && to.IPBlock.CIDR == "0.0.0.0/0" {
					reaches = true
					if !slices.Contains(to.IPBlock.Except, "169.254.0.0/16") {
						t.Errorf("%s reaches the addresses of the cloud's metadata: %v", group, to.IPBlock)
					}
				}
			}
		}
		if reaches != internet || len(spec.PolicyTypes) != 2 {
			t.Errorf("%s reaches public addresses: %v, types %v", group, reaches, spec.PolicyTypes)
		}
	}
	// By default no pod reads the metrics, everybody reaches the API, and what nodes reach is not limited.
	spec := find[*networkingv1.NetworkPolicy](t, render(t, "default"), "prod-eventrelay-api").Spec
	if in := spec.Ingress; len(in) != 1 || in[0].Ports[0].Port.String() != "http" || len(in[0].From) != 0 ||
		len(spec.PolicyTypes) != 1 || spec.Egress != nil {
		t.Errorf("with the defaults the API takes %+v", spec)
	}
	for _, o := range render(t, "default", at("networkPolicy.ingress", false)) {
		if o.kind.Kind == "NetworkPolicy" {
			t.Errorf("without networkPolicy there is %s", o.Name)
		}
	}
}

// The chart makes no Secret, and names and labels stay within what Kubernetes takes, also of a long release name.
func TestNamesFit(t *testing.T) {
	release := strings.Repeat("long-", 10) + "abc" // 53 characters, the most that Helm takes
	for _, set := range sets {
		for _, o := range renderAs(t, release, set) {
			if o.kind.Kind == "Secret" {
				t.Errorf("%s: a Secret %s", set, o.Name)
			}
			most := 63 // of a Service and of a label
			if o.kind.Kind == "StatefulSet" {
				most = 63 - len("-0123456789") // a revision is added for a label
			}
			if len(o.Name) > most {
				t.Errorf("%s: %s %s has %d characters", set, o.kind.Kind, o.Name, len(o.Name))
			}
			for key, value := range o.Labels {
				if faults := append(validation.IsQualifiedName(key), validation.IsValidLabelValue(value)...); len(faults) > 0 {
					t.Errorf("%s: label %s=%s: %q", set, key, value, faults)
				}
			}
		}
	}
}
