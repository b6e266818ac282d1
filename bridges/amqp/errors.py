"""The errors of a RabbitMQ. No exception of pika leaves this package.

AmqpError
├── AmqpUnreachable    no connection could be made
│   ├── AmqpAbsent     because it does not run
│   └── AmqpRefused    because the broker does not let us in: wrong password, no such virtual host
├── AmqpLost           the connection ended; `code` 0 where the broker did not say why
├── ChannelLost        the broker closed a channel: `code` says why
├── NotAmqp            the broker's bytes are no AMQP; the connection ends
├── Unencodable        a message that AMQP has no room for; nothing was sent
└── ManagementError    the management API is not there, or does not let us in
"""

from typing import Final

from sapwood.protocol.errors import SapwoodError

ACCESS_REFUSED: Final = 403
NOT_FOUND: Final = 404
RESOURCE_LOCKED: Final = 405
PRECONDITION_FAILED: Final = 406


class AmqpError(SapwoodError):
    """Root of the errors of a RabbitMQ."""


class AmqpUnreachable(AmqpError):
    """No connection could be made; the text says where, why, and what to look at."""


class AmqpAbsent(AmqpUnreachable):
    """Nothing takes connections there: RabbitMQ does not run."""


class AmqpRefused(AmqpUnreachable):
    """The broker does not let us in: trying again is no use."""


class AmqpLost(AmqpError):
    """The connection ended."""


class ChannelLost(AmqpError):
    """A channel ended. `code`: AMQP's reply code, 0 where it went with its connection."""

    def __init__(self, code: int, text: str) -> None:
        super().__init__(f"{text} [{code}]" if code else text)
        self.code = code
        self.text = text

    @property
    def is_forbidden(self) -> bool:
        """Not so where another one consumes a queue alone, of which RabbitMQ says the same code."""
        return self.code == ACCESS_REFUSED and "exclusive use" not in self.text


class Unencodable(AmqpError):
    """A message that AMQP has no room for: a name that is too long, a header of an unknown kind."""


class NotAmqp(AmqpError):
    """Bytes that are no AMQP 0-9-1, or more of them than we take."""


class ManagementError(AmqpError):
    """The management API does not answer as it should. `status`: HTTP's, 0 where there was no answer."""

    def __init__(self, text: str, status: int = 0) -> None:
        super().__init__(text)
        self.status = status
