{{- /* Takes the certificate of a front from the Secret that cert-manager writes, and all else from its usual one. */ -}}
{{- define "fleetlog.projected" -}}
{{- range $volume := .volumes -}}
{{- if and $volume.secret (has $volume.secret.secretName (list "fleetlog-gateway" "fleetlog-search")) -}}
{{- $usual := $volume.secret.secretName -}}
{{- $kept := list (dict "key" "tokens" "path" "tokens") (dict "key" "front-proxy-ca.crt" "path" "front-proxy-ca.crt") -}}
{{- $pair := list (dict "key" "tls.crt" "path" "tls.crt") (dict "key" "tls.key" "path" "tls.key") -}}
{{- $sources := list (dict "secret" (dict "name" $usual "items" $kept)) (dict "secret" (dict "name" (printf "%s-tls" $usual) "items" $pair)) -}}
{{- $_ := set $volume "projected" (dict "defaultMode" $volume.secret.defaultMode "sources" $sources) -}}
{{- $_ := unset $volume "secret" -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- /* A checksum of the Secrets of a pod as they are in the cluster; of nothing where there is no cluster. */ -}}
{{- define "fleetlog.checksum" -}}
{{- $found := list -}}
{{- $names := list -}}
{{- range .pod.volumes -}}
{{- with .secret -}}{{- $names = append $names .secretName -}}{{- end -}}
{{- range (.projected | default dict).sources -}}{{- with .secret -}}{{- $names = append $names .name -}}{{- end -}}{{- end -}}
{{- end -}}
{{- $namespace := .namespace -}}
{{- range $names -}}{{- $found = append $found (lookup "v1" "Secret" $namespace . | default dict).data -}}{{- end -}}
{{- toJson $found | sha256sum -}}
{{- end -}}

{{- /* What renews certificates: its schedule, and not those that cert-manager makes. */ -}}
{{- define "fleetlog.renewal" -}}
{{- $object := .object -}}
{{- $managed := list -}}
{{- if .values.certificates.certManager.enabled -}}
{{- $managed = list "fleetlog-nats-tls" "fleetlog-gateway" "fleetlog-search" "fleetlog-webhook" -}}
{{- end -}}
{{- $kept := list -}}
{{- if eq $object.kind "Role" -}}
{{- $rule := index $object.rules 0 -}}
{{- range $rule.resourceNames -}}{{- if not (has . $managed) -}}{{- $kept = append $kept . -}}{{- end -}}{{- end -}}
{{- $_ := set $rule "resourceNames" $kept -}}
{{- else if eq $object.kind "CronJob" -}}
{{- $_ := set $object.spec "schedule" .values.certificates.renewal.schedule -}}
{{- $container := index $object.spec.jobTemplate.spec.template.spec.containers 0 -}}
{{- range $container.args -}}{{- if not (has (trimPrefix "--secret=" .) $managed) -}}{{- $kept = append $kept . -}}{{- end -}}{{- end -}}
{{- $_ := set $container "args" $kept -}}
{{- end -}}
{{- end -}}
