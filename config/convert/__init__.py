"""Other brokers' bridges, read into a site's configuration; what has no counterpart is said."""

from config.convert.conversion import MAX_BYTES, Conversion, convert
from config.convert.draft import Note

__all__ = ["MAX_BYTES", "Conversion", "Note", "convert"]
