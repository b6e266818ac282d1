"""What goes wrong while a release is made."""


class ReleaseError(Exception):
    """A release cannot be made; the text says why."""
