"""The list of all commands, in the order in which somebody new needs them."""

from typing import Any, Final

from typer.core import TyperGroup

SECTIONS: Final = {
    "To begin": ("demo", "node", "config", "account", "operator", "context", "invite", "join", "completion"),
    "Applications": ("send", "receive", "subscription", "forward", "copy", "idl"),
    "What a node does": (
        "status",
        "top",
        "chart",
        "alarms",
        "alarm",
        "queues",
        "consumers",
        "sessions",
        "links",
        "holds",
        "channels",
        "routes",
        "follow",
        "trace",
        "trail",
    ),
    "Change it": ("queue", "session", "dead", "route", "permits", "definitions"),
    "Who is there, and which way it goes": (
        "tree",
        "ping",
        "traceroute",
        "check-delivery",
        "shell",
        "cells",
        "who-has",
        "addresses",
        "announce",
    ),
    "Plan and audit a chain": ("simulate", "audit"),
}
_FURTHER: Final = "And"
_AROUND: Final = 6
"""Columns of indentation and between a name and its text."""


class Sections(TyperGroup):
    """The program: its help lists commands below headings."""

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write each section's commands with the first sentence of their help."""
        width = formatter.width - _AROUND - max(map(len, self.commands))
        listed = {name for names in SECTIONS.values() for name in names}
        further = [name for name in self.commands if name not in listed]
        for heading, names in {**SECTIONS, **({_FURTHER: further} if further else {})}.items():
            with formatter.section(heading):
                texts = [(name, self.commands[name].get_short_help_str(width)) for name in names]
                formatter.write_dl(texts, col_max=30)
