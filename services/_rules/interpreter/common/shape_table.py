"""The field types of the native kinds, as a table.

An entry is `name,name:type`; types: s text, i whole number, b boolean, t time, q quantity, x whole number or text,
`*` anything, `[T]` list, `{T}` object with values of T, otherwise the name of another shape. Longer than other files
because it is a table: one line per shape.
"""

from typing import Final

_META: Final = {
    "Meta": "name,generateName,namespace,selfLink,uid,resourceVersion:s generation,deletionGracePeriodSeconds:i "
    "creationTimestamp,deletionTimestamp:t labels,annotations:{s} finalizers:[s] ownerReferences:[Owner] "
    "managedFields:[Managed]",
    "Owner": "apiVersion,kind,name,uid:s controller,blockOwnerDeletion:b",
    "Managed": "manager,operation,apiVersion,fieldsType,subresource:s time:t fieldsV1:*",
    "Selector": "matchLabels:{s} matchExpressions:[SelectorTerm]",
    "SelectorTerm": "key,operator:s values:[s]",
    "Reference": "kind,namespace,name,uid,apiVersion,resourceVersion,fieldPath:s",
    "TypedReference": "apiGroup,kind,name,namespace:s",
    "Named": "name:s",
    "NamedNs": "name,namespace:s",
    "Condition": "type,status,reason,message:s lastTransitionTime:t observedGeneration:i",
    "ProbedCondition": "type,status,reason,message:s lastTransitionTime,lastProbeTime,lastUpdateTime:t "
    "observedGeneration:i",
}

_POD: Final = {
    "PodTemplate": "metadata:Meta spec:PodSpec",
    "PodSpec": "volumes:[Volume] containers,initContainers,ephemeralContainers:[Container] "
    "restartPolicy,dnsPolicy,serviceAccountName,serviceAccount,nodeName,hostname,subdomain,schedulerName,"
    "priorityClassName,runtimeClassName,preemptionPolicy,hostnameOverride:s "
    "terminationGracePeriodSeconds,activeDeadlineSeconds,priority:i nodeSelector:{s} "
    "automountServiceAccountToken,hostNetwork,hostPID,hostIPC,shareProcessNamespace,enableServiceLinks,"
    "setHostnameAsFQDN,hostUsers:b securityContext:PodSecurity imagePullSecrets:[Named] affinity:Affinity "
    "tolerations:[Toleration] hostAliases:[HostAlias] dnsConfig:Dns readinessGates:[ReadinessGate] overhead:{q} "
    "topologySpreadConstraints:[Spread] os:Named schedulingGates:[Named] resourceClaims:[PodClaim] resources:Resources",
    "PodSecurity": "seLinuxOptions:SeLinux windowsOptions:Windows runAsUser,runAsGroup,fsGroup:i runAsNonRoot:b "
    "supplementalGroups:[i] supplementalGroupsPolicy,fsGroupChangePolicy,seLinuxChangePolicy:s sysctls:[Variable] "
    "seccompProfile,appArmorProfile:Profile",
    "SeLinux": "user,role,type,level:s",
    "Windows": "gmsaCredentialSpecName,gmsaCredentialSpec,runAsUserName:s hostProcess:b",
    "Profile": "type,localhostProfile:s",
    "Variable": "name,value:s",
    "HostAlias": "ip:s hostnames:[s]",
    "Dns": "nameservers,searches:[s] options:[Variable]",
    "ReadinessGate": "conditionType:s",
    "Spread": "maxSkew,minDomains:i topologyKey,whenUnsatisfiable,nodeAffinityPolicy,nodeTaintsPolicy:s "
    "labelSelector:Selector matchLabelKeys:[s]",
    "PodClaim": "name,resourceClaimName,resourceClaimTemplateName:s",
    "Toleration": "key,operator,value,effect:s tolerationSeconds:i",
    "Affinity": "nodeAffinity:NodeAffinity podAffinity,podAntiAffinity:PodAffinity",
    "NodeAffinity": "requiredDuringSchedulingIgnoredDuringExecution:NodeSelector "
    "preferredDuringSchedulingIgnoredDuringExecution:[PreferredNodes]",
    "NodeSelector": "nodeSelectorTerms:[NodeTerm]",
    "NodeTerm": "matchExpressions,matchFields:[SelectorTerm]",
    "PreferredNodes": "weight:i preference:NodeTerm",
    "PodAffinity": "requiredDuringSchedulingIgnoredDuringExecution:[PodTerm] "
    "preferredDuringSchedulingIgnoredDuringExecution:[PreferredPods]",
    "PodTerm": "labelSelector,namespaceSelector:Selector namespaces,matchLabelKeys,mismatchLabelKeys:[s] topologyKey:s",
    "PreferredPods": "weight:i podAffinityTerm:PodTerm",
    "Container": "name,image,workingDir,terminationMessagePath,terminationMessagePolicy,imagePullPolicy,restartPolicy,"
    "targetContainerName:s command,args:[s] ports:[ContainerPort] envFrom:[EnvFrom] env:[Env] resources:Resources "
    "resizePolicy:[Resize] volumeMounts:[Mount] volumeDevices:[Device] livenessProbe,readinessProbe,startupProbe:Probe "
    "lifecycle:Lifecycle securityContext:Security stdin,stdinOnce,tty:b",
    "ContainerPort": "name,protocol,hostIP:s hostPort,containerPort:i",
    "EnvFrom": "prefix:s configMapRef,secretRef:OptionalName",
    "OptionalName": "name:s optional:b",
    "Env": "name,value:s valueFrom:EnvSource",
    "EnvSource": "fieldRef:FieldRef resourceFieldRef:ResourceRef configMapKeyRef,secretKeyRef:KeyRef "
    "fileKeyRef:FileKeyRef",
    "FieldRef": "apiVersion,fieldPath:s",
    "ResourceRef": "containerName,resource:s divisor:q",
    "KeyRef": "name,key:s optional:b",
    "FileKeyRef": "volumeName,path,key:s optional:b",
    "Resources": "limits,requests:{q} claims:[ResourceClaim]",
    "ResourceClaim": "name,request:s",
    "Resize": "resourceName,restartPolicy:s",
    "Mount": "name,mountPath,subPath,subPathExpr,mountPropagation,recursiveReadOnly:s readOnly:b",
    "Device": "name,devicePath:s",
    "Probe": "exec:Exec httpGet:HttpGet tcpSocket:TcpSocket grpc:Grpc initialDelaySeconds,timeoutSeconds,"
    "periodSeconds,successThreshold,failureThreshold,terminationGracePeriodSeconds:i",
    "Exec": "command:[s]",
    "HttpGet": "path,host,scheme:s port:x httpHeaders:[Variable]",
    "TcpSocket": "host:s port:x",
    "Grpc": "port:i service:s",
    "Lifecycle": "postStart,preStop:Handler stopSignal:s",
    "Handler": "exec:Exec httpGet:HttpGet tcpSocket:TcpSocket sleep:Sleep",
    "Sleep": "seconds:i",
    "Security": "capabilities:Capabilities privileged,runAsNonRoot,readOnlyRootFilesystem,allowPrivilegeEscalation:b "
    "seLinuxOptions:SeLinux windowsOptions:Windows runAsUser,runAsGroup:i procMount:s "
    "seccompProfile,appArmorProfile:Profile",
    "Capabilities": "add,drop:[s]",
}

_VOLUMES: Final = {
    "Volume": "name:s hostPath:HostPath emptyDir:EmptyDir gcePersistentDisk:GceDisk awsElasticBlockStore:AwsDisk "
    "gitRepo:GitRepo secret:SecretVolume nfs:Nfs iscsi:Iscsi glusterfs:Gluster persistentVolumeClaim:ClaimVolume "
    "rbd:Rbd flexVolume:Flex cinder:Cinder cephfs:Ceph flocker:Flocker downwardAPI:Downward fc:Fc azureFile:AzureFile "
    "configMap:ConfigMapVolume vsphereVolume:Vsphere quobyte:Quobyte azureDisk:AzureDisk photonPersistentDisk:Photon "
    "projected:Projected portworxVolume:Portworx scaleIO:ScaleIo storageos:StorageOs csi:Csi ephemeral:Ephemeral "
    "image:ImageVolume",
    "HostPath": "path,type:s",
    "EmptyDir": "medium:s sizeLimit:q",
    "GceDisk": "pdName,fsType:s partition:i readOnly:b",
    "AwsDisk": "volumeID,fsType:s partition:i readOnly:b",
    "GitRepo": "repository,revision,directory:s",
    "SecretVolume": "secretName:s items:[KeyPath] defaultMode:i optional:b",
    "ConfigMapVolume": "name:s items:[KeyPath] defaultMode:i optional:b",
    "KeyPath": "key,path:s mode:i",
    "Nfs": "server,path:s readOnly:b",
    "Iscsi": "targetPortal,iqn,iscsiInterface,fsType,initiatorName:s lun:i portals:[s] "
    "readOnly,chapAuthDiscovery,chapAuthSession:b secretRef:NamedNs",
    "Gluster": "endpoints,path,endpointsNamespace:s readOnly:b",
    "ClaimVolume": "claimName:s readOnly:b",
    "Rbd": "monitors:[s] image,fsType,pool,user,keyring:s secretRef:NamedNs readOnly:b",
    "Flex": "driver,fsType:s secretRef:NamedNs readOnly:b options:{s}",
    "Cinder": "volumeID,fsType:s readOnly:b secretRef:NamedNs",
    "Ceph": "monitors:[s] path,user,secretFile:s secretRef:NamedNs readOnly:b",
    "Flocker": "datasetName,datasetUUID:s",
    "Downward": "items:[DownwardItem] defaultMode:i",
    "DownwardItem": "path:s fieldRef:FieldRef resourceFieldRef:ResourceRef mode:i",
    "Fc": "targetWWNs,wwids:[s] lun:i fsType:s readOnly:b",
    "AzureFile": "secretName,shareName,secretNamespace:s readOnly:b",
    "Vsphere": "volumePath,fsType,storagePolicyName,storagePolicyID:s",
    "Quobyte": "registry,volume,user,group,tenant:s readOnly:b",
    "AzureDisk": "diskName,diskURI,cachingMode,fsType,kind:s readOnly:b",
    "Photon": "pdID,fsType:s",
    "Projected": "sources:[ProjectedSource] defaultMode:i",
    "ProjectedSource": "secret:SecretProjection downwardAPI:Downward configMap:SecretProjection "
    "serviceAccountToken:TokenProjection clusterTrustBundle:TrustBundle",
    "SecretProjection": "name:s items:[KeyPath] optional:b",
    "TokenProjection": "audience,path:s expirationSeconds:i",
    "TrustBundle": "name,signerName,path:s labelSelector:Selector optional:b",
    "Portworx": "volumeID,fsType:s readOnly:b",
    "ScaleIo": "gateway,system,protectionDomain,storagePool,storageMode,volumeName,fsType:s secretRef:NamedNs "
    "sslEnabled,readOnly:b",
    "StorageOs": "volumeName,volumeNamespace,fsType:s readOnly:b secretRef:Reference",
    "Csi": "driver,fsType,volumeHandle:s readOnly:b volumeAttributes:{s} nodePublishSecretRef,"
    "controllerPublishSecretRef,nodeStageSecretRef,controllerExpandSecretRef,nodeExpandSecretRef:NamedNs",
    "Ephemeral": "volumeClaimTemplate:ClaimTemplate",
    "ClaimTemplate": "metadata:Meta spec:ClaimSpec",
    "ImageVolume": "reference,pullPolicy:s",
    "Local": "path,fsType:s",
    "ClaimSpec": "accessModes:[s] selector:Selector resources:Resources volumeName,storageClassName,volumeMode,"
    "volumeAttributesClassName:s dataSource,dataSourceRef:TypedReference",
}

_KINDS: Final = {
    "Deployment": "metadata:Meta spec:DeploymentSpec status:DeploymentStatus",
    "DeploymentSpec": "replicas,minReadySeconds,revisionHistoryLimit,progressDeadlineSeconds:i selector:Selector "
    "template:PodTemplate strategy:Strategy paused:b",
    "Strategy": "type:s rollingUpdate:Rolling",
    "Rolling": "maxUnavailable,maxSurge:x partition:i",
    "DeploymentStatus": "observedGeneration,generation,resourceTemplateGeneration,replicas,updatedReplicas,"
    "readyReplicas,availableReplicas,unavailableReplicas,terminatingReplicas,collisionCount:i "
    "conditions:[ProbedCondition]",
    "ReplicaSet": "metadata:Meta spec:ReplicaSetSpec status:ReplicaSetStatus",
    "ReplicaSetSpec": "replicas,minReadySeconds:i selector:Selector template:PodTemplate",
    "ReplicaSetStatus": "replicas,fullyLabeledReplicas,readyReplicas,availableReplicas,terminatingReplicas,"
    "observedGeneration,generation,resourceTemplateGeneration:i conditions:[Condition]",
    "DaemonSet": "metadata:Meta spec:DaemonSetSpec status:DaemonSetStatus",
    "DaemonSetSpec": "selector:Selector template:PodTemplate updateStrategy:Strategy "
    "minReadySeconds,revisionHistoryLimit:i",
    "DaemonSetStatus": "currentNumberScheduled,numberMisscheduled,desiredNumberScheduled,numberReady,"
    "observedGeneration,updatedNumberScheduled,numberAvailable,numberUnavailable,collisionCount,generation,"
    "resourceTemplateGeneration:i conditions:[Condition]",
    "StatefulSet": "metadata:Meta spec:StatefulSetSpec status:StatefulSetStatus",
    "StatefulSetSpec": "replicas,revisionHistoryLimit,minReadySeconds:i selector:Selector template:PodTemplate "
    "volumeClaimTemplates:[PersistentVolumeClaim] serviceName,podManagementPolicy:s updateStrategy:Strategy "
    "persistentVolumeClaimRetentionPolicy:ClaimRetention ordinals:Ordinals",
    "ClaimRetention": "whenDeleted,whenScaled:s",
    "Ordinals": "start:i",
    "StatefulSetStatus": "observedGeneration,replicas,readyReplicas,currentReplicas,updatedReplicas,"
    "availableReplicas,collisionCount,generation,resourceTemplateGeneration:i currentRevision,updateRevision:s "
    "conditions:[Condition]",
    "Job": "metadata:Meta spec:JobSpec status:JobStatus",
    "JobSpec": "parallelism,completions,activeDeadlineSeconds,backoffLimit,backoffLimitPerIndex,maxFailedIndexes,"
    "ttlSecondsAfterFinished:i selector:Selector manualSelector,suspend:b template:PodTemplate "
    "completionMode,podReplacementPolicy,managedBy:s podFailurePolicy:FailurePolicy successPolicy:SuccessPolicy",
    "FailurePolicy": "rules:[FailureRule]",
    "FailureRule": "action:s onExitCodes:ExitCodes onPodConditions:[Condition]",
    "ExitCodes": "containerName,operator:s values:[i]",
    "SuccessPolicy": "rules:[SuccessRule]",
    "SuccessRule": "succeededIndexes:s succeededCount:i",
    "JobStatus": "conditions:[ProbedCondition] startTime,completionTime:t active,succeeded,failed,terminating,ready:i "
    "completedIndexes,failedIndexes:s uncountedTerminatedPods:Uncounted",
    "Uncounted": "succeeded,failed:[s]",
    "CronJob": "metadata:Meta spec:CronJobSpec status:CronJobStatus",
    "CronJobSpec": "schedule,timeZone,concurrencyPolicy:s startingDeadlineSeconds,successfulJobsHistoryLimit,"
    "failedJobsHistoryLimit:i suspend:b jobTemplate:JobTemplate",
    "JobTemplate": "metadata:Meta spec:JobSpec",
    "CronJobStatus": "active:[Reference] lastScheduleTime,lastSuccessfulTime:t",
    "Pod": "metadata:Meta spec:PodSpec status:PodStatus",
    "PodStatus": "observedGeneration:i phase,message,reason,nominatedNodeName,hostIP,podIP,qosClass,resize:s "
    "conditions:[ProbedCondition] hostIPs,podIPs:[Address] startTime:t "
    "containerStatuses,initContainerStatuses,ephemeralContainerStatuses:[ContainerStatus]",
    "Address": "ip:s",
    "ContainerStatus": "name,image,imageID,containerID,stopSignal:s state,lastState:ContainerState ready,started:b "
    "restartCount:i allocatedResources:{q} resources:Resources volumeMounts:[Mount]",
    "ContainerState": "waiting:Waiting running:Running terminated:Terminated",
    "Waiting": "reason,message:s",
    "Running": "startedAt:t",
    "Terminated": "exitCode,signal:i reason,message,containerID:s startedAt,finishedAt:t",
    "Service": "metadata:Meta spec:ServiceSpec status:ServiceStatus",
    "ServiceSpec": "ports:[ServicePort] selector:{s} clusterIP,type,sessionAffinity,loadBalancerIP,externalName,"
    "externalTrafficPolicy,ipFamilyPolicy,loadBalancerClass,internalTrafficPolicy,trafficDistribution:s "
    "clusterIPs,externalIPs,loadBalancerSourceRanges,ipFamilies:[s] healthCheckNodePort:i "
    "publishNotReadyAddresses,allocateLoadBalancerNodePorts:b sessionAffinityConfig:SessionAffinity",
    "SessionAffinity": "clientIP:ClientIp",
    "ClientIp": "timeoutSeconds:i",
    "ServicePort": "name,protocol,appProtocol:s port,nodePort:i targetPort:x",
    "ServiceStatus": "loadBalancer:LoadBalancer conditions:[Condition]",
    "LoadBalancer": "ingress:[Balanced]",
    "Balanced": "ip,hostname,ipMode:s ports:[BalancedPort]",
    "BalancedPort": "port:i protocol,error:s",
    "Ingress": "metadata:Meta spec:IngressSpec status:IngressStatus",
    "IngressSpec": "ingressClassName:s defaultBackend:Backend tls:[Tls] rules:[IngressRule]",
    "Backend": "service:BackendService resource:TypedReference",
    "BackendService": "name:s port:BackendPort",
    "BackendPort": "name:s number:i",
    "Tls": "hosts:[s] secretName:s",
    "IngressRule": "host:s http:HttpRule",
    "HttpRule": "paths:[HttpPath]",
    "HttpPath": "path,pathType:s backend:Backend",
    "IngressStatus": "loadBalancer:LoadBalancer",
    "PersistentVolumeClaim": "metadata:Meta spec:ClaimSpec status:PersistentVolumeClaimStatus",
    "PersistentVolumeClaimStatus": "phase,currentVolumeAttributesClassName:s accessModes:[s] "
    "capacity,allocatedResources:{q} conditions:[ProbedCondition] allocatedResourceStatuses:{s} "
    "modifyVolumeStatus:ModifyVolume",
    "ModifyVolume": "targetVolumeAttributesClassName,status:s",
    "PersistentVolume": "metadata:Meta spec:VolumeSpec status:PersistentVolumeStatus",
    "VolumeSpec": "capacity:{q} accessModes,mountOptions:[s] claimRef:Reference persistentVolumeReclaimPolicy,"
    "storageClassName,volumeMode,volumeAttributesClassName:s nodeAffinity:VolumeAffinity hostPath:HostPath nfs:Nfs "
    "iscsi:Iscsi rbd:Rbd cephfs:Ceph cinder:Cinder csi:Csi local:Local fc:Fc flexVolume:Flex glusterfs:Gluster "
    "gcePersistentDisk:GceDisk awsElasticBlockStore:AwsDisk azureDisk:AzureDisk azureFile:AzureFile scaleIO:ScaleIo",
    "VolumeAffinity": "required:NodeSelector",
    "PersistentVolumeStatus": "phase,message,reason:s lastPhaseTransitionTime:t",
    "PodDisruptionBudget": "metadata:Meta spec:BudgetSpec status:PodDisruptionBudgetStatus",
    "BudgetSpec": "minAvailable,maxUnavailable:x selector:Selector unhealthyPodEvictionPolicy:s",
    "PodDisruptionBudgetStatus": "observedGeneration,disruptionsAllowed,currentHealthy,desiredHealthy,expectedPods:i "
    "disruptedPods:{t} conditions:[Condition]",
    "HorizontalPodAutoscaler": "metadata:Meta spec:ScalerSpec status:HorizontalPodAutoscalerStatus",
    "ScalerSpec": "scaleTargetRef:TypedScaleRef minReplicas,maxReplicas:i metrics:[Metric] behavior:Behavior",
    "TypedScaleRef": "apiVersion,kind,name:s",
    "Behavior": "scaleUp,scaleDown:ScalingRules",
    "ScalingRules": "stabilizationWindowSeconds:i selectPolicy:s policies:[ScalingPolicy] tolerance:q",
    "ScalingPolicy": "type:s value,periodSeconds:i",
    "Metric": "type:s object,pods,resource,containerResource,external:MetricSource",
    "MetricSource": "name,container:s describedObject:TypedScaleRef metric:MetricName target,current:MetricValue",
    "MetricName": "name:s selector:Selector",
    "MetricValue": "type:s value,averageValue:q averageUtilization:i",
    "HorizontalPodAutoscalerStatus": "observedGeneration,currentReplicas,desiredReplicas:i lastScaleTime:t "
    "currentMetrics:[Metric] conditions:[Condition]",
    "ServiceImport": "metadata:Meta spec:ImportSpec status:ImportStatus",
    "ImportSpec": "type,sessionAffinity:s ips:[s] ports:[ServicePort] sessionAffinityConfig:SessionAffinity",
    "ImportStatus": "clusters:[ImportCluster] conditions:[Condition]",
    "ImportCluster": "cluster:s",
}

SHAPES: Final[dict[str, str]] = {**_META, **_POD, **_VOLUMES, **_KINDS}
