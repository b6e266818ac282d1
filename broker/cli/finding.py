"""What `sapwood node check` found about one thing that it looked at."""

from dataclasses import dataclass
from typing import Literal

State = Literal["ok", "warning", "failed"]


@dataclass(frozen=True, slots=True)
class SiteFinding:
    """One thing that was looked at. `lines`: what to add or to run, ready to be copied."""

    subject: str
    state: State
    text: str
    lines: tuple[str, ...] = ()
