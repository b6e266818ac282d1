"""The independent checker: it reads journals of applications and of the killer, and nothing of any node.

`lost`: a confirmed message that nobody got who should have. `unmarked`: copies beyond the first that did not
say that they may be repetitions, and that the sender had not made itself by sending again. `strange`: came,
and nobody had begun to send it. A call whose process was killed before it ended is `abandoned`: nobody is
there to hear the answer.

Three figures tell how late a message was, in seconds:
- `age`: from its confirmation to its receipt;
- `late`: the longest time that it waited while every node and broker was there: so after the last was back;
- `whole`: the sum of such times.
"""

import json
from bisect import bisect_left, bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

BOUNDS = (0.1, 0.3, 1, 3, 5, 10, 15, 20, 30, 60, 120)
Key = tuple[str, int]


@dataclass
class Flow:
    """Where a flow's messages are read: a journal's name for each reader. `shared`: by one of them."""

    readers: tuple[str, ...]
    shared: bool = True

    def groups(self) -> Iterable[tuple[str, tuple[str, ...]]]:
        if self.shared:
            yield "+".join(self.readers), self.readers
        else:
            yield from ((name, (name,)) for name in self.readers)


class Outages:
    """When something was away, by the killer's journal: `down NAME AT KIND` and `up NAME AT KIND`."""

    def __init__(self, lines: Iterable[list[str]]) -> None:
        away: set[str] = set()
        self.starts: list[float] = []
        self.ends: list[float] = []
        self.kills = 0
        for word, name, at, _ in lines:
            if word == "down":
                self.kills += 1
                if not away:
                    self.starts.append(float(at))
                away.add(name)
            elif word == "up" and name in away:
                away.discard(name)
                if not away:
                    self.ends.append(float(at))
        self.ends += [float("inf")] * (len(self.starts) - len(self.ends))

    def whole(self, since: float, until: float) -> tuple[float, float]:
        """The longest time without an outage between two moments, and the sum of all."""
        longest = total = 0.0
        at = since
        for index in range(bisect_right(self.ends, since), len(self.starts)):
            if self.starts[index] >= until:
                break
            longest = max(longest, self.starts[index] - at)
            total += max(self.starts[index] - at, 0)
            at = self.ends[index]
        rest = max(until - at, 0)
        return max(longest, rest), total + rest


@dataclass
class Late:
    """A histogram of seconds and the worst of them."""

    counts: list[int] = field(default_factory=lambda: [0] * (len(BOUNDS) + 1))
    worst: float = 0.0
    which: str = ""

    def add(self, seconds: float, which: str) -> None:
        self.counts[bisect_left(BOUNDS, seconds)] += 1
        if seconds > self.worst:
            self.worst, self.which = seconds, which

    def merge(self, other: "Late") -> None:
        self.counts = [one + two for one, two in zip(self.counts, other.counts, strict=True)]
        if other.worst > self.worst:
            self.worst, self.which = other.worst, other.which

    def __str__(self) -> str:
        words = [f"<={bound:g}s:{count}" for bound, count in zip(BOUNDS, self.counts, strict=False) if count]
        words += [f">{BOUNDS[-1]:g}s:{self.counts[-1]}"] if self.counts[-1] else []
        return f"worst {self.worst:.1f} s ({self.which})  {' '.join(words)}"


@dataclass
class Account:
    """What became of one flow at one reader, or at several that share it."""

    name: str
    confirmed: int = 0
    lost: list[int] = field(default_factory=list)
    twice: int = 0
    unmarked: list[int] = field(default_factory=list)
    strange: list[int] = field(default_factory=list)
    age: Late = field(default_factory=Late)
    late: Late = field(default_factory=Late)
    whole: Late = field(default_factory=Late)

    def __str__(self) -> str:
        head = f"{self.name}: {self.confirmed} confirmed, {len(self.lost)} lost, {self.twice} came twice"
        return f"{head}, of these unmarked {len(self.unmarked)}; late {self.late}"


@dataclass
class Calls:
    """What became of one flow of calls."""

    name: str
    asked: int = 0
    answered: int = 0
    errors: Counter[str] = field(default_factory=Counter)
    unended: list[int] = field(default_factory=list)
    abandoned: int = 0
    unmarked: int = 0
    age: Late = field(default_factory=Late)
    late: Late = field(default_factory=Late)
    whole: Late = field(default_factory=Late)

    def __str__(self) -> str:
        words = f"{self.name}: {self.asked} calls, {self.answered} answered, errors {dict(self.errors)}"
        words = f"{words}, abandoned {self.abandoned}"
        return f"{words}, without an end {len(self.unended)}; late {self.late}"


class Journals:
    """Everything that was written down. `lines(NAME)`: of one program, as words; a torn last line is none."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.texts = {file.stem: file.read_text() for file in sorted(folder.glob("*.journal"))}

    def lines(self, name: str) -> Iterable[list[str]]:
        text = self.texts.get(name, "")
        yield from (line.split(" ") for line in text[: text.rfind("\n") + 1].splitlines())


class Checker:
    """Reads a folder of journals. `flows`: who should have got what; see `check`."""

    def __init__(self, folder: Path, flows: dict[str, Flow]) -> None:
        self.journals = Journals(folder)
        self.flows = flows
        self.outages = Outages(self.journals.lines("killer"))
        self.begun: dict[str, int] = {}
        self.confirmed: dict[str, dict[int, float]] = defaultdict(dict)
        self.repeated: dict[str, set[int]] = defaultdict(set)
        self.asked: dict[str, dict[int, float]] = defaultdict(dict)
        self.abandoned: set[Key] = set()
        self._calls: dict[str, set[Key]] = defaultdict(set)
        self.ended: dict[str, dict[int, tuple[float, str]]] = defaultdict(dict)
        self.got: dict[tuple[str, str], dict[int, list[tuple[float, bool]]]] = defaultdict(dict)
        self.handled: dict[str, list[bool]] = defaultdict(list)
        for name in self.journals.texts:
            if name != "killer":
                for words in self.journals.lines(name):
                    self._take(name, words)

    def _take(self, name: str, words: list[str]) -> None:
        match words:
            case ["sent", flow, _, last, _]:
                self.begun[flow] = max(int(last), self.begun.get(flow, -1))
            case ["confirmed", flow, first, last, at]:
                self.confirmed[flow].update(dict.fromkeys(range(int(first), int(last) + 1), float(at)))
            case ["repeated", flow, number, _]:
                self.repeated[flow].add(int(number))
            case ["got", flow, number, at, marked]:
                self.got[name, flow].setdefault(int(number), []).append((float(at), marked == "1"))
            case ["begun", _]:
                self.abandoned |= self._calls.pop(name, set())
            case ["asked", flow, number, at]:
                self.asked[flow][int(number)] = float(at)
                self._calls[name].add((flow, int(number)))
            case ["answered", flow, number, at, said]:
                self._calls[name].discard((flow, int(number)))
                self.ended[flow][int(number)] = float(at), said
            case ["handled", key, _, _, marked]:
                self.handled[key].append(marked == "1")
            case _:
                pass

    def missing_before(self, moment: float) -> int:
        """Messages confirmed and calls begun before this that have not come yet."""
        missing = 0
        for name, flow in self.flows.items():
            for _, readers in flow.groups():
                came = {number for reader in readers for number in self.got.get((reader, name), ())}
                missing += sum(
                    at < moment and number not in came for number, at in self.confirmed[name].items()
                )
        for name, asked in self.asked.items():
            missing += sum(at < moment and self._is_open(name, number) for number, at in asked.items())
        return missing

    def _is_open(self, flow: str, number: int) -> bool:
        return number not in self.ended[flow] and (flow, number) not in self.abandoned

    def accounts(self) -> list[Account]:
        return [
            self._account(name, where, readers, len(flow.readers) > 1)
            for name, flow in self.flows.items()
            for where, readers in flow.groups()
        ]

    def _account(self, flow: str, where: str, readers: tuple[str, ...], several: bool) -> Account:
        found = Account(f"{flow} at {where}" if several else flow)
        copies: dict[int, list[tuple[float, bool]]] = defaultdict(list)
        for reader in readers:
            for number, some in self.got.get((reader, flow), {}).items():
                copies[number] += some
        for number, at in self.confirmed[flow].items():
            found.confirmed += 1
            if number not in copies:
                found.lost.append(number)
                continue
            self._time(found, at, min(copies[number])[0], f"{flow} {number}")
        for number, some in copies.items():
            if number > self.begun.get(flow, -1):
                found.strange.append(number)
            beyond = len(some) - 1
            found.twice += beyond
            marked = sum(mark for _, mark in some)
            if beyond - min(marked, beyond) - (number in self.repeated[flow]) > 0:
                found.unmarked.append(number)
        return found

    def _time(self, found: Account | Calls, since: float, until: float, which: str) -> None:
        found.age.add(max(until - since, 0), which)
        longest, total = self.outages.whole(since, until)
        found.late.add(longest, which)
        found.whole.add(total, which)

    def calls(self) -> list[Calls]:
        result = []
        for flow, asked in self.asked.items():
            found = Calls(flow, len(asked))
            for number, at in asked.items():
                if number not in self.ended[flow]:
                    if self._is_open(flow, number):
                        found.unended.append(number)
                    else:
                        found.abandoned += 1
                    continue
                until, said = self.ended[flow][number]
                found.answered += said == "ok"
                found.errors.update([said] if said != "ok" else [])
                self._time(found, at, until, f"{flow} {number}")
            result.append(found)
        return result

    def handled_unmarked(self) -> list[str]:
        """Requests that a service was given again and was not told so."""
        return [key for key, marks in self.handled.items() if len(marks) - 1 > sum(marks)]


class Verdict:
    """What the journals say in all. `well`: nothing lost, nothing unmarked, every call ended as it should."""

    def __init__(self, checker: Checker) -> None:
        self.accounts, self.calls = checker.accounts(), checker.calls()
        self.lost = sum(len(account.lost) for account in self.accounts)
        self.unmarked = sum(len(account.unmarked) for account in self.accounts)
        self.strange = sum(len(account.strange) for account in self.accounts)
        self.handled_unmarked = checker.handled_unmarked()
        self.confirmed = sum(account.confirmed for account in self.accounts)
        self.unended = sum(len(calls.unended) for calls in self.calls)
        self.wrong = sum(
            count for calls in self.calls for said, count in calls.errors.items() if said.startswith("wrong")
        )
        self.kills = checker.outages.kills
        self.age, self.late, self.whole = Late(), Late(), Late()
        for each in (*self.accounts, *self.calls):
            self.age.merge(each.age)
            self.late.merge(each.late)
            self.whole.merge(each.whole)

    @property
    def well(self) -> bool:
        bad = self.lost, self.unmarked, self.strange, len(self.handled_unmarked), self.unended, self.wrong
        return self.confirmed > 0 and not any(bad)

    def __str__(self) -> str:
        lines = [*map(str, self.accounts), *map(str, self.calls)]
        lines += [f"age, from confirmed to received: {self.age}"]
        lines += [f"late, while every node and broker was there without a break: {self.late}"]
        lines += [f"whole, such times in all: {self.whole}"]
        unmarked = self.unmarked + len(self.handled_unmarked)
        head = f"{self.kills} faults, {self.confirmed} confirmed messages: {self.lost} lost, {unmarked}"
        lines += [f"{head} unmarked duplicates, {self.strange} from nowhere"]
        lines[-1] += f", {self.unended} calls without an end, {self.wrong} wrong"
        return "\n".join(lines)

    def json(self) -> str:
        return json.dumps({
            "faults": self.kills,
            "confirmed": self.confirmed,
            "lost": self.lost,
            "unmarked": self.unmarked + len(self.handled_unmarked),
            "strange": self.strange,
            "calls_without_an_end": self.unended,
            "wrong_answers": self.wrong,
            "worst_age": self.age.worst,
            "worst_late": self.late.worst,
            "worst_whole": self.whole.worst,
        })  # fmt: skip
