{{/* Labels of every object. Call with (dict "root" $ "name" <app.kubernetes.io/name>). */}}
{{- define "longshore.labels" -}}
{{ include "longshore.selector" . }}
app.kubernetes.io/part-of: longshore
app.kubernetes.io/version: {{ .root.Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .root.Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .root.Chart.Name .root.Chart.Version }}
{{- end }}

{{/* Labels that never change, for selectors. */}}
{{- define "longshore.selector" -}}
app.kubernetes.io/name: {{ .name }}
app.kubernetes.io/instance: {{ .root.Release.Name }}
{{- end }}

{{/* The cluster's ID: a DNS label, and the one that the release began with. Without the value it is
made of the UID of the namespace kube-system, so that every rendering for this cluster has the same. */}}
{{- define "longshore.clusterID" -}}
{{- $installed := lookup "v1" "ConfigMap" .Release.Namespace "liqo-clusterid-configmap" -}}
{{- $id := .Values.clusterID | default (dig "data" "CLUSTER_ID" "" $installed) -}}
{{- if not $id -}}
{{- $uid := dig "metadata" "uid" "" (lookup "v1" "Namespace" "" "kube-system") -}}
{{- $id = $uid | trunc 8 | required "clusterID is required where there is no cluster to ask, as with helm template: the name of this cluster among its peers, e.g. --set clusterID=rome" | printf "cluster-%s" -}}
{{- end -}}
{{- if or (gt (len $id) 63) (not (regexMatch "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$" $id)) -}}
{{- fail (printf "clusterID %q is no DNS label: use lower-case letters, digits and dashes, at most 51 characters" $id) -}}
{{- end -}}
{{- if and (not $installed) (gt (len $id) 51) -}}
{{- fail (printf "clusterID %q has more than 51 characters: no peer could name the namespace liqo-tenant-%s" $id $id) -}}
{{- end -}}
{{- if and $installed (ne (dig "data" "CLUSTER_ID" $id $installed) $id) -}}
{{- fail (printf "clusterID cannot change from %q to %q: the peers know this cluster by it" (index $installed.data "CLUSTER_ID") $id) -}}
{{- end -}}
{{- $id -}}
{{- end }}

{{- define "longshore.image" -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end }}

{{/* The host part of a listener's address: all addresses, or the pod's. */}}
{{- define "longshore.host" -}}
{{- if .Values.bindPodIP }}$(POD_IP){{ end -}}
{{- end }}

{{/* Arguments that all components have. */}}
{{- define "longshore.args" -}}
- --cluster-id={{ include "longshore.clusterID" .root }}
- --liqo-namespace=$(POD_NAMESPACE)
- --health-probe-address={{ include "longshore.host" .root }}:8081
- --metrics-address={{ if .root.Values.metrics.enabled }}{{ include "longshore.host" .root }}:{{ .root.Values.metrics.port }}{{ else }}0{{ end }}
{{- if ne .component "webhook" }}
- --enable-leader-election=true
{{- end }}
{{- end }}

{{/* Where several replicas go when nothing else is said: as far apart as there is room. A
replica that finds none still runs. */}}
{{- define "longshore.spread" -}}
{{- range $key := list "kubernetes.io/hostname" "topology.kubernetes.io/zone" }}
- maxSkew: 1
  topologyKey: {{ $key }}
  whenUnsatisfiable: ScheduleAnyway
  labelSelector:
    matchLabels:
      {{- include "longshore.selector" $ | nindent 6 }}
  # An update counts the new pods only.
  matchLabelKeys: [pod-template-hash]
{{- end }}
{{- end }}

{{/* The PodDisruptionBudget of a component with several replicas: a drain takes one at a
time. With one replica it would forbid every drain or mean nothing, so there is none.
Call with (dict "root" $ "component" <subcommand> "values" <its values>). */}}
{{- define "longshore.disruptionBudget" -}}
{{- if and .values.podDisruptionBudget (gt (int .values.replicas) 1) }}
{{- $labels := dict "root" .root "name" (printf "longshore-%s" .component) -}}
---
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata:
  name: longshore-{{ .component }}
  namespace: {{ .root.Release.Namespace }}
  labels:
    {{- include "longshore.labels" $labels | nindent 4 }}
spec:
  maxUnavailable: 1
  # What is broken anyway does not keep a node from being drained.
  unhealthyPodEvictionPolicy: AlwaysAllow
  selector:
    matchLabels:
      {{- include "longshore.selector" $labels | nindent 6 }}
{{- end }}
{{- end }}

{{/* The Deployment of a component. Call with (dict "root" $ "component" <subcommand>
"values" <its values> "args" <list> "ports" <list> "cache" <bool> "gracePeriod" <seconds>
"wireName" <the name under which liqoctl finds it>). The selector and the labels of the pods
stay: the selector of a Deployment cannot change. */}}
{{- define "longshore.deployment" -}}
{{- $name := printf "longshore-%s" .component -}}
{{- $labels := dict "root" .root "name" $name -}}
apiVersion: apps/v1
kind: Deployment
metadata:
  name: {{ $name }}
  namespace: {{ .root.Release.Namespace }}
  labels:
    {{- include "longshore.labels" (dict "root" .root "name" (.wireName | default $name)) | nindent 4 }}
    {{- with .wireName }}
    app.kubernetes.io/component: {{ . }}
    {{- end }}
spec:
  replicas: {{ .values.replicas }}
  selector:
    matchLabels:
      {{- include "longshore.selector" $labels | nindent 6 }}
  template:
    metadata:
      labels:
        {{- include "longshore.labels" $labels | nindent 8 }}
        {{- with .root.Values.podLabels }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
      {{- with .root.Values.podAnnotations }}
      annotations:
        {{- toYaml . | nindent 8 }}
      {{- end }}
    spec:
      serviceAccountName: {{ $name }}
      securityContext:
        runAsNonRoot: true
        runAsUser: 1000
        runAsGroup: 1000
        fsGroup: 1000
        seccompProfile:
          type: RuntimeDefault
      {{- with .root.Values.imagePullSecrets }}
      imagePullSecrets:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      {{- with .root.Values.priorityClassName }}
      priorityClassName: {{ . }}
      {{- end }}
      {{- with .gracePeriod }}
      terminationGracePeriodSeconds: {{ . }}
      {{- end }}
      containers:
      - name: {{ .wireName | default .component }}
        image: {{ include "longshore.image" .root }}
        imagePullPolicy: {{ .root.Values.image.pullPolicy }}
        command: [/usr/bin/longshore]
        args:
        - {{ .component }}
        {{- include "longshore.args" . | nindent 8 }}
        {{- range .args }}
        - {{ . }}
        {{- end }}
        {{- range .values.extraArgs }}
        - {{ . | quote }}
        {{- end }}
        env:
        - name: POD_NAME
          valueFrom: {fieldRef: {fieldPath: metadata.name}}
        - name: POD_UID
          valueFrom: {fieldRef: {fieldPath: metadata.uid}}
        - name: POD_NAMESPACE
          valueFrom: {fieldRef: {fieldPath: metadata.namespace}}
        - name: POD_IP
          valueFrom: {fieldRef: {fieldPath: status.podIP}}
        ports:
        - name: health
          containerPort: 8081
        {{- if .root.Values.metrics.enabled }}
        - name: metrics
          containerPort: {{ .root.Values.metrics.port }}
        {{- end }}
        {{- range .ports }}
        - name: {{ .name }}
          containerPort: {{ .port }}
        {{- end }}
        livenessProbe:
          httpGet: {path: /healthz, port: health}
          initialDelaySeconds: 10
        readinessProbe:
          httpGet: {path: /readyz, port: health}
          periodSeconds: 2
        {{- with .values.resources }}
        resources:
          {{- toYaml . | nindent 10 }}
        {{- end }}
        securityContext:
          allowPrivilegeEscalation: false
          readOnlyRootFilesystem: true
          capabilities:
            drop: [ALL]
        {{- if .cache }}
        volumeMounts:
        - name: policy-cache
          mountPath: /var/cache/longshore
        {{- end }}
      {{- if .cache }}
      # Of this pod alone (docs/adr/0072): who writes it decides what the pod executes.
      volumes:
      - name: policy-cache
        emptyDir: {}
      {{- end }}
      {{- with .values.nodeSelector }}
      nodeSelector:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      {{- with .values.tolerations }}
      tolerations:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      {{- with .values.affinity }}
      affinity:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      {{- if .values.topologySpreadConstraints }}
      topologySpreadConstraints:
        {{- toYaml .values.topologySpreadConstraints | nindent 8 }}
      {{- else if gt (int .values.replicas) 1 }}
      topologySpreadConstraints:
        {{- include "longshore.spread" $labels | nindent 8 }}
      {{- end }}
{{- end }}

{{/* ServiceAccount, ClusterRole and binding of a component. The rules come from the
markers beside its code (hack/generate); "rules" adds what belongs to no reconciler. */}}
{{- define "longshore.rbac" -}}
{{- $name := printf "longshore-%s" .component -}}
{{- $labels := dict "root" .root "name" $name -}}
apiVersion: v1
kind: ServiceAccount
metadata:
  name: {{ $name }}
  namespace: {{ .root.Release.Namespace }}
  labels:
    {{- include "longshore.labels" $labels | nindent 4 }}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata:
  name: {{ $name }}
  labels:
    {{- include "longshore.labels" $labels | nindent 4 }}
rules:
{{ (.root.Files.Get (printf "files/rbac/%s.yaml" .component) | fromYaml).rules | toYaml }}
- apiGroups: [events.k8s.io]
  resources: [events]
  verbs: [create, patch]
{{- with .rules }}
{{ . }}
{{- end }}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata:
  name: {{ $name }}
  labels:
    {{- include "longshore.labels" $labels | nindent 4 }}
roleRef:
  apiGroup: rbac.authorization.k8s.io
  kind: ClusterRole
  name: {{ $name }}
subjects:
- kind: ServiceAccount
  name: {{ $name }}
  namespace: {{ .root.Release.Namespace }}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata:
  name: {{ $name }}
  namespace: {{ .root.Release.Namespace }}
  labels:
    {{- include "longshore.labels" $labels | nindent 4 }}
roleRef:
  apiGroup: rbac.authorization.k8s.io
  kind: Role
  name: {{ $name }}
subjects:
- kind: ServiceAccount
  name: {{ $name }}
  namespace: {{ .root.Release.Namespace }}
{{- end }}

{{/* Rules for electing a leader with a lease of the given name, and saying so. */}}
{{- define "longshore.leaseRules" -}}
- apiGroups: [""]
  resources: [events]
  verbs: [create, patch]
- apiGroups: [coordination.k8s.io]
  resources: [leases]
  verbs: [create]
- apiGroups: [coordination.k8s.io]
  resources: [leases]
  resourceNames: [{{ . }}]
  verbs: [get, update, patch]
{{- end }}
