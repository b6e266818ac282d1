"""The people and the misfortunes of a workload, as things that happen in a world.

Nothing is planned far ahead: each thing that happened says when the next one of its kind will.
"""

from collections.abc import Callable, Iterable
from itertools import count
from random import Random
from typing import Final

from broker.core.settings import CoreSettings
from sapwood.protocol.destinations import parse
from simulation.applications import Application, Delivered
from simulation.deployment import Deployment
from simulation.lines import LineSettings
from simulation.machine import Machine, Speed
from simulation.workload import DAY, Consumers, Faults, Messages, Workload, seconds
from simulation.world import World

_REATTACH: Final = (0.5, 3.0)
"""Seconds after a start of its node within which a site's consumers are known again."""


def line_of(workload: Workload, role: str, random: Random) -> LineSettings:
    """The line of a node: the first of the workload's that fits."""
    for each in workload.lines:
        if each.role == role and random.random() < each.share:
            return LineSettings(each.latency, each.bandwidth, each.loss)
    return LineSettings()


def speed_of(workload: Workload, role: str, random: Random) -> Speed:
    """The machine of a node: the first of the workload's that fits."""
    for each in workload.machines:
        if each.role == role and random.random() < each.share:
            return Speed(each.commit, each.packet)
    return Speed()


def core_settings(workload: Workload) -> CoreSettings:
    """The rules of every node."""
    given = workload.advisories
    return CoreSettings(
        advise_down=given.advise_down,
        linger=given.linger,
        dormant_after=given.dormant_after,
        reattach_time=given.reattach_time,
        route_retention=given.route_retention,
        probe_time=workload.link.dead_after,
        trace_events=0,
    )


class Population:
    """Everybody in one world. `start` puts them in; from then on they look after themselves.

    `booted`: who else is to hear of every start of a node.
    """

    def __init__(
        self,
        world: World,
        deployment: Deployment,
        workload: Workload,
        delivered: Delivered,
        booted: Callable[[Machine], object],
    ) -> None:
        self._world = world
        self._workload = workload
        self._delivered = delivered
        self._also_booted = booted
        self._random = Random(world.random.random())
        self._leaves = [place.name for place in deployment.of_role("leaf")]
        self._consumers: dict[str, list[Consumers]] = {}
        for each in workload.consumers:
            self._consumers.setdefault(each.role, []).append(each)
        self._serials = count()
        self._open: set[str] = set()
        self._away: dict[str, set[str]] = {}

    def __repr__(self) -> str:
        return f"<Population open={len(self._open)}>"

    # --- the beginning

    def start(self) -> None:
        """Schedule all that begins by itself."""
        world, workload = self._world, self._workload
        for machine in world.machines.values():
            self._move_in(machine)
        world.booted = self._booted
        for faults, strike in ((workload.flapping, world.cut), (workload.restarts, world.crash)):
            for fault in faults:
                self._spread_faults(fault, strike)
        for outage in workload.outages:
            world.at(outage.after, world.crash, world[outage.node], outage.down)
        for messages in workload.messages:
            for machine in self._of_role(messages.role):
                self._next_message(machine, messages)

    def _of_role(self, role: str) -> Iterable[Machine]:
        return (machine for machine in self._world.machines.values() if machine.role == role)

    def _move_in(self, machine: Machine) -> None:
        groups = self._consumers.get(machine.role, ())
        sends = any(each.role == machine.role for each in self._workload.messages)
        if sends or any(each.reads for each in groups):
            machine.application = Application(machine, self._serials, self._delivered)
        if any(not each.always for each in groups):
            self._next_day(machine, 0)

    def _next_day(self, machine: Machine, day: int) -> None:
        hours, late = self._workload.hours, self._random.uniform(0, self._workload.hours.spread)
        midnight = day * DAY - self._workload.start_microseconds / 1_000_000 % DAY
        closes = midnight + seconds(hours.closes) + late
        if closes < 0:
            self._next_day(machine, day + 1)
            return
        self._world.at(midnight + seconds(hours.opens) + late, self._opens, machine, day)
        self._world.at(closes, self._closes, machine, day)

    # --- a day

    def _opens(self, machine: Machine, day: int) -> None:
        self._open.add(machine.name)
        self._come(machine, always=False)
        if self._workload.churn.every < DAY * 3650:
            self._next_churn(machine)

    def _time_of_day(self) -> float:
        return (self._workload.start_microseconds / 1_000_000 + self._world.now) % DAY

    def _closes(self, machine: Machine, day: int) -> None:
        self._next_day(machine, day + 1)
        self._open.discard(machine.name)
        self._away.pop(machine.name, None)
        for text, reads in self._destinations(machine, always=False):
            self._tell(machine, "remove", text, reads)
        self._world.stir(machine)

    def _destinations(self, machine: Machine, always: bool) -> Iterable[tuple[str, bool]]:
        for group in self._consumers.get(machine.role, ()):
            if group.always == always:
                for number in range(1, group.count + 1):
                    text = group.destination.replace("{node}", machine.name)
                    yield text.replace("{number}", str(number)), group.reads

    def _come(self, machine: Machine, always: bool) -> None:
        away = self._away.get(machine.name, ())
        for text, reads in self._destinations(machine, always):
            if text not in away:
                self._tell(machine, "add", text, reads)
        self._world.stir(machine)

    def _tell(self, machine: Machine, op: str, text: str, reads: bool) -> None:
        if not reads:
            self._world.interest(machine, op, text)
        elif machine.application is not None:
            if op == "add":
                machine.application.read(parse(text))
            else:
                machine.application.leave(parse(text))

    def _booted(self, machine: Machine) -> None:
        """The site's broker and applications find their node again."""
        self._also_booted(machine)
        self._world.at(
            self._world.now + self._random.uniform(*_REATTACH), self._reattach, machine, machine.core
        )

    def _reattach(self, machine: Machine, core: object) -> None:
        if machine.maybe_core is not core:
            return
        if machine.application is not None:
            machine.application.connect()
        self._come(machine, always=True)
        if machine.name in self._open:
            self._come(machine, always=False)

    # --- churn

    def _next_churn(self, machine: Machine) -> None:
        groups = self._consumers.get(machine.role, ())
        there = sum(group.count for group in groups if not group.always and not group.reads)
        if there:
            pause = self._random.expovariate(there / self._workload.churn.every)
            self._world.at(self._world.now + pause, self._churn, machine)

    def _churn(self, machine: Machine) -> None:
        if machine.name not in self._open:
            return
        self._next_churn(machine)
        text = self._any_consumer(machine)
        away = self._away.setdefault(machine.name, set())
        if text in away:
            return
        away.add(text)
        self._world.interest(machine, "remove", text)
        self._world.stir(machine)
        pause = self._random.expovariate(1 / max(self._workload.churn.away, 0.001))
        self._world.at(self._world.now + pause, self._back, machine, text)

    def _any_consumer(self, machine: Machine) -> str:
        groups = [each for each in self._consumers[machine.role] if not each.always and not each.reads]
        (group,) = self._random.choices(groups, [each.count for each in groups])
        number = self._random.randint(1, group.count)
        return group.destination.replace("{node}", machine.name).replace("{number}", str(number))

    def _back(self, machine: Machine, text: str) -> None:
        away = self._away.get(machine.name)
        if away is not None and text in away:
            away.discard(text)
            self._world.interest(machine, "add", text)
            self._world.stir(machine)

    # --- misfortunes

    def _spread_faults(self, fault: Faults, strike: Callable[[Machine, float], None]) -> None:
        for machine in self._of_role(fault.role):
            possible = strike != self._world.cut or machine.ways or machine.mesh
            if self._random.random() < fault.share and possible:
                self._next_fault(machine, fault, strike)

    def _next_fault(self, machine: Machine, fault: Faults, strike: Callable[[Machine, float], None]) -> None:
        pause = self._random.expovariate(1 / fault.every)
        self._world.at(self._world.now + pause, self._strike, machine, fault, strike)

    def _strike(self, machine: Machine, fault: Faults, strike: Callable[[Machine, float], None]) -> None:
        strike(machine, self._random.expovariate(1 / max(fault.down, 0.001)))
        self._next_fault(machine, fault, strike)

    # --- messages

    def _next_message(self, machine: Machine, messages: Messages) -> None:
        pause = self._random.expovariate(1 / messages.every)
        self._world.at(self._world.now + pause, self._send, machine, messages)

    def _send(self, machine: Machine, messages: Messages) -> None:
        self._next_message(machine, messages)
        if not (messages.always or self._is_day()) or machine.application is None:
            return
        text = messages.destination.replace("{node}", machine.name)
        if "{leaf}" in text:
            text = text.replace("{leaf}", self._random.choice(self._leaves))
        machine.application.send(parse(text), messages.count, messages.size, messages.expires)
        self._world.stir(machine)

    def _is_day(self) -> bool:
        hours = self._workload.hours
        return seconds(hours.opens) <= self._time_of_day() < seconds(hours.closes)
