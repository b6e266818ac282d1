"""Loads a site's file, XML or YAML by its suffix, with every path made absolute.

Wrinkle: relative paths begin at the folder of the file, not where the program was started, so a file means
the same from everywhere. Secrets are not read here, only when they are asked for (`config.credentials`).
"""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from config.credentials import Secret, resolve_secret
from config.document import MAX_BYTES
from config.errors import ConfigurationError, Problem
from config.fields import Part, Parts, Scalar, settings
from config.files import read_plain
from config.kinds import FilePath
from config.model import Site

__all__ = ["Secret", "anchored", "load", "resolve_secret"]

Reader = Callable[[bytes, str], Site]


def load(path: str | Path) -> Site:
    """Return the site that the file describes, its paths absolute and `data` set.

    Raises `ConfigurationError`, which lists everything that is wrong with file, line and column.
    """
    file = Path(path)
    reader = _reader(file)
    try:
        data = read_plain(file, MAX_BYTES)
    except OSError as error:
        raise ConfigurationError(
            [Problem(f"cannot read the file: {error.strerror or error}", str(path))]
        ) from None
    return anchored(reader(data, str(path)), file.parent)


def anchored(site: Site, folder: Path) -> Site:
    """Return `site` with relative paths beginning at `folder`, `data` set, and '' for a name not given."""
    whole = replace(site, data=site.data_directory, name=site.name or "")
    anchored: Site = _anchored(whole, folder.absolute())
    return anchored


def _anchored(section: Any, folder: Path) -> Any:
    changes: dict[str, Any] = {}
    for setting in settings(type(section)):
        given = getattr(section, setting.name)
        if isinstance(setting, Scalar) and isinstance(setting.kind, FilePath) and given:
            changes[setting.name] = folder / given
        elif isinstance(setting, Part):
            changes[setting.name] = _anchored(given, folder)
        elif isinstance(setting, Parts):
            changes[setting.name] = tuple(_anchored(item, folder) for item in given)
    return replace(section, **changes) if changes else section


def _reader(file: Path) -> Reader:
    suffix = file.suffix.lower()
    if suffix == ".xml":
        from config import xml  # only the reader that is needed

        return xml.read
    if suffix in _YAML_SUFFIXES:
        from config import yaml  # only the reader that is needed

        return yaml.read
    raise ConfigurationError([Problem("expected a file that ends in .xml, .yaml or .yml", str(file))])


_YAML_SUFFIXES: Final = (".yaml", ".yml")
