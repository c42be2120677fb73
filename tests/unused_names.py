"""Names that `vulture` (`just lint`) takes for unused and that are not: each group says who uses them."""

# Libraries call these, or read them of what they are given: aiohttp, asyncio, io, nats, PyYAML, typer, re2, protobuf.
_.feed_data
_.feed_eof
_.data_received
_.eof_received
_.log_exception
_.handle_error
_.readinto
_.writable
_._parse_header_lines
_._ps
_.connect_tls
_._bare_io_reader
_._bare_io_writer
_._io_reader
_.last_attempt
_.ignore_aliases
_.write_heading
_.format_commands
_.formatter_class
_.get_metavar
_.__signature__
_.__annotations__
_.__path__
_.log_errors
_.deprecated_legacy_json_field_conflicts
_.map_entry
_.type_name
server_hostname

# Parameters that only say how a function may be called.
third

# Fields whose name is put together when they are read: facets with their positions, native operations, admission by
# subresource.
_.template_seq
_.estimate_seq
_.rollup_seq
_.revise
_.prepare_approval
_.validate_approval
_.validate_finalize
_.prepare_ephemeralcontainers
_.validate_ephemeralcontainers
_.prepare_resize
_.validate_resize

# Fields that JSON has: they are written as a whole, or checked when they are read.
_.app_protocol
_.for_zones
_.requirements_digest
_.started_at
_.compared_at
_.released_at
_.owner_references
_.after_ms
_.lua_script
_.match_labels
_.spread_by_label
_.audit_annotations
_.start_time
_.column_definitions
_.total_num
_.ready_num
_.condition_status
_.cluster_condition_match
_.decision_matches

# Fields of the types that a script's result has; the names are those of Kubernetes.
_.matchExpressions
_.matchFields
_.matchLabels
_.nodeSelectorTerms
_.tolerationSeconds
_.hardNodeAffinity
_.nodeSelector
_.nodeClaim
_.resourceRequest
_.priorityClassName
_.replicaRequirements
_.labelSelector

# Options of Karmada's commands: read part by part, or accepted and not needed.
_.apiserver
_.kube_controller_manager
_.controller_manager
_.aggregated_apiserver
_.init_image
_.member_context
_.protocol_buffers
_.expiration

# The whole list of a protocol's numbers.
WINDOW_UPDATE

# Figures of a log's reader and of its cache, by which tests see what happened inside; pods of a member in one list.
_.silences
_.stalls
_.cached_bytes
_.list_pods

# Rules that recorded vectors test and that belong to behaviour to come: keys of objects in several clusters as messages
# name them, a stored Work (here it exists as facts), Karmada's own estimators beside ours, which policy may preempt
# once another lost its priority, claims by the policy that a template names, a binding suspended beside its policy,
# events about taints, when a failed application is looked at again.
_.federated_key
_.cluster_of_execution_namespace
_.estimator_service_name
_.requeued_after_priority_drop
_.claim_labels_match
_.merge_suspension
_.taints_message
_.again_in
