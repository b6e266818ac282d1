"""AuditError, the one error of this package: its text names the thing, what was expected, and what to do.

AuditError
  +-- UsageError     an option, a path or a table of sites that is wrong (exit code 2)
  +-- SetUpError     no Java, no Spark: the machine lacks something (exit code 1)
"""


class AuditError(Exception):
    """The audit cannot be done."""


class UsageError(AuditError):
    """What was asked for is wrong."""


class SetUpError(AuditError):
    """The machine lacks something."""
