{{- define "eventrelay.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 40 | trimSuffix "-" -}}
{{- end -}}

{{/* The longest name that is made from it is the pod of a StatefulSet: NAME-dispatch-1000. */}}
{{- define "eventrelay.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 40 | trimSuffix "-" -}}
{{- else if contains (include "eventrelay.name" .) .Release.Name -}}
{{- .Release.Name | trunc 40 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name (include "eventrelay.name" .) | trunc 40 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{/* Names of Services are DNS labels, which a release name with a dot is not. */}}
{{- define "eventrelay.checkName" -}}
{{- $name := include "eventrelay.fullname" . -}}
{{- if not (regexMatch "^[a-z]([-a-z0-9]*[a-z0-9])?$" $name) -}}
{{- fail (printf "fullnameOverride: is required with the release name %s: names of Services begin with a letter and have lower-case letters, digits and hyphens" .Release.Name) -}}
{{- end -}}
{{- end -}}

{{/* Without X-Forwarded-For all clients of an ingress are one: wrong passwords of a stranger keep everybody from signing in. */}}
{{- define "eventrelay.checkProxies" -}}
{{- if and (or .Values.ingress.enabled .Values.gateway.enabled) (not .Values.trustedProxies) -}}
{{- fail "trustedProxies: is required with ingress.enabled or gateway.enabled: set it to the networks of the ingress controller's or gateway's pods, such as [10.20.0.0/16]; without it the limits of clients and of wrong passwords take all clients for one" -}}
{{- end -}}
{{- end -}}

{{- define "eventrelay.selector" -}}
app.kubernetes.io/name: {{ include "eventrelay.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "eventrelay.labels" -}}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" | trunc 63 | trimSuffix "-" }}
{{ include "eventrelay.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | replace "+" "_" | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
app.kubernetes.io/part-of: eventrelay
{{- end -}}

{{- define "eventrelay.image" -}}
{{- if .Values.image.digest -}}
{{- printf "%s@%s" .Values.image.repository .Values.image.digest -}}
{{- else -}}
{{- printf "%s:%s" .Values.image.repository (default .Chart.AppVersion .Values.image.tag) -}}
{{- end -}}
{{- end -}}

{{- define "eventrelay.serviceAccountName" -}}
{{- default (ternary (include "eventrelay.fullname" .) "default" .Values.serviceAccount.create) .Values.serviceAccount.name -}}
{{- end -}}

{{/*
The groups of nodes of the layout. Members of consumer groups (dispatch, write) are static, and their names must stay:
StatefulSets. The others are members of none: Deployments. public: requests from outside arrive there. internet: they
connect to customers' hosts.
*/}}
{{- define "eventrelay.groups" -}}
{{- if eq .Values.layout "together" }}
node: {roles: "ingest,dispatch,write,api", stateful: true, public: true, internet: true}
{{- else }}
ingest: {roles: ingest, stateful: false, public: true, internet: false}
api: {roles: api, stateful: false, public: true, internet: true}
dispatch: {roles: dispatch, stateful: true, public: false, internet: true}
write: {roles: write, stateful: true, public: false, internet: false}
{{- end }}
{{- end -}}

{{/* The group of nodes that has a role. */}}
{{- define "eventrelay.groupOf" -}}
{{- ternary "node" .role (eq .root.Values.layout "together") -}}
{{- end -}}

{{- define "eventrelay.host" -}}
{{- (urlParse .Values.baseURL).hostname -}}
{{- end -}}

{{- define "eventrelay.gracePeriod" -}}
{{- $delay := int .Values.shutdownDelaySeconds -}}
{{- $grace := int .Values.terminationGracePeriodSeconds -}}
{{- if and $grace (lt $grace (add $delay 30 | int)) -}}
{{- fail (printf "terminationGracePeriodSeconds: %d is too short: a node needs shutdownDelaySeconds (%d) and up to 30 s more" $grace $delay) -}}
{{- end -}}
{{- default (add $delay 35 | int) $grace -}}
{{- end -}}

{{/* The paths that nodes with the role ingest serve; all others are those of the API. */}}
{{- define "eventrelay.ingestPaths" -}}
- /in/
- /drain/
- /api/
{{- end -}}
