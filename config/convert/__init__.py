"""Other brokers' bridges, read into a site's configuration; what has no counterpart is said."""

from config.convert.conversion import Conversion, convert
from config.convert.draft import Note

__all__ = ["Conversion", "Note", "convert"]
