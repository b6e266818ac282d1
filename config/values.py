"""The kinds that settings share: names, paths, variables, times, sizes and counts."""

from typing import Final

from config.kinds import Boolean, Choice, Duration, FilePath, Share, Size, Text, Whole

KIB: Final = 2**10
MIB: Final = 2**20
GIB: Final = 2**30
DAY: Final = 86_400.0

NAME: Final = Text(
    "1 to 64 letters, digits, '.', '-' or '_', beginning with a letter or digit, and not 'local'",
    r"[A-Za-z0-9][A-Za-z0-9._\-]{0,63}",
    never="[Ll][Oo][Cc][Aa][Ll]",
)
VARIABLE: Final = Text(
    "the name of an environment variable, such as SAPWOOD_SECRET", "[A-Za-z_][A-Za-z0-9_]{0,127}"
)
_SPACES: Final = r"\t\n\r " + "\u00a0\u1680\u2000-\u200a\u202f\u205f\u3000"
WORDS: Final = Text(
    "1 to 16 words with one space between them", f"[^{_SPACES}]{{1,256}}( [^{_SPACES}]{{1,256}}){{0,15}}"
)
_NAME_WITH_SPACES: Final = f"[^{_SPACES}]+( [^{_SPACES}]+)*"
"""Some frameworks put a space into a broker's names. Readers of XML keep one, and fold several."""
USER: Final = Text(
    "a user name of 1 to 255 visible characters, with single spaces inside at most",
    _NAME_WITH_SPACES,
    most=255,
)
PATTERN: Final = Text(
    "queue:PATTERN or topic:PATTERN; levels stand between '/', '+' is any one level, '#' any number of them",
    r"(queue|topic):([^/+#\t\n\r]*|\+|#)(/([^/+#\t\n\r]*|\+|#)){0,127}",
    refused=("queue:", "topic:"),
)
PREFIX: Final = Text(
    "1 to 1024 characters without spaces and wildcards ('+', '#', '*')", f"[^+#*@{_SPACES}]{{1,1024}}"
)
EXCHANGE: Final = Text(
    "the name of an exchange: 1 to 255 visible characters, with single spaces inside at most",
    _NAME_WITH_SPACES,
    most=255,
)
NODETYPE: Final = Choice(
    ("leaf", "branch"), {"root": "a root has no tree connector: leave the connector out"}
)
NETWORK: Final = Choice(("lan",))
KEY_NAME: Final = Text(
    "the name of a TSIG key, such as sapwood-uk", r"[A-Za-z0-9_\-]{1,63}(\.[A-Za-z0-9_\-]{1,63}){0,3}"
)
PATH: Final = FilePath()
FLAG: Final = Boolean()
SHARE: Final = Share()
TIME: Final = Duration()
POSITIVE_TIME: Final = Duration(minimum=0.001)
COUNT: Final = Whole(1)
BYTES: Final = Size(1)
