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

{{/* Image and settings of the leader's containers. */}}
{{- define "sfumato.leader" -}}
image: "{{ .Values.leader.image.repository }}:{{ .Values.leader.image.tag }}"
imagePullPolicy: {{ .Values.leader.image.pullPolicy }}
{{ include "sfumato.confined" . }}
env:
  - name: SFUMATO_DATABASE_URL
    valueFrom:
      secretKeyRef:
        name: {{ .Values.leader.databaseSecret }}
        key: url
  {{- range $name, $value := .Values.leader.settings }}
  - name: {{ $name }}
    value: {{ $value | quote }}
  {{- end }}
  {{- with .Values.leader.metrics.secret }}
  - name: SFUMATO_METRICS_KEY
    valueFrom:
      secretKeyRef:
        name: {{ . }}
        key: key
  {{- end }}
  {{- with .Values.leader.secureSum }}
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
  {{- if and .Values.leader.secureSum.url .Values.leader.secureSum.hasAuthority }}
  - name: authority
    mountPath: /run/sfumato/helper
    readOnly: true
  {{- end }}
{{- end }}

{{- define "sfumato.leaderVolumes" -}}
volumes:
  - name: scratch
    emptyDir: {}
  {{- with .Values.leader.secureSum }}
  {{- if and .url .hasAuthority }}
  - name: authority
    secret:
      secretName: {{ .secret }}
      items:
        - key: ca.pem
          path: ca.pem
  {{- end }}
  {{- end }}
{{- end }}
