{{- /* Changes of a Deployment or StatefulSet by values. Templates change the object that they are given, and write nothing. */ -}}

{{- /* An image: that of the manifest by `image`, with the repository, tag or digest of `wanted`. */ -}}
{{- define "fleetlog.image" -}}
{{- $repository := .wanted.repository | default (regexReplaceAll ":[^:/]+$" .image "") -}}
{{- if .wanted.digest -}}
{{- printf "%s@%s" $repository .wanted.digest -}}
{{- else -}}
{{- printf "%s:%s" $repository (.wanted.tag | default (trimPrefix ":" (regexFind ":[^:/]+$" .image))) -}}
{{- end -}}
{{- end -}}

{{- /* The workload `object` of the product or of another project (`own`), by values of all (`all`) and its own (`set`). */ -}}
{{- define "fleetlog.workload" -}}
{{- $all := .all -}}
{{- $set := .set -}}
{{- $spec := .object.spec -}}
{{- $template := $spec.template -}}
{{- $pod := $template.spec -}}
{{- $container := index $pod.containers 0 -}}
{{- $pods := $all.pods | default dict -}}
{{- $image := $all.image | default dict -}}

{{- if hasKey $set "replicas" -}}
{{- $_ := set $spec "replicas" $set.replicas -}}
{{- else if and $set.enabled (eq (int $spec.replicas) 0) -}}
{{- $_ := set $spec "replicas" 2 -}}
{{- end -}}

{{- $wanted := $set.image | default dict -}}
{{- if .own -}}
{{- $wanted = mergeOverwrite (pick $image "repository" "tag" "digest") $wanted -}}
{{- end -}}
{{- $_ := set $container "image" (include "fleetlog.image" (dict "image" $container.image "wanted" $wanted)) -}}
{{- /* What runs beside the server of another project is the product's. */ -}}
{{- $ours := pick $image "repository" "tag" "digest" -}}
{{- range rest $pod.containers -}}
{{- $_ := set . "image" (include "fleetlog.image" (dict "image" .image "wanted" $ours)) -}}
{{- end -}}
{{- with $image.pullPolicy -}}
{{- $policy := . -}}
{{- range $pod.containers -}}{{- $_ := set . "imagePullPolicy" $policy -}}{{- end -}}
{{- end -}}
{{- with $image.pullSecrets -}}
{{- $names := list -}}
{{- range . -}}{{- $names = append $names (dict "name" .) -}}{{- end -}}
{{- $_ := set $pod "imagePullSecrets" $names -}}
{{- end -}}

{{- with $set.resources -}}
{{- $_ := set $container "resources" (mergeOverwrite (deepCopy ($container.resources | default dict)) .) -}}
{{- end -}}
{{- range $field := list "nodeSelector" "affinity" -}}
{{- $merged := mergeOverwrite (deepCopy (get $pod $field | default dict)) (get $pods $field | default dict | deepCopy) (get $set $field | default dict | deepCopy) -}}
{{- with $merged -}}{{- $_ := set $pod $field . -}}{{- end -}}
{{- end -}}
{{- with concat ($pods.tolerations | default list) ($set.tolerations | default list) -}}
{{- $_ := set $pod "tolerations" . -}}
{{- end -}}
{{- with $set.priorityClassName | default $pods.priorityClassName -}}
{{- $_ := set $pod "priorityClassName" . -}}
{{- end -}}
{{- $metadata := $template.metadata -}}
{{- with mergeOverwrite (deepCopy ($metadata.annotations | default dict)) ($pods.annotations | default dict | deepCopy) ($set.podAnnotations | default dict | deepCopy) (.annotations | default dict) -}}
{{- $_ := set $metadata "annotations" . -}}
{{- end -}}
{{- /* Labels of the selector win: a workload has to find its pods. */ -}}
{{- $_ := set $metadata "labels" (mergeOverwrite ($pods.labels | default dict | deepCopy) ($set.podLabels | default dict | deepCopy) $metadata.labels) -}}

{{- $variables := dict -}}
{{- if .own -}}
{{- with $set.logLevel | default $all.logLevel -}}{{- $_ := set $variables "FLEETLOG_LOG_LEVEL" . -}}{{- end -}}
{{- $variables = mergeOverwrite $variables ($all.env | default dict | deepCopy) -}}
{{- end -}}
{{- $variables = mergeOverwrite $variables ($set.env | default dict | deepCopy) (.env | default dict) -}}
{{- if $variables -}}
{{- $env := list -}}
{{- range $container.env -}}{{- if not (hasKey $variables .name) -}}{{- $env = append $env . -}}{{- end -}}{{- end -}}
{{- range $name, $value := $variables -}}
{{- $env = append $env (dict "name" $name "value" (toString $value)) -}}
{{- end -}}
{{- $_ := set $container "env" $env -}}
{{- end -}}

{{- with $set.extraArgs -}}
{{- $given := dict -}}
{{- range . -}}{{- $_ := set $given (first (splitList "=" .)) . -}}{{- end -}}
{{- $command := list -}}
{{- range $container.command -}}{{- if not (hasKey $given (first (splitList "=" .))) -}}{{- $command = append $command . -}}{{- end -}}{{- end -}}
{{- $_ := set $container "command" (concat $command (values $given | sortAlpha)) -}}
{{- end -}}

{{- with $set.storage -}}
{{- $claim := (index $spec.volumeClaimTemplates 0).spec -}}
{{- with .className -}}{{- $_ := set $claim "storageClassName" . -}}{{- end -}}
{{- with .size -}}{{- $_ := set $claim "resources" (dict "requests" (dict "storage" .)) -}}{{- end -}}
{{- end -}}
{{- end -}}
