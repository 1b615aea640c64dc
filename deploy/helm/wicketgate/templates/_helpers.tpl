{{- define "wicketgate.name" -}}
{{- printf "%s-%s" .root.Release.Name .part | trunc 63 | trimSuffix "-" -}}
{{- end -}}

{{- define "wicketgate.selector" -}}
app.kubernetes.io/name: wicketgate
app.kubernetes.io/instance: {{ .root.Release.Name }}
app.kubernetes.io/component: {{ .part }}
{{- end -}}

{{- define "wicketgate.labels" -}}
{{ include "wicketgate.selector" . }}
app.kubernetes.io/version: {{ .root.Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .root.Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .root.Chart.Name .root.Chart.Version }}
{{- end -}}

{{- define "wicketgate.image" -}}
{{- if .Values.image.digest -}}
{{ .Values.image.repository }}@{{ .Values.image.digest }}
{{- else -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end -}}
{{- end -}}

{{- define "wicketgate.pod" -}}
# Kubernetes would inject GATEWAY_* of Services, among them names that are settings.
enableServiceLinks: false
automountServiceAccountToken: false
{{- with .Values.image.pullSecrets }}
imagePullSecrets:
{{- range . }}
  - name: {{ . }}
{{- end }}
{{- end }}
securityContext:
  runAsNonRoot: true
  runAsUser: 65532
  runAsGroup: 65532
  fsGroup: 65532
  seccompProfile: {type: RuntimeDefault}
{{- end -}}

{{- define "wicketgate.container" -}}
image: {{ include "wicketgate.image" . }}
imagePullPolicy: {{ .Values.image.pullPolicy }}
securityContext:
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  capabilities: {drop: [ALL]}
{{- end -}}

{{- define "wicketgate.secretVolume" -}}
- name: secrets
  secret:
    secretName: {{ .secret }}
    defaultMode: 0440
    items:
{{- range .keys }}
      - {key: {{ . }}, path: {{ . }}}
{{- end }}
{{- end -}}

{{/* What both planes must read alike, so that a table that one accepts is one that the other runs. */}}
{{- define "wicketgate.env" -}}
- {name: GATEWAY_ENV, value: production}
- {name: GATEWAY_PUBLIC_URL, value: {{ .Values.publicUrl | quote }}}
{{- end -}}

{{- define "wicketgate.podSpread" -}}
topologySpreadConstraints:
  - maxSkew: 1
    topologyKey: kubernetes.io/hostname
    whenUnsatisfiable: ScheduleAnyway
    labelSelector:
      matchLabels: {{- include "wicketgate.selector" . | nindent 8 }}
{{- end -}}
