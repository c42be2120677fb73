#!/usr/bin/env bash
# Makes the history of log-0d78381.jsonl.gz: starts an installation, works with it, exports its log, stops it.
# Usage, in a checkout of the commit after `uv sync --frozen`, with kubectl on PATH: bash make-0d78381.sh OUT_DIR
set -euo pipefail
out=$1
dir=$out/installation
bin=$PWD/.venv/bin
export KUBECONFIG="$dir/control.kubeconfig" TZ=UTC
export FLEETLOG_FEATURE_GATES=Failover=true,StatefulFailoverInjection=true FLEETLOG_ENABLE_NO_EXECUTE_TAINT_EVICTION=true
export FLEETLOG_DESCHEDULING_INTERVAL=2s FLEETLOG_UNSCHEDULABLE_THRESHOLD=2s
mkdir -p "$out"
start() {
    "$bin/fleetlog" up --members 4 --nodes 2 --descheduler --dir "$dir" >"$out/up.log" 2>&1 &
    up=$!
    until grep -qx ready "$out/up.log"; do kill -0 $up; sleep 0.5; done
}
stop() {
    kill -TERM $up 2>/dev/null || true
    wait $up || true
}
trap stop EXIT
start
member() { # number, and arguments of kubectl
    number=$1
    shift
    kubectl --kubeconfig "$dir/member$number.kubeconfig" "$@"
}

# settled: nothing new on the log for four seconds
settled() {
    last=
    while :; do
        sleep 4
        now=$("$bin/fleetlog" events --dir "$dir" --tail 1 -o json | cut -c1-60)
        [ "$now" = "$last" ] && return
        last=$now
    done
}
step() { echo "== $1"; settled; }

# Clusters: labels and places to choose by.
kubectl label cluster member1 member2 tier=gold
kubectl label cluster member3 member4 tier=silver
i=1
for region in north north south south; do
    kubectl patch cluster member$i --type merge -p "{\"spec\":{\"provider\":\"sim\",\"region\":\"$region\",\"zones\":[\"$region-$i\"]}}"
    i=$((i + 1))
done
step "clusters labelled"

deployment() { # name replicas cpu [image]
    cat <<YAML
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: $1, namespace: default, labels: {app: $1}}
spec:
  replicas: $2
  selector: {matchLabels: {app: $1}}
  template:
    metadata: {labels: {app: $1}}
    spec:
      containers:
        - name: main
          image: ${4:-nginx:1.27}
          resources: {requests: {cpu: "$3", memory: 64Mi}}
YAML
}

policy() { # name kind name-of-object [more of the spec], and the placement on standard input
    case $2 in Deployment) api=apps/v1 ;; Guestbook) api=webapp.my.domain/v1 ;; *) api=v1 ;; esac
    cat <<YAML
---
apiVersion: policy.karmada.io/v1alpha1
kind: PropagationPolicy
metadata: {name: $1, namespace: default}
spec:
  resourceSelectors: [{apiVersion: $api, kind: $2, name: $3}]
  placement: $(cat)
$(for more in "${@:4}"; do echo "  $more"; done)
YAML
}

words() { # name, first number, last number: a ConfigMap of about 90 bytes per number
    echo "---"
    echo "{apiVersion: v1, kind: ConfigMap, metadata: {name: $1, namespace: default}, data: {"
    seq "$2" "$3" | while read -r n; do echo "  word-$n: one of the many words of the ConfigMap $1 that is number $n of them,"; done
    echo "}}"
}

# Every shape of placement.
{
    deployment static 6 50m
    deployment dynamic 9 500m
    deployment packed 5 250m
    deployment groups 2 50m
    deployment spread 4 50m
    deployment moving 3 50m
    deployment homeless 1 50m
    deployment huge 3 900
    deployment restless 2 50m
    words big 100 599
    cat <<'YAML'
---
apiVersion: v1
kind: ConfigMap
metadata: {name: everywhere, namespace: default}
data: {greeting: hello, size: "3"}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: kept, namespace: default, labels: {app: kept}}
data: {mode: first}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: paused, namespace: default}
data: {mode: first}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: taken, namespace: default}
data: {mode: ours}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: required, namespace: default}
data: {mode: first}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: requiring, namespace: default}
spec:
  replicas: 2
  selector: {matchLabels: {app: requiring}}
  template:
    metadata: {labels: {app: requiring}}
    spec:
      containers:
        - name: main
          image: nginx:1.27
          envFrom: [{configMapRef: {name: required}}]
---
apiVersion: v1
kind: Secret
metadata: {name: hidden, namespace: default}
type: Opaque
stringData: {word: only-for-a-test}
YAML
} >"$out/objects.yaml"
member 2 create configmap taken --from-literal=mode=of-the-member
kubectl create namespace team
kubectl apply -f "$out/objects.yaml"
{
    policy static Deployment static <<'JSON'
{clusterAffinity: {clusterNames: [member1, member2]}, replicaScheduling: {replicaSchedulingType: Divided, replicaDivisionPreference: Weighted, weightPreference: {staticWeightList: [{targetCluster: {clusterNames: [member1]}, weight: 2}, {targetCluster: {clusterNames: [member2]}, weight: 1}]}}}
JSON
    policy dynamic Deployment dynamic <<'JSON'
{replicaScheduling: {replicaSchedulingType: Divided, replicaDivisionPreference: Weighted, weightPreference: {dynamicWeight: AvailableReplicas}}}
JSON
    policy packed Deployment packed <<'JSON'
{clusterAffinity: {labelSelector: {matchLabels: {tier: silver}}}, replicaScheduling: {replicaSchedulingType: Divided, replicaDivisionPreference: Aggregated}}
JSON
    policy groups Deployment groups "failover: {cluster: {purgeMode: Directly}}" <<'JSON'
{clusterAffinities: [{affinityName: first, clusterNames: [absent]}, {affinityName: second, labelSelector: {matchLabels: {tier: gold}}}, {affinityName: third, clusterNames: [member4]}], replicaScheduling: {replicaSchedulingType: Duplicated}}
JSON
    policy spread Deployment spread <<'JSON'
{spreadConstraints: [{spreadByField: region, minGroups: 2, maxGroups: 2}, {spreadByField: cluster, minGroups: 2, maxGroups: 3}], replicaScheduling: {replicaSchedulingType: Divided, replicaDivisionPreference: Weighted, weightPreference: {dynamicWeight: AvailableReplicas}}}
JSON
    policy moving Deployment moving <<'JSON'
{clusterAffinity: {clusterNames: [member1]}, clusterTolerations: [{key: maintenance, operator: Exists, effect: NoSchedule}]}
JSON
    policy homeless Deployment homeless <<'JSON'
{clusterAffinity: {clusterNames: [absent]}}
JSON
    policy huge Deployment huge <<'JSON'
{replicaScheduling: {replicaSchedulingType: Divided, replicaDivisionPreference: Weighted, weightPreference: {dynamicWeight: AvailableReplicas}}}
JSON
    policy restless Deployment restless "propagateDeps: true" "failover: {application: {decisionConditions: {tolerationSeconds: 1}, gracePeriodSeconds: 30, purgeMode: Directly, statePreservation: {rules: [{aliasLabelName: example/replicas, jsonPath: '{.replicas}'}]}}}" <<'JSON'
{clusterAffinities: [{affinityName: here, clusterNames: [member3]}, {affinityName: there, clusterNames: [member4]}]}
JSON
    policy requiring Deployment requiring "propagateDeps: true" "priority: 3" <<'JSON'
{clusterAffinity: {clusterNames: [member1, member4]}, replicaScheduling: {replicaSchedulingType: Duplicated}}
JSON
    policy big ConfigMap big <<'JSON'
{clusterAffinity: {clusterNames: [member1, member3]}}
JSON
    policy kept ConfigMap kept "preserveResourcesOnDeletion: true" "conflictResolution: Overwrite" <<'JSON'
{clusterAffinity: {clusterNames: [member1, member2]}}
JSON
    policy paused ConfigMap paused "suspension: {dispatching: true}" <<'JSON'
{clusterAffinity: {clusterNames: [member1]}}
JSON
    policy taken ConfigMap taken <<'JSON'
{clusterAffinity: {clusterNames: [member1, member2]}}
JSON
    policy everywhere ConfigMap everywhere <<'JSON'
{clusterAffinity: {exclude: [member4]}}
JSON
    policy hidden Secret hidden <<'JSON'
{clusterAffinity: {fieldSelector: {matchExpressions: [{key: region, operator: In, values: [north]}]}}}
JSON
} | kubectl apply -f -
step "objects and policies"

# A kind of its own, and an override of it in one cluster.
examples=services/cli/examples
kubectl apply -f $examples/guestbooks-crd.yaml
kubectl apply -f $examples/guestbooks-clusterpropagationpolicy.yaml
step "custom kind"
kubectl apply -f $examples/guestbook.yaml
kubectl apply -f $examples/guestbooks-propagationpolicy.yaml
kubectl apply -f $examples/guestbooks-overridepolicy.yaml
kubectl apply -f - <<'YAML'
apiVersion: policy.karmada.io/v1alpha1
kind: ClusterOverridePolicy
metadata: {name: registry}
spec:
  resourceSelectors: [{apiVersion: apps/v1, kind: Deployment, name: static}]
  overrideRules:
    - targetCluster: {clusterNames: [member2]}
      overriders:
        imageOverrider: [{component: Registry, operator: add, value: registry.example}]
        labelsOverrider: [{operator: add, value: {mirrored: "true"}}]
---
apiVersion: policy.karmada.io/v1alpha1
kind: OverridePolicy
metadata: {name: impossible, namespace: default}
spec:
  resourceSelectors: [{apiVersion: v1, kind: ConfigMap, name: kept}]
  overrideRules:
    - targetCluster: {clusterNames: [member2]}
      overriders: {plaintext: [{path: /data/absent/deeper, operator: replace, value: x}]}
YAML
step "overrides"

# Replicas, templates and policies change.
kubectl scale deployment static --replicas 7
kubectl scale deployment dynamic --replicas 14
kubectl patch configmap everywhere -p '{"data":{"size":"4"}}'
kubectl patch secret hidden -p '{"stringData":{"word":"another"}}'
kubectl set image deployment moving main=nginx:1.29
kubectl patch configmap kept -p '{"data":{"mode":"second"}}'
words big 100 600 | kubectl apply -f -
member 1 patch configmap kept -p '{"data":{"mode":"of somebody else"}}'
step "changed"
member 2 delete configmap taken
kubectl patch propagationpolicy paused --type merge -p '{"spec":{"suspension":null}}'
step "resumed"

# The services end, and others go on.
stop
start
step "restarted"
kubectl scale deployment dynamic --replicas 6
kubectl patch propagationpolicy static --type json -p '[{"op":"replace","path":"/spec/placement/replicaScheduling/weightPreference/staticWeightList/1/weight","value":3}]'
kubectl patch propagationpolicy everywhere --type merge -p '{"spec":{"placement":{"clusterAffinity":{"exclude":["member1"]}}}}'
kubectl patch propagationpolicy moving --type merge -p '{"spec":{"placement":{"clusterAffinity":{"clusterNames":["member2"]}}}}'
step "moved"

# A cluster is cordoned, and drained by a taint that one object tolerates; then it is free again.
"$bin/karmadactl" cordon member2
kubectl scale deployment packed --replicas 7
kubectl scale deployment static --replicas 8
step "cordoned"
"$bin/karmadactl" taint clusters member2 maintenance=now:NoExecute
step "evicted"
"$bin/karmadactl" taint clusters member2 maintenance:NoExecute-
"$bin/karmadactl" uncordon member2
step "free again"

# A cluster whose nodes take nothing more keeps less than it was given: the descheduler takes replicas back.
for node in $(member 3 get nodes -o name); do member 3 cordon "$node"; done
kubectl set image deployment/packed deployment/dynamic main=nginx:1.29
member 3 delete pod -l 'app in (restless, packed, dynamic)'
step "descheduled"

# What failed finds a cluster; the rest goes.
kubectl patch propagationpolicy homeless --type merge -p '{"spec":{"placement":{"clusterAffinity":{"clusterNames":["member4"]}}}}'
kubectl delete overridepolicy guestbook-sample
step "found"
kubectl delete deployment groups huge
kubectl delete configmap everywhere
kubectl delete propagationpolicy spread
kubectl delete configmap kept
step "deleted"
# The same name again, as another object.
kubectl create configmap everywhere --from-literal=greeting=again
"$bin/karmadactl" --kubeconfig "$KUBECONFIG" unjoin member4
step "left"

"$bin/fleetlog" log verify --dir "$dir"
"$bin/fleetlog" log export "$out/log-0d78381.jsonl.gz" --dir "$dir"
"$bin/fleetlog" history deployment static --dir "$dir" -o json >"$out/history-static.json"
"$bin/fleetlog" history configmap everywhere --dir "$dir" -o json >"$out/history-everywhere.json"
"$bin/fleetlog" events --dir "$dir" --tail 0 >"$out/events.txt"
"$bin/fleetlog" replay --from "$out/log-0d78381.jsonl.gz" -o json >"$out/replay.json" || echo "replay: decisions differ"
