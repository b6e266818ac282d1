"""The errors of DNS.

SapwoodError
└── LocationError          DNS gives no answer that is of use, or takes no change; the text says what to do
    ├── NotThere           it has answered, and says that there is nothing
    └── LibraryMissing     nobody can be asked: dnspython is not installed
"""

from sapwood.protocol.errors import SapwoodError


class LocationError(SapwoodError):
    """DNS gives no answer that is of use, or takes no change."""


class NotThere(LocationError):
    """DNS has answered: there is no such service."""


class LibraryMissing(LocationError):
    """Nobody can be asked: dnspython is not installed."""


def without_library(error: ModuleNotFoundError) -> LibraryMissing:
    """The error where dnspython is not installed."""
    return LibraryMissing(
        f"srv:// and registration need the Python package {error.name!r}: pip install 'sapwood-node[dns]'"
    )
