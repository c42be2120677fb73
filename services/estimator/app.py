"""Runs the estimator: indexes the nodes of ready push members, queries agents, and records estimates for bindings."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from functools import partial

from schemas.codec import Known
from schemas.events.cluster import ClusterChanged, ClusterRemoved
from schemas.keys import ObjectKey
from services._kit.concurrency.supervision import spawn
from services._kit.credentials.access import Member, Members
from services._kit.credentials.kubeconfig import open_kubeconfig
from services._kit.kube.client import KubeClient
from services._kit.log.stream_port import Message
from services._kit.members.node_informer import MemberView
from services._kit.runtime.service import Context, ObjectDecider
from services._rules.capacity.replica_estimate import Answers, Picture
from services._rules.decision import Decision
from services._rules.delivery.member_address import Access
from services.estimator.agents import Agents
from services.estimator.decide import ask, decide
from services.estimator.metrics import register
from services.estimator.queries import Queries
from services.estimator.remote import MemberAnswers, Remote
from services.estimator.settings import EstimatorSettings
from services.estimator.state import EstimatorState, fold


class Estimator(ObjectDecider[EstimatorState]):
    """Bindings and members' nodes in, estimates out."""

    name = "estimator"
    filters = ("binding.>", "cluster.*", "estimate.>", "eviction.>", "descheduling.>", "placement.>", "rollup.>")
    patience = 0.2
    hurries = ("binding.", "cluster.", "estimate.")
    states = EstimatorState
    _control: KubeClient
    _members: Members

    def __init__(self, settings: EstimatorSettings) -> None:
        self._settings = settings
        self.known = MemberAnswers()
        self._reached: dict[str, Member] = {}
        self._views: dict[str, tuple[Access, MemberView]] = {}
        self._quiet: dict[str, asyncio.TimerHandle] = {}
        self._acting = False
        self._agents: Agents | None = None
        self._queries: Queries | None = None
        self._closing: set[asyncio.Task[None]] = set()

    def fold(self, state: EstimatorState, message: Message, event: Known) -> Iterable[ObjectKey]:
        """Apply one fact; members come and go with their clusters."""
        touched = fold(state, message.seq, message.subject, event, message.time)
        if self._acting and isinstance(event, ClusterChanged | ClusterRemoved):
            self._attend(event.name)
        return touched

    def recover(self, state: EstimatorState) -> Iterable[ObjectKey]:
        """Objects that wait for an estimate, or for room."""
        return [*state.due(), *state.unplaced]

    def decide(self, state: EstimatorState, key: ObjectKey, now: float) -> Decision:
        """The estimate of one object."""
        # What is reserved for too long ends by the clock, before anything is decided.
        state.ledger.expire(now)
        made = decide(state, self.known, key, now, self._settings.agent_answer_timeout)
        ask(self.known, key, made, now)
        if self._agents is not None:
            self._agents.ask()
        return made

    async def start(self, context: Context[EstimatorState, ObjectKey]) -> None:
        """Open the control plane, which holds the members' credentials."""
        await super().start(context)
        self._control = await open_kubeconfig(self._settings.control_kubeconfig)
        self._members = Members(self._control)
        register(context.metrics.reads, context.projection.state, self.known)

    async def on_leading(self) -> None:
        """Watch every member."""
        self._acting = True
        self._agents = Agents(self.context, self.known, self._settings)
        for name in [*self.state.access, *self.state.pull]:
            self._attend(name)
        self._queries = Queries(
            self.context, self.known, self._agents, lambda: {name: view for name, (_, view) in self._views.items()}
        )
        await self._queries.start()

    async def on_following(self) -> None:
        """Another instance estimates now."""
        self._acting = False
        agents, self._agents = self._agents, None
        queries, self._queries = self._queries, None
        views, self._views = self._views, {}
        reached, self._reached = self._reached, {}
        for member in reached.values():
            member.close()
        quiet, self._quiet = self._quiet, {}
        for timer in quiet.values():
            timer.cancel()
        self.known.clear()
        for part in (queries, agents):
            if part is not None:
                await part.close()
        await asyncio.gather(*(view.close() for _, view in views.values()))

    async def stop(self) -> None:
        """Close everything."""
        await self.on_following()
        await asyncio.gather(*self._closing, return_exceptions=True)
        await self._members.close()
        await self._control.close()

    def _attend(self, name: str) -> None:
        """Make the view of a member fit its access data: none unless it is a ready push member."""
        state = self.state
        if name not in state.pull:
            self.known.agents.pop(name, None)
        elif name not in self.known.agents:
            self.known.agents[name] = Remote()
        access = state.access.get(name)
        current = self._views.get(name)
        if current is not None and current[0] == access:
            return
        if current is not None:
            del self._views[name], self.known.nodes[name]
            self._reached.pop(name).close()
            self.known.opening.pop(name, None)
            self._stop_timer(name)
            task = spawn(f"view-close:{name}", current[1].close())
            self._closing.add(task)
            task.add_done_callback(self._closing.discard)
        if access is None:
            return
        picture = Picture(quotas=self._settings.estimate_quotas)
        member = self._reached[name] = self._members.member(access.spec(), lambda: view.reconnect())
        view = MemberView(name, member.open, picture, partial(self._changed, name, picture))
        self._views[name] = (access, view)
        self.known.nodes[name] = Answers(picture)
        self.known.opening[name] = self.context.clock.now() + self._settings.member_sync_timeout
        view.start()

    def _changed(self, name: str, picture: Picture) -> None:
        """A node index changed: wake the decisions that wait for it; estimate unplaced objects, debounced."""
        state = self.state
        if not picture.complete:
            return
        if self.known.opening.pop(name, None) is not None:
            self.context.mark([*state.due(), *state.unplaced])
            return
        if state.unplaced and name not in self._quiet:
            period = self._settings.member_quiet_period
            self._quiet[name] = asyncio.get_running_loop().call_later(period, self._settled, name)

    def _settled(self, name: str) -> None:
        self._stop_timer(name)
        self.context.mark(list(self.state.unplaced))

    def _stop_timer(self, name: str) -> None:
        timer = self._quiet.pop(name, None)
        if timer is not None:
            timer.cancel()
