"""The faults by name: what is played, on which installation, and how often at most in one run."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from msgspec import Struct

from tests.faults import (
    faults_again,
    faults_agent,
    faults_autoscaler,
    faults_broker,
    faults_clock,
    faults_descheduler,
    faults_disk,
    faults_failover,
    faults_groups,
    faults_kill,
    faults_member,
    faults_network,
    faults_poison,
    faults_restart,
    faults_services,
    leading,
)
from tests.faults.ground import Ground
from tests.faults.ground_clock import Clocks
from tests.faults.ground_disk import FragileDisk, SmallDisk
from tests.faults.ground_network import Faraway
from tests.faults.ground_thousand import Thousand
from tests.faults.ground_three import ThreeNodes
from tests.faults.scene import Scene

Play = Callable[[Scene], Awaitable[None]]


class Fault(Struct, frozen=True):
    """One fault.

    `at_most` bounds the rounds of those that take long, `deployments` is the size of its load, `lasts` is about how
    many seconds a round takes.
    """

    name: str
    play: Play
    ground: type[Ground] = Ground
    at_most: int = 1000
    deployments: int = 12
    lasts: float = 5.0


STANDARD = "kill-and-restart"
"""What is played where no fault was chosen."""
FAULTS = (
    Fault("kill-before-append", faults_kill.before_append, lasts=12),
    Fault("kill-after-append", faults_kill.after_append, lasts=12),
    Fault("kill-before-act", faults_kill.before_act),
    Fault("kill-after-act", faults_kill.after_act),
    Fault("kill-log", faults_kill.log_server, lasts=8),
    Fault(STANDARD, faults_restart.restart, deployments=100, lasts=28),
    Fault("member-429", faults_member.too_many),
    Fault("member-500", faults_member.failing),
    Fault("member-500-writes", faults_member.failing_writes),
    Fault("member-slow", faults_member.slow),
    Fault("member-slow-30s", faults_member.very_slow, lasts=32),
    Fault("member-refusing", faults_member.refusing),
    Fault("agent-killed", faults_agent.killed),
    Fault("agent-frozen", faults_agent.frozen),
    Fault("template-again", faults_again.template),
    Fault("cluster-again", faults_again.cluster),
    Fault("cluster-again-unseen", faults_again.cluster_unseen),
    Fault("descheduler-killed", faults_descheduler.killed, faults_descheduler.Descheduling),
    Fault("failover-killed", faults_failover.killed, faults_failover.Evicting, lasts=15),
    Fault("autoscaler-killed", faults_autoscaler.killed, faults_autoscaler.Scaling, deployments=4, lasts=45),
    Fault("networking-killed", faults_services.killed, deployments=4, lasts=40),
    Fault("exporter-away", faults_services.away, faults_services.Unheard, deployments=4, lasts=60),
    Fault("exporter-away-long", faults_services.long_away, faults_services.Unheard, deployments=4, lasts=155),
    Fault("exporter-flapping", faults_services.flapping, faults_services.Unheard, deployments=4, lasts=50),
    Fault("clock-forward", faults_clock.forward, Clocks, lasts=12),
    Fault("clock-back", faults_clock.back, Clocks, lasts=12),
    Fault("clock-one-service", faults_clock.one_service, Clocks, lasts=12),
    Fault("agent-partitioned", faults_network.partitioned, Faraway, lasts=140),
    Fault("agent-flapping", faults_network.flapping, Faraway, lasts=50),
    Fault("poison-key", faults_poison.poisoned, Thousand, lasts=16),
    Fault("leader-restarted", leading.restarted, lasts=10),
    Fault("leader-killed", leading.killed, lasts=14),
    Fault("leader-frozen", leading.zombie, lasts=21),
    Fault("leader-frozen-30s", leading.long_zombie, lasts=50),
    Fault("groups-killed", faults_groups.killed, faults_groups.Sharing, lasts=15),
    Fault("groups-frozen", faults_groups.frozen, faults_groups.Sharing, lasts=15),
    Fault("groups-moving", faults_groups.moving, faults_groups.Sharing, lasts=30),
    Fault("groups-divided-otherwise", faults_groups.divided_otherwise, faults_groups.Sharing, lasts=30),
    Fault("log-leader-change", faults_broker.leader_change, ThreeNodes, lasts=20),
    Fault("log-node-killed", faults_broker.node_killed, ThreeNodes, lasts=13),
    Fault("log-node-partitioned", faults_broker.node_partitioned, ThreeNodes, lasts=20),
    Fault("log-one-killed-one-partitioned", faults_broker.no_quorum, ThreeNodes, lasts=24),
    Fault("leader-change-two-instances", faults_broker.leader_change_two_instances, ThreeNodes, lasts=25),
    Fault("log-disk-full", faults_disk.full, SmallDisk, lasts=20),
    Fault("log-disk-readonly", faults_disk.read_only, FragileDisk, lasts=25),
    Fault("log-disk-hanging", faults_disk.hanging, FragileDisk, lasts=20),
)
BY_NAME = {fault.name: fault for fault in FAULTS}
