"""What a site's file says of children that join by invitation, and of their certificates."""

from pathlib import Path

from config.fields import section, value
from config.values import DAY, PATH, POSITIVE_TIME, TIME


@section
class Enrolment:
    """Lets `sapwood invite` and `sapwood join` work here (branch and root only). See docs/zero-touch.md."""

    authority: Path | None = value(
        PATH,
        "folder of this node's certificate authority, made at the first start; with it the port speaks wss "
        "and https with a certificate from there, and `tls` of the listener is left out",
        default=None,
        aside=True,
    )
    lifetime: float = value(
        POSITIVE_TIME,
        "how long a child's certificate is good; the child renews it after two thirds of that",
        default=30 * DAY,
    )
    grace: float = value(
        TIME,
        "how long after its end a child that was offline may still renew it, by proof of its key",
        default=180 * DAY,
    )
