"""The node's wheel, made in a checkout, takes the client library that stands beside it.

`sapwood-node` depends on `sapwood-client` of its own version. In a checkout that version may be nowhere else
than here, so `pip install .` is told where, and no version: beside an address pip asks its index for the
version all the same. A release is made by way of an sdist, as `python -m build` does it; there is no `client`
in it, so its wheel names the version alone. An editable install names both,
`pip install -e ./client -e .`: a copy of the client would hide what is edited here.
"""

from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class TakeClientOfCheckout(BuildHookInterface[Any]):
    """Says where the client library is."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """`version` is "standard" or "editable"."""
        client = Path(self.root) / "client"
        beside = version == "standard" and client.is_dir()
        where = f" @ {client.as_uri()}" if beside else f"=={self.metadata.version}"
        build_data["dependencies"].append(f"sapwood-client{where}")
