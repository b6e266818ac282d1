"""What an audit may claim: how much was spilled, and of how much that can be said.

Law: what was not judged is told beside what was. `whole` is what `--strict` asks for: every advisory of a
consumer was judged, and nothing that was read went unused but what is there twice and the last line of a file
that is being written, no row is missing between two others, no node has two logs of one time, all rows are of
one tree, or of the one that was named, and there is a log of every node of which a neighbour heard. A node
without a log of which nobody heard is told and is no failure: a store may be off for a day.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from audit.findings import UNUSED, Tables, counted, every, faulty, how_many, total

_LOST: Final = tuple(name for name in UNUSED if name != "half")


@dataclass(frozen=True, slots=True)
class Verdict:
    """`unknown`: consumers' advisories that cannot be judged. `lost`: lines that were not used; `cut`:
    files that could not be read to their end. `missing`: rows that are in no file, by their numbers.
    `doubled`: nodes of whose name there are two. `foreign`: rows of other trees, where none was named.
    `heard`: nodes of which neighbours heard, and nothing was read; `silent`: all of which nothing was
    read, of `nodes`."""

    needed: int
    spilled: int
    moved: int
    unknown: int
    lost: int
    cut: int
    missing: int
    doubled: int
    foreign: int
    heard: int
    silent: int
    nodes: int

    @property
    def judged(self) -> int:
        return self.needed + self.spilled + self.moved

    @property
    def whole(self) -> bool:
        wanting = (self.unknown, self.lost, self.cut, self.missing, self.doubled, self.foreign, self.heard)
        return bool(self.judged) and not any(wanting)

    @property
    def share(self) -> float:
        """Of all nodes those of which there is a log."""
        return 1 - self.silent / self.nodes

    @property
    def kind(self) -> str:
        """'bad', 'unsure', or '' for good."""
        return "bad" if self.spilled else "" if self.whole else "unsure"

    def headline(self) -> str:
        if not self.judged:
            return "No advisory of a consumer could be judged"
        if self.whole or self.spilled:
            return f"{counted(self.spilled, 'advisory')} spilled, of {self.judged:,} judged"
        return f"0 spilled of {self.judged:,} judged, but not everything was judged"

    def doubts(self) -> list[str]:
        """What was not judged, in words; none if everything was."""
        told = (
            (self.unknown, f"{counted(self.unknown, 'advisory')} of consumers could not be judged"),
            (self.lost, f"{counted(self.lost, 'line')} could not be used"),
            (self.cut, f"{counted(self.cut, 'file')} could not be read to the end"),
            (self.missing, f"{counted(self.missing, 'row')} that nodes numbered are in no file"),
            (self.doubled, f"of {counted(self.doubled, 'node')} there are two logs of one time"),
            (self.foreign, f"{counted(self.foreign, 'row')} of other trees lie in the folder"),
            (self.silent, f"of {self.silent:,} of {counted(self.nodes, 'node')} there is no log"),
            (self.heard, f"neighbours heard of {self.heard:,} of these"),
        )
        return [text for count, text in told if count]

    def as_json(self) -> Mapping[str, Any]:
        return {
            "judged": self.judged,
            "not_judged": self.unknown,
            "lines_lost": self.lost,
            "files_cut": self.cut,
            "rows_missing": self.missing,
            "nodes_with_two_logs": self.doubled,
            "rows_of_other_trees": self.foreign,
            "nodes_without_log": self.silent,
            "nodes_up_without_log": self.heard,
            "share_of_nodes": round(self.share, 6),
            "whole": self.whole,
        }


def judge(tables: Tables, nodes: int, *, named: bool = False) -> Verdict:
    """From the small tables of an audit. `named`: the operator said which tree it is of."""
    sums = {
        name: total(tables["spillage"], "advisories", verdict=name)
        for name in ("needed", "spilled", "moved", "unknown")
    }
    lost = sum(total(tables["intake"], name) for name in _LOST)
    return Verdict(
        **sums,
        lost=lost,
        cut=len(faulty(tables)),
        missing=total(tables["holes"], "missing"),
        doubled=len({row["node"] for row in every(tables["doubles"])}),
        foreign=0 if named else total(tables["trees"], "rows", audited=False),
        heard=sum(row["heard"] is not None for row in every(tables["silent"])),
        silent=how_many(tables["silent"]),
        nodes=nodes,
    )
