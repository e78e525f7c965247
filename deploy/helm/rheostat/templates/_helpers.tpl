{{/* Names are cut so that each name made from them, and each label, has at most 63 characters. */}}
{{- define "rheostat.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 36 | trimSuffix "-" -}}
{{- else -}}
{{- $name := default .Chart.Name .Values.nameOverride -}}
{{- if contains $name .Release.Name -}}
{{- .Release.Name | trunc 36 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name $name | trunc 36 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* Labels that select the pods of this release. Argument: the root. */}}
{{- define "rheostat.selector" -}}
app.kubernetes.io/name: {{ default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "rheostat.labels" -}}
{{ include "rheostat.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end -}}

{{/* Name of the service account. */}}
{{- define "rheostat.serviceAccount" -}}
{{- if .Values.serviceAccount.create -}}
{{- default (include "rheostat.fullname" .) .Values.serviceAccount.name -}}
{{- else -}}
{{- default "default" .Values.serviceAccount.name -}}
{{- end -}}
{{- end -}}

{{- define "rheostat.image" -}}
{{- if .Values.image.digest -}}
{{ .Values.image.repository }}@{{ .Values.image.digest }}
{{- else -}}
{{ .Values.image.repository }}:{{ default .Chart.AppVersion .Values.image.tag }}
{{- end -}}
{{- end -}}

{{/* The section of the settings file that has a part's HTTP endpoint. Arguments: root, part. */}}
{{- define "rheostat.section" -}}
{{- get (dict "collect" "collector" "stream" "stream" "learn" "learn" "tune" "tuner") .part -}}
{{- end -}}

{{/* The workloads of a part, as JSON: one, or for the tuner one for each of several clusters. Arguments: root, part. */}}
{{- define "rheostat.workloads" -}}
{{- $root := .root -}}
{{- $fullname := printf "%s-%s" (include "rheostat.fullname" $root) .part -}}
{{- $clusters := ternary (keys (default (dict) $root.Values.config.clusters) | sortAlpha) (list) (eq .part "tune") -}}
{{- $workloads := list -}}
{{- range $cluster := $clusters -}}
{{- $suffix := $cluster | lower | replace "_" "-" | replace "." "-" -}}
{{- if gt (len $suffix) 20 -}}
{{- fail (printf "config.clusters.%s: a name of a cluster has at most 20 characters on Kubernetes, as it is part of other names" $cluster) -}}
{{- end -}}
{{- $workloads = append $workloads (dict "cluster" $cluster "name" (printf "%s-%s" $fullname $suffix)) -}}
{{- end -}}
{{- $workloads | default (list (dict "cluster" "" "name" $fullname)) | toJson -}}
{{- end -}}

{{/* The section `http` of a part, as JSON. Arguments: root, part, cluster (empty: the only one). */}}
{{- define "rheostat.http" -}}
{{- $http := deepCopy (get (get .root.Values.config (include "rheostat.section" .)) "http") -}}
{{- if .cluster -}}
{{- $entry := default (dict) (get .root.Values.config.clusters .cluster) -}}
{{- $http = mergeOverwrite $http (deepCopy (default (dict) (dig "tuner" "http" (dict) $entry))) -}}
{{- end -}}
{{- toJson $http -}}
{{- end -}}

{{- define "rheostat.port" -}}
{{- get (include "rheostat.http" . | fromJson) "port" | int -}}
{{- end -}}

{{- define "rheostat.scheme" -}}
{{- if and (eq .part "tune") (get (include "rheostat.http" . | fromJson) "tls_certfile") -}}https{{- else -}}http{{- end -}}
{{- end -}}

{{/* An environment variable from a key of a Secret. Arguments: variable, secret (name, key). */}}
{{- define "rheostat.secretVariable" -}}
- name: {{ .variable }}
  valueFrom:
    secretKeyRef:
      name: {{ .secret.name | quote }}
      key: {{ .secret.key | quote }}
{{- end -}}

{{/* The pod of a part. Arguments: root, part, cluster (empty: the only one). */}}
{{- define "rheostat.pod" -}}
{{- $root := .root -}}
{{- $part := .part -}}
{{- $values := get $root.Values $part -}}
{{- $probe := dict "port" "http" "scheme" (include "rheostat.scheme" . | upper) -}}
metadata:
  labels:
    {{- include "rheostat.labels" $root | nindent 4 }}
    app.kubernetes.io/component: {{ $part }}
    {{- with .cluster }}
    rheostat/cluster: {{ . | quote }}
    {{- end }}
    {{- with $values.podLabels }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
  annotations:
    # The processes read the settings at their start, so a change of them replaces the pods.
    rheostat/config-sha256: {{ toYaml $root.Values.config | sha256sum }}
    {{- with $values.podAnnotations }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
spec:
  serviceAccountName: {{ include "rheostat.serviceAccount" $root }}
  automountServiceAccountToken: false
  enableServiceLinks: false
  terminationGracePeriodSeconds: 30
  {{- with $root.Values.imagePullSecrets }}
  imagePullSecrets:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with $values.priorityClassName }}
  priorityClassName: {{ . }}
  {{- end }}
  securityContext:
    runAsNonRoot: true
    seccompProfile: {type: RuntimeDefault}
    fsGroupChangePolicy: OnRootMismatch
    {{- with $root.Values.podSecurityContext }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
  {{- with $values.nodeSelector }}
  nodeSelector:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with $values.tolerations }}
  tolerations:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- if $values.affinity }}
  affinity:
    {{- toYaml $values.affinity | nindent 4 }}
  {{- else if ne $part "learn" }}
  affinity:
    podAntiAffinity:
      preferredDuringSchedulingIgnoredDuringExecution:
        - weight: 100
          podAffinityTerm:
            topologyKey: kubernetes.io/hostname
            labelSelector:
              matchLabels:
                {{- include "rheostat.selector" $root | nindent 16 }}
                app.kubernetes.io/component: {{ $part }}
                {{- with .cluster }}
                rheostat/cluster: {{ . | quote }}
                {{- end }}
  {{- end }}
  containers:
    - name: {{ $part }}
      image: {{ include "rheostat.image" $root | quote }}
      imagePullPolicy: {{ $root.Values.image.pullPolicy }}
      args: [{{ $part }}, --wait-for-cluster, --config, /etc/rheostat/config/rheostat.yaml]
      env:
        # For commands in the pod, such as `kubectl exec ... -- rheostat status`.
        - name: RHEOSTAT_CONFIG
          value: /etc/rheostat/config/rheostat.yaml
        {{- with .cluster }}
        - name: RHEOSTAT_CHOSEN_CLUSTER
          value: {{ . | quote }}
        {{- end }}
        {{- range tuple "TUNER" "COLLECTOR" "STREAM" "LEARN" }}
        {{- include "rheostat.secretVariable" (dict "variable" (printf "RHEOSTAT_%s__HTTP__READ_TOKEN" .) "secret" $root.Values.secrets.readToken) | nindent 8 }}
        {{- end }}
        {{- if $root.Values.secrets.operateToken.name }}
        {{- include "rheostat.secretVariable" (dict "variable" "RHEOSTAT_TUNER__HTTP__OPERATE_TOKEN" "secret" $root.Values.secrets.operateToken) | nindent 8 }}
        {{- end }}
        {{- $password := ternary $values.kafkaPassword $root.Values.secrets.kafkaPassword (ne $values.kafkaPassword.name "") }}
        {{- if $password.name }}
        {{- include "rheostat.secretVariable" (dict "variable" "RHEOSTAT_KAFKA__SASL_PASSWORD" "secret" $password) | nindent 8 }}
        {{- end }}
        {{- with $values.kafkaUser }}
        - name: RHEOSTAT_KAFKA__SASL_USERNAME
          value: {{ . | quote }}
        {{- end }}
        {{- with $values.extraEnv }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
      ports:
        - name: http
          containerPort: {{ include "rheostat.port" . }}
      # The endpoint answers as soon as the program has loaded, also while the cluster does not answer.
      startupProbe:
        httpGet: {path: /healthz, port: {{ $probe.port }}, scheme: {{ $probe.scheme }}}
        periodSeconds: 5
        failureThreshold: 24
      # Fails when the work of the process hangs.
      livenessProbe:
        httpGet: {path: /healthz, port: {{ $probe.port }}, scheme: {{ $probe.scheme }}}
        periodSeconds: 10
        timeoutSeconds: 5
        failureThreshold: 3
      readinessProbe:
        {{- if eq $part "tune" }}
        # A tuner that stands by answers 503 to /readyz, since it does not act. For a rolling update it is ready, as it can take over:
        # with plain /readyz the update would wait for ever.
        httpGet: {path: "/readyz?standby=true", port: {{ $probe.port }}, scheme: {{ $probe.scheme }}}
        {{- else }}
        httpGet: {path: /readyz, port: {{ $probe.port }}, scheme: {{ $probe.scheme }}}
        {{- end }}
        periodSeconds: 10
        timeoutSeconds: 5
      securityContext:
        allowPrivilegeEscalation: false
        readOnlyRootFilesystem: true
        capabilities: {drop: [ALL]}
      {{- with $values.resources }}
      resources:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      volumeMounts:
        - {name: config, mountPath: /etc/rheostat/config, readOnly: true}
        - {name: state, mountPath: /var/lib/rheostat}
        - {name: tmp, mountPath: /tmp}
        {{- range $root.Values.mounts }}
        - {name: {{ .name }}, mountPath: {{ .path | quote }}, readOnly: true}
        {{- end }}
  volumes:
    - name: config
      configMap: {name: {{ include "rheostat.fullname" $root }}-config}
    - name: tmp
      emptyDir: {sizeLimit: 1Gi}
    {{- if not (and (eq $part "stream") $values.persistence.enabled) }}
    - name: state
      emptyDir: {sizeLimit: 1Gi}
    {{- end }}
    {{- range $root.Values.mounts }}
    - name: {{ .name }}
      {{- if .secret }}
      secret: {secretName: {{ .secret | quote }}, defaultMode: 0440}
      {{- else }}
      configMap: {name: {{ .configMap | quote }}}
      {{- end }}
    {{- end }}
{{- end -}}
