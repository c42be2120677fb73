"""The field types of Karmada's kinds, as a table in the notation of the interpreter's shapes.

An entry is `name,name:type`; types: s text, i 32-bit number, l 64-bit number, b boolean, t time, q quantity,
`*` anything, `[T]` list, `{T}` object with values of T, otherwise the name of another shape.
"""

from typing import Final

_HEAD: Final = "apiVersion,kind:s metadata:Meta"

SHAPES: Final = {
    "Meta": "name,generateName,namespace,selfLink,uid,resourceVersion:s generation,deletionGracePeriodSeconds:l "
    "creationTimestamp,deletionTimestamp:t labels,annotations:{s} finalizers:[s] ownerReferences:[Owner] "
    "managedFields:[*]",
    "Owner": "apiVersion,kind,name,uid:s controller,blockOwnerDeletion:b",
    "Selector": "matchLabels:{s} matchExpressions:[Expression]",
    "Expression": "key,operator:s values:[s]",
    "Condition": "type,status,reason,message:s lastTransitionTime:t observedGeneration:l",
    "Named": "name:s",
    "Names": "clusterNames:[s]",
    "SecretRef": "namespace,name:s",
    # Policies.
    "Affinity": "labelSelector:Selector fieldSelector:Fields clusterNames,exclude:[s]",
    "AffinityTerm": "affinityName:s labelSelector:Selector fieldSelector:Fields clusterNames,exclude:[s] "
    "overflowAffinities:[OverflowTerm]",
    "OverflowTerm": "affinityName:s labelSelector:Selector fieldSelector:Fields clusterNames,exclude:[s]",
    "Fields": "matchExpressions:[Expression]",
    "ResourceSelector": "apiVersion,kind,namespace,name:s labelSelector:Selector",
    "Placement": "clusterAffinity:Affinity clusterAffinities:[AffinityTerm] clusterTolerations:[Toleration] "
    "spreadConstraints:[Spread] replicaScheduling:Division workloadAffinity:WorkloadAffinity",
    "Toleration": "key,operator,value,effect:s tolerationSeconds:l",
    "Spread": "spreadByField,spreadByLabel:s maxGroups,minGroups:l",
    "Division": "replicaSchedulingType,replicaDivisionPreference:s weightPreference:Weights",
    "Weights": "staticWeightList:[Weight] dynamicWeight:s",
    "Weight": "targetCluster:Affinity weight:l",
    "WorkloadAffinity": "affinity,antiAffinity:GroupKey",
    "GroupKey": "groupByLabelKey:s",
    "Failover": "application:AppFailover cluster:ClusterFailover",
    "AppFailover": "decisionConditions:Decision purgeMode:s gracePeriodSeconds:i statePreservation:Preservation",
    "Decision": "tolerationSeconds:i",
    "ClusterFailover": "purgeMode:s statePreservation:Preservation",
    "Preservation": "rules:[PreservationRule]",
    "PreservationRule": "aliasLabelName,jsonPath:s",
    "Suspension": "dispatching,scheduling:b dispatchingOnClusters:Names",
    "Propagation": "resourceSelectors:[ResourceSelector] association,propagateDeps,preserveResourcesOnDeletion:b "
    "placement:Placement priority:i preemption,schedulerName,conflictResolution,activationPreference:s "
    "dependentOverrides:[s] failover:Failover suspension:Suspension schedulePriority:PriorityClass",
    "PriorityClass": "priorityClassSource,priorityClassName:s",
    "PropagationPolicy": f"{_HEAD} spec:Propagation",
    "ClusterPropagationPolicy": f"{_HEAD} spec:Propagation",
    "Override": "resourceSelectors:[ResourceSelector] overrideRules:[OverrideRule] targetCluster:Affinity "
    "overriders:Overriders",
    "OverrideRule": "targetCluster:Affinity overriders:Overriders",
    "Overriders": "plaintext:[Plaintext] imageOverrider:[ImageChange] commandOverrider,argsOverrider:[CommandChange] "
    "labelsOverrider,annotationsOverrider:[MapChange] fieldOverrider:[FieldChange]",
    "Plaintext": "path,operator:s value:*",
    "ImageChange": "predicate:Predicate component,operator,value:s",
    "Predicate": "path:s",
    "CommandChange": "containerName,operator:s value:[s]",
    "MapChange": "operator:s value:{s}",
    "FieldChange": "fieldPath:s json,yaml:[FieldOperation]",
    "FieldOperation": "subPath,operator:s value:*",
    "OverridePolicy": f"{_HEAD} spec:Override",
    "ClusterOverridePolicy": f"{_HEAD} spec:Override",
    "FederatedResourceQuota": f"{_HEAD} spec:Quota status:QuotaStatus",
    "Quota": "overall:{q} staticAssignments:[Assignment]",
    "Assignment": "clusterName:s hard:{q}",
    "QuotaStatus": "overall,overallUsed:{q} aggregatedStatus:[ClusterQuota]",
    "ClusterQuota": "clusterName:s hard,used:{q}",
    "ClusterTaintPolicy": f"{_HEAD} spec:TaintPolicy",
    "TaintPolicy": "targetClusters:Affinity addOnConditions,removeOnConditions:[MatchCondition] taints:[PolicyTaint]",
    "MatchCondition": "conditionType,operator:s statusValues:[s]",
    "PolicyTaint": "key,value,effect:s",
    # Bindings and works.
    "ResourceBinding": f"{_HEAD} spec:Binding status:BindingStatus",
    "ClusterResourceBinding": f"{_HEAD} spec:Binding status:BindingStatus",
    "Binding": "resource:Target propagateDeps,preserveResourcesOnDeletion:b replicas:i "
    "replicaRequirements:Requirements components:[Component] clusters:[TargetCluster] placement:Placement "
    "gracefulEvictionTasks:[Eviction] requiredBy:[Snapshot] schedulerName,conflictResolution:s failover:Failover "
    "rescheduleTriggeredAt:t suspension:Suspension schedulePriority:Priority workloadAffinityGroups:Groups",
    "Target": "apiVersion,kind,namespace,name,uid,resourceVersion:s",
    "Requirements": "nodeClaim:NodeClaim resourceRequest:{q} namespace,priorityClassName:s",
    "NodeClaim": "hardNodeAffinity:* nodeSelector:{s} tolerations:[Toleration]",
    "Component": "name:s replicas:i replicaRequirements:Requirements",
    "TargetCluster": "name:s replicas:i components:[NamedReplicas]",
    "NamedReplicas": "name:s replicas:i",
    "Eviction": "fromCluster,purgeMode,reason,message,producer:s replicas,gracePeriodSeconds:i suppressDeletion:b "
    "preservedLabelState:{s} creationTimestamp:t clustersBeforeFailover:[s]",
    "Snapshot": "namespace,name:s clusters:[TargetCluster]",
    "Priority": "priority:i",
    "Groups": "affinityGroup,antiAffinityGroup:s",
    "BindingStatus": "schedulerObservedGeneration:l schedulerObservingAffinityName:s lastScheduledTime:t "
    "conditions:[Condition] aggregatedStatus:[AggregatedItem]",
    "AggregatedItem": "clusterName,appliedMessage,health:s applied:b status:*",
    "Work": f"{_HEAD} spec:WorkSpec status:WorkStatus",
    "WorkSpec": "workload:Workload suspendDispatching,preserveResourcesOnDeletion:b",
    "Workload": "manifests:[*]",
    "WorkStatus": "conditions:[Condition] manifestStatuses:[ManifestStatus]",
    "ManifestStatus": "identifier:Identifier status:* health:s",
    "Identifier": "ordinal:l group,version,kind,resource,namespace,name:s",
    # Clusters, search, interpreters.
    "Cluster": f"{_HEAD} spec:ClusterSpec status:ClusterStatus",
    "ClusterSpec": "id,syncMode,apiEndpoint,proxyURL,provider,region,zone:s secretRef,impersonatorSecretRef:SecretRef "
    "insecureSkipTLSVerification:b proxyHeader:{s} zones:[s] taints:[Taint] resourceModels:[Model]",
    "Taint": "key,value,effect:s timeAdded:t",
    "Model": "grade:l ranges:[ModelRange]",
    "ModelRange": "name:s min,max:q",
    "ClusterStatus": "kubernetesVersion:s apiEnablements:[Enablement] conditions:[Condition] nodeSummary:NodeSummary "
    "resourceSummary:ResourceSummary remedyActions:[s]",
    "Enablement": "groupVersion:s resources:[EnabledResource]",
    "EnabledResource": "name,kind:s",
    "NodeSummary": "totalNum,readyNum:i",
    "ResourceSummary": "allocatable,allocating,allocated:{q} allocatableModelings:[Modeling]",
    "Modeling": "grade,count:l",
    "ResourceRegistry": f"{_HEAD} spec:Registry status:Conditions",
    "Registry": "targetCluster:Affinity resourceSelectors:[SearchSelector] backendStore:Backend",
    "SearchSelector": "apiVersion,kind,namespace:s",
    "Backend": "openSearch:OpenSearch",
    "OpenSearch": "addresses:[s] secretRef:SecretRef",
    "Conditions": "conditions:[Condition]",
    "ResourceInterpreterCustomization": f"{_HEAD} spec:Customization",
    "Customization": "target:CustomizationTarget customizations:Customizations",
    "CustomizationTarget": "apiVersion,kind:s",
    "Customizations": "retention,replicaResource,componentResource,replicaRevision,statusReflection,statusAggregation,"
    "healthInterpretation,dependencyInterpretation:Script",
    "Script": "luaScript:s",
    "ResourceInterpreterWebhookConfiguration": f"{_HEAD} webhooks:[InterpreterHook]",
    "InterpreterHook": "name:s clientConfig:ClientConfig rules:[HookRule] timeoutSeconds:i "
    "interpreterContextVersions:[s]",
    "ClientConfig": "url,caBundle:s service:HookService",
    "HookService": "namespace,name,path:s port:i",
    "HookRule": "operations,apiGroups,apiVersions,kinds:[s]",
    # Scaling.
    "ScaleTarget": "apiVersion,kind,name:s",
    "FederatedHPA": f"{_HEAD} spec:Autoscaler status:AutoscalerStatus",
    "Autoscaler": "scaleTargetRef:ScaleTarget minReplicas,maxReplicas:i metrics:[Metric] behavior:Behavior",
    "Metric": "type:s object:ObjectMetric pods:PodsMetric resource:ResourceMetric "
    "containerResource:ContainerMetric external:ExternalMetric",
    "ObjectMetric": "describedObject:ScaleTarget target:MetricTarget metric:MetricName",
    "PodsMetric": "target:MetricTarget metric:MetricName",
    "ResourceMetric": "name:s target:MetricTarget",
    "ContainerMetric": "name,container:s target:MetricTarget",
    "ExternalMetric": "target:MetricTarget metric:MetricName",
    "MetricName": "name:s selector:Selector",
    "MetricTarget": "type:s value,averageValue:q averageUtilization:i",
    "Behavior": "scaleUp,scaleDown:ScalingRules",
    "ScalingRules": "stabilizationWindowSeconds:i selectPolicy:s policies:[ScalingPolicy] tolerance:q",
    "ScalingPolicy": "type:s value,periodSeconds:i",
    "AutoscalerStatus": "observedGeneration:l lastScaleTime:t currentReplicas,desiredReplicas:i currentMetrics:[*] "
    "conditions:[Condition]",
    "CronFederatedHPA": f"{_HEAD} spec:CronSpec status:CronStatus",
    "CronStatus": "executionHistories:[CronHistory]",
    "CronHistory": "ruleName:s nextExecutionTime:t successfulExecutions,failedExecutions:[CronExecution]",
    "CronExecution": "scheduleTime,executionTime:t appliedReplicas,appliedMaxReplicas,appliedMinReplicas:i message:s",
    "CronSpec": "scaleTargetRef:ScaleTarget rules:[CronRule]",
    "CronRule": "name,schedule,timeZone:s suspend:b targetReplicas,targetMinReplicas,targetMaxReplicas,"
    "successfulHistoryLimit,failedHistoryLimit:i",
    # Networking.
    "MultiClusterService": f"{_HEAD} spec:MultiService status:ServiceStatus",
    "MultiService": "types:[s] ports:[ExposurePort] providerClusters,consumerClusters:[Named] range:Names "
    "serviceProvisionClusters,serviceConsumptionClusters:[s]",
    "ExposurePort": "name:s port:i",
    "ServiceStatus": "loadBalancer:LoadBalancer conditions:[Condition]",
    "LoadBalancer": "ingress:[Address]",
    "Address": "ip,hostname,ipMode:s ports:[AddressPort]",
    "AddressPort": "port:i protocol,error:s",
    "MultiClusterIngress": f"{_HEAD} spec:Ingress status:IngressStatus",
    "Ingress": "ingressClassName:s defaultBackend:IngressBackend tls:[IngressTls] rules:[IngressRule]",
    "IngressBackend": "service:BackendService resource:BackendResource",
    "BackendService": "name:s port:BackendPort",
    "BackendPort": "name:s number:i",
    "BackendResource": "apiGroup,kind,name:s",
    "IngressTls": "hosts:[s] secretName:s",
    "IngressRule": "host:s http:HttpRule",
    "HttpRule": "paths:[HttpPath]",
    "HttpPath": "path,pathType:s backend:IngressBackend",
    "IngressStatus": "loadBalancer:LoadBalancer trafficBlockClusters:[s] serviceLocations:[ServiceLocation]",
    "ServiceLocation": "name:s clusters:[s]",
}
