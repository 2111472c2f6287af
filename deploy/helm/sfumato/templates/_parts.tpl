{{- define "sfumato.name" -}}
{{ .Release.Name | trunc 40 | trimSuffix "-" }}
{{- end }}

{{/* Labels by which a part's pods are found: (dict "root" $ "part" "worker"). */}}
{{- define "sfumato.selector" -}}
app.kubernetes.io/name: sfumato
app.kubernetes.io/instance: {{ .root.Release.Name }}
app.kubernetes.io/component: {{ .part }}
{{- end }}

{{- define "sfumato.labels" -}}
{{ include "sfumato.selector" . }}
app.kubernetes.io/version: {{ .root.Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .root.Release.Service }}
helm.sh/chart: {{ .root.Chart.Name }}-{{ .root.Chart.Version }}
{{- end }}

{{/* Every pod: no rights, no token of the cluster, and no process of another user. */}}
{{- define "sfumato.pod" -}}
automountServiceAccountToken: false
securityContext:
  runAsNonRoot: true
  runAsUser: 900
  runAsGroup: 900
  fsGroup: 900
  fsGroupChangePolicy: OnRootMismatch
  seccompProfile:
    type: RuntimeDefault
{{- with .Values.imagePullSecrets }}
imagePullSecrets: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.nodeSelector }}
nodeSelector: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.tolerations }}
tolerations: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.affinity }}
affinity: {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{- define "sfumato.confined" -}}
securityContext:
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  capabilities:
    drop: [ALL]
{{- end }}

{{/* The version of this chart's release, unless the values pin another: (dict "root" $ "image" .Values...). */}}
{{- define "sfumato.image" -}}
image: "{{ .image.repository }}:{{ .image.tag | default .root.Chart.AppVersion }}"
imagePullPolicy: {{ .image.pullPolicy }}
{{- end }}

{{/* As many pods as their processors are busy: (dict "root" $ "part" "worker" "values" .Values.worker). */}}
{{- define "sfumato.autoscaler" -}}
{{- with .values.autoscaling }}
{{- if .enabled }}
---
apiVersion: autoscaling/v2
kind: HorizontalPodAutoscaler
metadata:
  name: {{ include "sfumato.name" $.root }}-{{ $.part }}
  labels: {{- include "sfumato.labels" $ | nindent 4 }}
spec:
  scaleTargetRef:
    apiVersion: apps/v1
    kind: Deployment
    name: {{ include "sfumato.name" $.root }}-{{ $.part }}
  minReplicas: {{ .minReplicas }}
  maxReplicas: {{ .maxReplicas }}
  metrics:
    - type: Resource
      resource:
        name: cpu
        target: {type: Utilization, averageUtilization: {{ .cpuPercent }}}
{{- end }}
{{- end }}
{{- end }}

{{/* Image and settings of a leader's container: (dict "root" $ "part" "worker"). Only aggregators sign people in. */}}
{{- define "sfumato.leader" -}}
{{ include "sfumato.image" (dict "root" .root "image" .root.Values.leader.image) }}
{{ include "sfumato.confined" . }}
env:
  - name: SFUMATO_DATABASE_URL
    valueFrom:
      secretKeyRef:
        name: {{ .root.Values.leader.databaseSecret }}
        key: url
  {{- range $name, $value := .root.Values.leader.settings }}
  - name: {{ $name }}
    value: {{ $value | quote }}
  {{- end }}
  {{- with .root.Values.leader.metrics.secret }}
  - name: SFUMATO_METRICS_KEY
    valueFrom:
      secretKeyRef:
        name: {{ . }}
        key: key
  {{- end }}
  {{- if and .root.Values.ingress.enabled (not (hasKey .root.Values.leader.settings "SFUMATO_PAGE_URL")) }}
  - name: SFUMATO_PAGE_URL
    value: {{ printf "https://%s" .root.Values.ingress.host }}
  {{- end }}
  {{- with .root.Values.leader.oidc }}
  {{- if and .issuer (eq $.part "aggregator") }}
  {{- range $name, $value := omit . "secret" "hasAuthority" }}
  - name: SFUMATO_OIDC_{{ $name | snakecase | upper }}
    value: {{ $value | quote }}
  {{- end }}
  - name: SFUMATO_OIDC_CLIENT_SECRET
    valueFrom:
      secretKeyRef:
        name: {{ .secret }}
        key: secret
  {{- if .hasAuthority }}
  - name: SFUMATO_OIDC_CA
    value: /run/sfumato/provider/ca.pem
  {{- end }}
  {{- end }}
  {{- end }}
  {{- with .root.Values.leader.secureSum }}
  {{- if .url }}
  - name: SFUMATO_HELPER_URL
    value: {{ .url | quote }}
  - name: SFUMATO_HELPER_API_KEY
    valueFrom:
      secretKeyRef:
        name: {{ .secret }}
        key: key
  {{- if .hasAuthority }}
  - name: SFUMATO_HELPER_CA
    value: /run/sfumato/helper/ca.pem
  {{- end }}
  {{- end }}
  {{- end }}
volumeMounts:
  - name: scratch
    mountPath: /tmp
  {{- if and .root.Values.leader.secureSum.url .root.Values.leader.secureSum.hasAuthority }}
  - name: authority
    mountPath: /run/sfumato/helper
    readOnly: true
  {{- end }}
  {{- with .root.Values.leader.oidc }}
  {{- if and .issuer .hasAuthority (eq $.part "aggregator") }}
  - name: provider
    mountPath: /run/sfumato/provider
    readOnly: true
  {{- end }}
  {{- end }}
{{- end }}

{{- define "sfumato.leaderVolumes" -}}
volumes:
  - name: scratch
    emptyDir: {}
  {{- with .root.Values.leader.secureSum }}
  {{- if and .url .hasAuthority }}
  - name: authority
    secret:
      secretName: {{ .secret }}
      items:
        - key: ca.pem
          path: ca.pem
  {{- end }}
  {{- end }}
  {{- with .root.Values.leader.oidc }}
  {{- if and .issuer .hasAuthority (eq $.part "aggregator") }}
  - name: provider
    secret:
      secretName: {{ .secret }}
      items:
        - key: ca.pem
          path: ca.pem
  {{- end }}
  {{- end }}
{{- end }}
