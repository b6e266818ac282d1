"""What a person should look at first: the most telling facts of an audit, each with what to do about it.

Works on the small tables, as lists of rows; no Spark here. The order: what breaks the law of the tree, what
makes the audit itself doubtful, what costs most.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final

from audit.listing import TWIN

if TYPE_CHECKING:
    from pyarrow import Table

Row = Mapping[str, Any]
Tables = Mapping[str, Sequence[Row]]

BAD: Final = "bad"
DOUBTFUL: Final = "doubtful"
COSTLY: Final = "costly"
GOOD: Final = "good"
_ORDER: Final = (BAD, DOUBTFUL, COSTLY, GOOD)
TOP: Final = 10
UNUSED: Final = ("half", "malformed", "unknown", "untimed", "unread")
"""Of `schema.FILES`, the counts of lines that are lost; half ones may be being written."""
SPILLED_SHOWN: Final = 3
MOST_ROWS: Final = 10_000
"""Of a table as dictionaries, but one more that says that there are others."""
SOON_DAYS: Final = 90.0
LONG_S: Final = 60.0
"""Seconds for which a subtree must have been cut off at once to be told."""


@dataclass(frozen=True, slots=True)
class Finding:
    """`weight` orders findings of one kind: the larger, the higher."""

    kind: str
    what: str
    do: str
    weight: float = 0.0


def find(tables: Tables, top: int = TOP) -> list[Finding]:
    """The `top` most telling findings."""
    found = [finding for look in _LOOKS for finding in look(tables)]
    found.sort(key=lambda finding: (_ORDER.index(finding.kind), -finding.weight))
    return found[:top]


class FirstRows(list[Row]):
    """The first rows of a table, in its order. `whole`: all of them."""

    def __init__(self, first: Sequence[Row], whole: "Table") -> None:
        super().__init__(first)
        self.whole = whole


def how_many(table: Sequence[Row]) -> int:
    """How many rows a table has, also where only the first are shown."""
    return len(table.whole) if isinstance(table, FirstRows) else len(table)


def every(table: Sequence[Row]) -> Iterable[Row]:
    """Each row of a table, also where only the first are shown; some at a time are in memory then."""
    if isinstance(table, FirstRows) and len(table) < how_many(table):
        return (row for batch in table.whole.to_batches(MOST_ROWS) for row in batch.to_pylist())
    return table


def total(table: Sequence[Row], column: str, **wanted: Any) -> int:
    """The sum of a column over all rows that are as `wanted`."""
    return sum(
        int(row[column] or 0)
        for row in every(table)
        if all(row[key] == value for key, value in wanted.items())
    )


def _spilled(tables: Tables) -> Iterator[Finding]:
    spilled = total(tables["spillage"], "advisories", verdict="spilled")
    judged = spilled + total(tables["spillage"], "advisories", verdict="needed")
    if not spilled:
        if judged:
            yield Finding(
                GOOD,
                f"No advisory was spilled of {judged:,} that were judged: nodes that can use them got them.",
                "Nothing.",
            )
        return
    reasons = list(tables["spillage_reasons"])
    for row in reasons[:SPILLED_SHOWN]:
        what = (
            f"{row['node']} received {counted(row['advisories'], 'advisory')} that it can never use:"
            f" {row['reason']}."
        )
        tellers = Counter(told["peer"] for told in tables["spilled"] if told["node"] == row["node"])
        teller = next((peer for peer, _ in tellers.most_common(1) if peer), "its neighbour")
        advice = _ADVICE.get(row["reason"], _ADVICE[""]).format(teller=teller)
        yield Finding(BAD, what, advice, row["advisories"])
    if rest := reasons[SPILLED_SHOWN:]:
        more = how_many(tables["spillage_reasons"]) - SPILLED_SHOWN
        what = f"{counted(more, 'other case')} of advisories that a node can never use."
        yield Finding(BAD, what, "See all of them in spillage_reasons.csv.", rest[0]["advisories"])


_ADVICE: Final = {
    "second root": "Two trees meet here: give this node a tree connector, or take the link away.",
    "re-sent although known": "{teller} tells again what it has told: look at its links.",
    "stale cause": "{teller} holds routes of consumers that have gone: let it resync, or restart it.",
    "": "Most came from {teller}: look what else links the two sites, since a bridge of the brokers"
    " themselves tells everybody. spilled.csv has each of them.",
}


def faulty(tables: Tables) -> list[Row]:
    """Files that could not be read to their end."""
    return [row for row in every(tables["files"]) if row["fault"] and not row["fault"].startswith(TWIN)]


def _unreadable(tables: Tables) -> Iterator[Finding]:
    faults = faulty(tables)
    if faults:
        yield Finding(
            DOUBTFUL,
            f"{_rows(faults, 'file')} could not be read to the end, the first {faults[0]['file']}.",
            "Fetch them again, or unpack them; what was in them is missing from every figure.",
            len(faults),
        )


def _unused_lines(tables: Tables) -> Iterator[Finding]:
    lost = sum(total(tables["intake"], name) for name in UNUSED)
    if lost:
        yield Finding(
            DOUBTFUL,
            f"{counted(lost, 'line')} not used: cut, malformed, of unknown kind, without a time, or damaged.",
            "See files.csv; a cut last line of a file that is being written is normal.",
            lost,
        )


def _strangers(tables: Tables) -> Iterator[Finding]:
    strangers = tables["strangers"]
    if strangers:
        yield Finding(
            DOUBTFUL,
            f"Logs of {_rows(strangers, 'node')} that the deployment does not have, such as"
            f" {strangers[0]['node']}.",
            "Add them to the table of sites: nothing about them can be judged.",
            how_many(strangers),
        )


def _silent(tables: Tables) -> Iterator[Finding]:
    silent = tables["silent"]
    heard = sum(row["heard"] is not None for row in every(silent))
    if silent and tables["files"]:
        up = f" Neighbours heard of {heard:,} of them, such as {silent[0]['node']}." if heard else ""
        yield Finding(
            DOUBTFUL,
            f"No log of {_rows(silent, 'node')} was read, such as {silent[0]['node']}.{up}",
            "Fetch their logs: what they received is not in any figure.",
            how_many(silent),
        )


def _unjudged(tables: Tables) -> Iterator[Finding]:
    unknown = total(tables["spillage"], "advisories", verdict="unknown")
    if unknown:
        yield Finding(
            DOUBTFUL,
            f"{counted(unknown, 'advisory')} could not be judged: the origin is not known, or it or the node"
            " is not in the deployment.",
            "Complete the table of sites; give another broker's logs from before its consumers came.",
            unknown,
        )


def _strange_links(tables: Tables) -> Iterator[Finding]:
    for row in list(tables["strange_links"])[:2]:
        yield Finding(
            DOUBTFUL,
            f"{row['child']} had {row['parent']} as parent, which the deployment does not say.",
            "If it moved, date the table of sites; if not, look who changed its connector.",
            row["times"],
        )


def _unset_clocks(tables: Tables) -> Iterator[Finding]:
    clocks = [row for row in every(tables["clocks"]) if row["unset"] or row["ahead"] or row["backwards"]]
    if clocks:
        yield Finding(
            DOUBTFUL,
            f"{_rows(clocks, 'clock')} that jumped or were never set, such as that of {clocks[0]['node']}.",
            "Give them a time server; their rows count in all sums, but in no series over time.",
            len(clocks),
        )


def _clocks_that_are_off(tables: Tables) -> Iterator[Finding]:
    off = [row for row in every(tables["clocks"]) if row["off_s"] is not None]
    if off:
        worst = max(off, key=lambda row: abs(row["off_s"]))
        way = "ahead of" if worst["off_s"] > 0 else "behind"
        yield Finding(
            DOUBTFUL,
            f"{_rows(off, 'clock')} unlike most others: that of {worst['node']} is about"
            f" {as_duration(abs(worst['off_s']))} {way} them.",
            "Give them a time server; until the root knew is not reckoned by them.",
            len(off),
        )


def as_duration(seconds: float) -> str:
    """'2.0 hours', in the largest unit of which it is one at least."""
    for name, size in (("days", 86_400.0), ("hours", 3600.0), ("minutes", 60.0)):
        if seconds >= size:
            return f"{seconds / size:,.1f} {name}"
    return f"{seconds:,.1f} seconds"


def _other_trees(tables: Tables) -> Iterator[Finding]:
    others = [row for row in tables["trees"] if not row["audited"]]
    if others:
        ours = next(row["tree"] for row in tables["trees"] if row["audited"])
        yield Finding(
            DOUBTFUL,
            f"{counted(total(others, 'rows'), 'row')} of {_rows(others, 'other tree')}, such as"
            f" {others[0]['tree']}, lie in the folder; this audit is of {ours}.",
            "They are in no figure. Name the tree with --tree, or keep its logs apart.",
            total(others, "rows"),
        )


def _holes(tables: Tables) -> Iterator[Finding]:
    holes = tables["holes"]
    if holes:
        worst = max(every(holes), key=lambda row: row["missing"])
        first, last = worst["first"], worst["last"]
        which = f"number {first:,}" if first == last else f"numbers {first:,} to {last:,}"
        yield Finding(
            DOUBTFUL,
            f"{counted(total(holes, 'missing'), 'row')} missing in {_rows(holes, 'place')}, most at"
            f" {worst['node']}: {which}, before {worst['after']}.",
            "Fetch the logs again; look whether a disk was full, or a file lost. holes.csv has all of them.",
            total(holes, "missing"),
        )


def _doubles(tables: Tables) -> Iterator[Finding]:
    doubles = tables["doubles"]
    if doubles:
        worst = max(
            every(doubles), key=lambda row: row["until"] - row["since"] if row["since"] else timedelta()
        )
        ends = [f"{worst[end]:%Y-%m-%d %H:%M}" for end in ("since", "until") if worst[end]]
        when = f", {' to '.join(ends)}" if ends else ""
        yield Finding(
            DOUBTFUL,
            f"{_rows(doubles, 'log')} written beside another of the same name,"
            f" such as at {worst['node']}{when}.",
            "Two nodes have one name, or a folder was copied: their rows are in every figure as if one node"
            " had them. Rename one. If its folder was lost instead, its clock was set back then.",
            how_many(doubles),
        )


def _storms(tables: Tables) -> Iterator[Finding]:
    for row in list(tables["storms"])[:2]:
        yield Finding(
            COSTLY,
            f"Storm at {row['node']}: {counted(row['advisories'], 'advisory')} in the hour of"
            f" {row['hour']:%Y-%m-%d %H:%M}, {row['times']:g} times its usual.",
            "Compare with link and consumer events of that hour.",
            row["advisories"],
        )


def _flapping_consumers(tables: Tables) -> Iterator[Finding]:
    flapping = tables["flapping_consumers"]
    if flapping:
        worst = flapping[0]
        yield Finding(
            COSTLY,
            f"{_rows(flapping, 'consumer')} that came and went again and again;"
            f" {worst['kind']}:{worst['destination']} at {worst['node']}"
            f" {counted(worst['most_in_an_hour'], 'time')} in an hour.",
            "Let the application keep its subscription open, or make it durable; or raise linger.",
            worst["came"],
        )


def _told_again(tables: Tables) -> Iterator[Finding]:
    again = tables["repeated_adds"]
    if again:
        worst = again[0]
        yield Finding(
            COSTLY,
            f"{counted(total(again, 'again'), 'add')} told again for nothing; {worst['peer']} told"
            f" {worst['node']} of {worst['kind']}:{worst['destination']} {counted(worst['adds'], 'time')}.",
            f"Look at the version and the links of {worst['peer']}: it forgets what it has told.",
            total(again, "again"),
        )


def _flapping_links(tables: Tables) -> Iterator[Finding]:
    links = [row for row in once(every(tables["links"])) if row["flaps"]]
    if links:
        yield Finding(
            COSTLY,
            f"{_rows(links, 'link')} that went down again and again, that of {links[0]['node']} with"
            f" {links[0]['peer']} {counted(links[0]['downs'], 'time')}.",
            "Look at the line; nothing is lost, but each time costs a handshake.",
            links[0]["downs"],
        )


def _resyncs(tables: Tables) -> Iterator[Finding]:
    if tables["resyncs"]:
        worst = tables["resyncs"][0]
        yield Finding(
            COSTLY,
            "Restoring what was known cost"
            f" {counted(total(tables['resyncs'], 'advisories'), 'advisory')}; most at {worst['node']}"
            f" from {worst['peer']} ({worst['advisories']:,}).",
            "Normal at first start. Later it says that one end lost its state, or missed changes while cut"
            " off.",
            worst["advisories"] / 10,
        )


def _still_away(tables: Tables) -> Iterator[Finding]:
    away = [row for row in every(tables["cut_off"]) if row["since"]]
    if away:
        worst = max(away, key=lambda row: row["below"] or 0)
        yield Finding(
            COSTLY,
            f"{_rows(away, 'node')} still cut off when the logs end: {worst['node']}, with"
            f" {counted(worst['below'] or 0, 'node')} below it, since {worst['since']:%Y-%m-%d %H:%M}.",
            "Look at the line and at the parent; messages wait on both sides: see that no spool fills.",
            sum((row["below"] or 0) + 1 for row in away),
        )


def _unused_routes(tables: Tables) -> Iterator[Finding]:
    unused = [row for row in every(tables.get("unused_routes", ())) if row["unused"]]
    if unused:
        yield Finding(
            COSTLY,
            f"{counted(total(unused, 'unused'), 'route')} that no message used; most at {unused[0]['node']}"
            f" ({unused[0]['share']:.0%}).",
            f"Ask whether these are still read: {unused[0]['examples']}.",
            total(unused, "unused"),
        )


def _were_away(tables: Tables) -> Iterator[Finding]:
    """Subtrees that were cut off for long, and are so no more."""
    back = [row for row in every(tables["cut_off"]) if not row["since"] and row["below"]]
    long = [row for row in back if row["longest_s"] >= LONG_S]
    if long:
        worst = max(long, key=lambda row: row["below"] * row["seconds"])
        yield Finding(
            COSTLY,
            f"{_rows(long, 'subtree')} cut off for a while: {worst['node']}, with"
            f" {counted(worst['below'], 'node')} below it, {counted(worst['downs'], 'time')},"
            f" {counted(round(worst['seconds'] / 60), 'minute')} in all.",
            f"Look at the line and the machine of {worst['node']}; what was sent meanwhile waited on both"
            " sides. cut_off.csv has all of them.",
            sum(row["below"] + 1 for row in long),
        )


def once(links: Iterable[Row]) -> list[Row]:
    """Each link once, as the end saw it that lost it more often; both ends write it down."""
    found: dict[frozenset[str], Row] = {}
    for row in links:
        found.setdefault(frozenset((row["node"], row["peer"])), row)
    return list(found.values())


def counted(count: int, noun: str) -> str:
    """'1 advisory', '2 advisories', '2 days'."""
    several = f"{noun[:-1]}ies" if noun.endswith("y") and noun[-2] not in "aeou" else f"{noun}s"
    return f"{count:,} {noun if count == 1 else several}"


def _rows(table: Sequence[Row], noun: str) -> str:
    return counted(how_many(table), noun)


_ROOM: Final = {
    "spool_bytes": "Look what waits there and for whom, or give the spool more room, before that.",
    "": "Put a branch between it and some of its sites, or raise the limit, before that.",
}


def _full_soon(tables: Tables) -> Iterator[Finding]:
    for row in [
        row for row in tables["capacity"] if row["days_left"] is not None and row["days_left"] < SOON_DAYS
    ][:2]:
        yield Finding(
            COSTLY,
            f"{row['figure']} of {row['node']} reach {row['limit']:,.0f} in"
            f" {counted(round(row['days_left']), 'day')}, if they go on as now.",
            _ROOM.get(row["figure"], _ROOM[""]),
            1e6 / (row["days_left"] + 1),
        )


def _spared(tables: Tables) -> Iterator[Finding]:
    saved = total(tables["advise_down"], "advisories", advise_down="topics")
    if saved:
        yield Finding(
            GOOD,
            f"advise_down: topics would have spared {counted(saved, 'advisory')}.",
            "Worth it where sites need not be told that nobody serves a queue.",
            saved,
        )


_LOOKS: Final = (
    _spilled,
    _unreadable,
    _unused_lines,
    _other_trees,
    _holes,
    _doubles,
    _strangers,
    _silent,
    _unjudged,
    _strange_links,
    _unset_clocks,
    _clocks_that_are_off,
    _storms,
    _flapping_consumers,
    _told_again,
    _flapping_links,
    _resyncs,
    _still_away,
    _were_away,
    _unused_routes,
    _full_soon,
    _spared,
)
