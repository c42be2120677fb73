{{- /* Addresses as peers of a policy. */ -}}
{{- define "fleetlog.blocks" -}}
{{- $peers := list -}}
{{- range . -}}{{- $peers = append $peers (dict "ipBlock" (dict "cidr" .)) -}}{{- end -}}
{{- toJson $peers -}}
{{- end -}}

{{- /* The rule for the control plane: the addresses and ports of values, in place of the usual ports anywhere. */ -}}
{{- define "fleetlog.control" -}}
{{- $ports := list -}}
{{- range .ports | default (list 443 6443) -}}{{- $ports = append $ports (dict "protocol" "TCP" "port" .) -}}{{- end -}}
{{- $rule := dict "ports" $ports -}}
{{- with .cidrs -}}{{- $_ := set $rule "to" (include "fleetlog.blocks" . | fromJsonArray) -}}{{- end -}}
{{- toJson $rule -}}
{{- end -}}

{{- /* The NetworkPolicy `object`: narrower or wider, by `values`. */ -}}
{{- define "fleetlog.policy" -}}
{{- $values := .values -}}
{{- $spec := .object.spec -}}
{{- $name := .object.metadata.name -}}
{{- $control := include "fleetlog.control" $values.controlPlane | fromJson -}}
{{- $cidrs := $values.networkPolicies.members.cidrs -}}
{{- $egress := list -}}
{{- range $rule := $spec.egress -}}
{{- $ports := list -}}
{{- range $rule.ports -}}{{- $ports = append $ports (int .port) -}}{{- end -}}
{{- if and (not $rule) $cidrs -}}
{{- $egress = append $egress (dict "to" (include "fleetlog.blocks" $cidrs | fromJsonArray)) -}}
{{- if ne $name "kube-apiserver" -}}{{- $egress = append $egress $control -}}{{- end -}}
{{- else if and (not $rule.to) (has 443 $ports) (ne $name "certificate-renewal") -}}
{{- if eq $name "agent-signer" -}}{{- /* It needs the API server of this cluster as well. */ -}}{{- $egress = append $egress $rule -}}{{- end -}}
{{- if not (has $control $egress) -}}{{- $egress = append $egress $control -}}{{- end -}}
{{- else -}}
{{- $egress = append $egress $rule -}}
{{- end -}}
{{- end -}}
{{- if not (has $name (list "nats" "etcd")) -}}
{{- $egress = concat $egress $values.networkPolicies.extraEgress -}}
{{- end -}}
{{- $_ := set $spec "egress" $egress -}}
{{- if and (eq $name "nats") $values.log.from -}}
{{- $ports := list (dict "protocol" "TCP" "port" 4222) -}}
{{- $_ := set $spec "ingress" (append $spec.ingress (dict "from" (include "fleetlog.blocks" $values.log.from | fromJsonArray) "ports" $ports)) -}}
{{- end -}}
{{- end -}}
