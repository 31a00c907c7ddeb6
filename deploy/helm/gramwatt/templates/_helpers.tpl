{{- define "gramwatt.labels" -}}
app: {{ .Release.Name }}
app.kubernetes.io/name: gramwatt
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end }}

{{- define "gramwatt.image" -}}
image: "{{ .Values.image.repository }}:{{ .Values.image.tag }}"
imagePullPolicy: {{ .Values.image.pullPolicy }}
{{- end }}

{{- define "gramwatt.user" -}}
runAsNonRoot: true
{{- with .Values.user }}
{{ toYaml . }}
{{- end }}
seccompProfile: {type: RuntimeDefault}
{{- end }}

{{- define "gramwatt.volumes" -}}
- name: tmp
  emptyDir: {}
{{- with .Values.filesSecret }}
- name: files
  secret: {secretName: {{ . }}}
{{- end }}
{{- end }}

{{- define "gramwatt.mounts" -}}
- {name: tmp, mountPath: /tmp}
{{- if .Values.filesSecret }}
- {name: files, mountPath: /etc/gramwatt, readOnly: true}
{{- end }}
{{- end }}

{{- define "gramwatt.confined" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities: {drop: [ALL]}
{{- end }}

{{- define "gramwatt.settings" -}}
- secretRef: {name: {{ .Values.existingSecret }}}
- configMapRef: {name: {{ .Release.Name }}}
{{- end }}
