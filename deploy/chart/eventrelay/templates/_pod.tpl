{{/*
Files with certificates: the volume, its source, and the settings that name its files. root; isJob: only those of relay
migrate, which may run before the others exist.
*/}}
{{- define "eventrelay.files" -}}
{{- with .root.Values }}
{{- $kafka := ternary .kafka.tls dict .kafka.tls.enabled }}
{{- $client := get $kafka "clientSecretName" }}
{{- if and $.isJob .kafka.tls.enabled }}{{ $client = default $client .migrate.kafkaClientSecretName }}{{ end }}
{{- $ca := .kafka.tls.ca }}
{{- if and (not .kafka.tls.enabled) (or .kafka.tls.clientSecretName .migrate.kafkaClientSecretName $ca.secretName $ca.configMapName) }}
{{- fail "kafka.tls.enabled: must be true with the other values of kafka.tls and with migrate.kafkaClientSecretName: without it the connection is not encrypted" }}
{{- end }}
{{- $files := list
  (dict "name" "kafka-ca" "ca" (get $kafka "ca") "setting" "RELAY_KAFKA_TLS")
  (dict "name" "kafka-client" "pair" $client "setting" "RELAY_KAFKA")
  (dict "name" "clickhouse-ca" "ca" .clickhouse.ca) }}
{{- if not $.isJob }}
{{- $files = concat $files (list
  (dict "name" "redis-ca" "ca" .redis.tls.ca "setting" "RELAY_REDIS_CA_FILE")
  (dict "name" "redis-client" "pair" .redis.tls.clientSecretName "setting" "RELAY_REDIS")
  (dict "name" "egress-ca" "ca" .egress.ca "setting" "RELAY_EGRESS_CA_FILE")
  (dict "name" "tls" "pair" .tls.secretName "setting" "RELAY_TLS")) }}
{{- end }}
{{- range $file := $files }}
{{- $ca := default dict (get $file "ca") }}
{{- $secret := get $ca "secretName" }}
{{- if get $file "pair" }}
- name: {{ $file.name }}
  source: {secret: {secretName: {{ $file.pair }}, defaultMode: 0440}}
  variables:
    {{ $file.setting }}_CERT_FILE: /etc/relay/{{ $file.name }}/tls.crt
    {{ $file.setting }}_KEY_FILE: /etc/relay/{{ $file.name }}/tls.key
{{- else if or $secret (get $ca "configMapName") }}
- name: {{ $file.name }}
  source:
    {{- if $secret }}
    secret: {secretName: {{ $secret }}, defaultMode: 0440, items: [{key: {{ $ca.key }}, path: {{ $ca.key }}}]}
    {{- else }}
    configMap: {name: {{ $ca.configMapName }}, items: [{key: {{ $ca.key }}, path: {{ $ca.key }}}]}
    {{- end }}
  {{- if hasKey $file "setting" }}
  variables:
    {{ $file.setting }}: /etc/relay/{{ $file.name }}/{{ $ca.key }}
  {{- end }}
{{- end }}
{{- end }}
{{- end }}
{{- end -}}

{{/* The variables that all nodes and the job have: root, isJob. */}}
{{- define "eventrelay.commonVariables" -}}
{{- with .root }}
{{- $variables := dict "RELAY_KAFKA_BROKERS" (join "," .Values.kafka.brokers) }}
{{- if .Values.kafka.tls.enabled }}{{ $_ := set $variables "RELAY_KAFKA_TLS" "system" }}{{ end }}
{{- if .Values.egress.allow }}{{ $_ := set $variables "RELAY_EGRESS_ALLOW" (join "," .Values.egress.allow) }}{{ end }}
{{- if .Values.egress.deny }}{{ $_ := set $variables "RELAY_EGRESS_DENY" (join "," .Values.egress.deny) }}{{ end }}
{{- if .Values.goMemoryLimit }}{{ $_ := set $variables "GOMEMLIMIT" .Values.goMemoryLimit }}{{ end }}
{{- range $name, $value := .Values.settings }}
{{- if kindIs "slice" $value }}{{ $value = join "," $value }}{{ end }}
{{- /* Numbers of values files are float64, which is printed as 5.24288e+06. */}}
{{- if kindIs "float64" $value }}{{ if eq (floor $value) $value }}{{ $value = int64 $value }}{{ end }}{{ end }}
{{- $_ := set $variables $name (toString $value) }}
{{- end }}
{{- range $file := include "eventrelay.files" $ | fromYamlArray }}
{{- $variables = merge (default dict (get $file "variables")) $variables }}
{{- end }}
{{- toYaml $variables }}
{{- end }}
{{- end -}}

{{/* env of a container: root, variables, and secrets, the keys of the Secret by setting. */}}
{{- define "eventrelay.env" -}}
{{- range $name, $value := .variables }}
- name: {{ $name }}
  value: {{ $value | quote }}
{{- end }}
{{- range $name, $key := .secrets }}
{{- if eq $.root.Values.secrets.as "environment" }}
- name: {{ $name }}
  valueFrom: {secretKeyRef: {name: {{ $.secretName }}, key: {{ $key }}}}
{{- else }}
- name: {{ $name }}_FILE
  value: /run/secrets/relay/{{ $key }}
{{- end }}
{{- end }}
{{- end -}}

{{/* root, isJob. */}}
{{- define "eventrelay.mounts" -}}
- {name: data, mountPath: /var/lib/relay}
{{- if ne .root.Values.secrets.as "environment" }}
- {name: secrets, mountPath: /run/secrets/relay, readOnly: true}
{{- end }}
{{- range $file := include "eventrelay.files" . | fromYamlArray }}
- {name: {{ $file.name }}, mountPath: /etc/relay/{{ $file.name }}, readOnly: true}
{{- end }}
{{- end -}}

{{/* volumes of a pod: root, isJob, secrets, secretName, volume (in place of the Secret). */}}
{{- define "eventrelay.volumes" -}}
# A node keeps no data: this holds the command socket. It is in memory: on a disk, RelayDiskSpaceLow would fire for the
# disk of the machine.
- {name: data, emptyDir: {medium: Memory, sizeLimit: 4Mi}}
{{- with .root.Values }}
{{- if eq .secrets.as "environment" }}
{{- else if $.volume }}
- {{ merge (dict "name" "secrets") $.volume | toYaml | nindent 2 | trim }}
{{- else }}
- name: secrets
  secret:
    secretName: {{ $.secretName }}
    defaultMode: 0440
    items:
    {{- range $key := values $.secrets | uniq | sortAlpha }}
    - {key: {{ $key }}, path: {{ $key }}}
    {{- end }}
{{- end }}
{{- end }}
{{- range $file := include "eventrelay.files" . | fromYamlArray }}
- {{ merge (dict "name" $file.name) $file.source | toYaml | nindent 2 | trim }}
{{- end }}
{{- end -}}

{{/* What all pods have in common: root, serviceAccountName. */}}
{{- define "eventrelay.podCommon" -}}
serviceAccountName: {{ .serviceAccountName }}
automountServiceAccountToken: false
enableServiceLinks: false
{{- with .root.Values.image.pullSecrets }}
imagePullSecrets:
{{- range . }}
- name: {{ . }}
{{- end }}
{{- end }}
{{- with .root.Values.priorityClassName }}
priorityClassName: {{ . }}
{{- end }}
securityContext:
  runAsNonRoot: true
  runAsUser: 65532
  runAsGroup: 65532
  fsGroup: 65532
  fsGroupChangePolicy: OnRootMismatch
  seccompProfile: {type: RuntimeDefault}
# Most names of destinations have two to four dots: with the default of 5 each of them would first be looked up as a name
# of the cluster.
dnsConfig:
  options: [{name: ndots, value: "2"}]
{{- end -}}

{{/* Where pods run: the values of a group or of the job. */}}
{{- define "eventrelay.placement" -}}
{{- range $name := list "nodeSelector" "tolerations" "affinity" }}
{{- with get $ $name }}
{{ $name }}:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}
{{- end -}}

{{- define "eventrelay.container" -}}
name: relay
image: {{ include "eventrelay.image" . | quote }}
imagePullPolicy: {{ .Values.image.pullPolicy }}
securityContext:
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  capabilities: {drop: [ALL]}
{{- end -}}
