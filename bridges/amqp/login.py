"""Why a RabbitMQ did not let us in, for people, from what pika makes of it."""

from typing import Final

from pika.adapters.utils.connection_workflow import AMQPConnectorStackTimeout
from pika.exceptions import (
    AMQPConnectionError,
    ConnectionClosed,
    ConnectionClosedByBroker,
    ProbableAccessDeniedError,
    ProbableAuthenticationError,
)

from bridges import dialling
from bridges.amqp.errors import ACCESS_REFUSED, AmqpAbsent, AmqpRefused, AmqpUnreachable
from bridges.amqp.server import Server
from bridges.tls import CERTIFICATE

_PASSING: Final = {
    " limit (": "raise the limit: a node has up to three connections, and `sapwood node check` one more",
    "is down": "rabbitmqctl restart_vhost -p {vhost}",
}
"""Of why a virtual host lets nobody in: that may end by itself, or by this."""
_QUOTES: Final = "'\""
_NEVER: Final = (ACCESS_REFUSED, 530)
"""Reply codes to a connection that is not let in: not allowed, or no such virtual host."""


def why_not(server: Server, error: BaseException) -> AmqpUnreachable:
    """Why there is no connection, and what to look at."""
    where = f"{server.host}:{server.port}"
    for each in _causes(error):
        if isinstance(each, ProbableAuthenticationError):
            return AmqpRefused(
                f"{where} refuses user {server.user!r}: check user and password; 'guest' is let in from"
                " the broker's own machine only"
            )
        if isinstance(each, ProbableAccessDeniedError):
            words = _words(each)
            why = f"{where} does not let user {server.user!r} into the virtual host {server.vhost!r}{words}"
            for one, cure in _PASSING.items():
                if one in words:
                    return AmqpUnreachable(f"{why}: {cure.format(vhost=server.vhost)}")
            permit = f"rabbitmqctl set_permissions -p {server.vhost} {server.user} '.*' '.*' '.*'"
            made = f"rabbitmqctl add_vhost {server.vhost} && " if " not found" in words else ""
            return AmqpRefused(f"{why}: {made}{permit}")
        if isinstance(each, ConnectionClosed):
            refused = AmqpRefused if each.reply_code in _NEVER else AmqpUnreachable
            return refused(f"{where} refuses: {each.reply_text} [{each.reply_code}]")
        if isinstance(each, AMQPConnectorStackTimeout):
            return AmqpUnreachable(
                f"{where} does not answer within {server.timeout:g} s: is that a RabbitMQ?"
            )
        if isinstance(each, OSError):
            kind = AmqpAbsent if isinstance(each, ConnectionRefusedError) else AmqpUnreachable
            return kind(dialling.why_not(each, where, hint="; is RabbitMQ running there?"))
    hint = f"; {CERTIFICATE}" if server.tls else ""
    return AmqpUnreachable(f"{where} cannot be reached: {said(error)}{hint}")


def _causes(error: BaseException) -> list[BaseException]:
    """An error and those that pika wrapped in it."""
    found: list[BaseException] = [error]
    for each in found:
        inner = [*getattr(each, "exceptions", ()), getattr(each, "exception", None), *each.args]
        found += [one for one in inner if isinstance(one, BaseException) and one not in found]
    return found


def _words(error: BaseException) -> str:
    """The broker's own, of an error that pika kept as a text: there may be a limit, or no such host."""
    name, _, words = str(error).partition(") ")
    return f" ({words.strip(_QUOTES)})" if name.startswith(ConnectionClosedByBroker.__name__) else ""


def said(error: BaseException) -> str:
    """The text of an error of pika's."""
    if isinstance(error, ConnectionClosed):
        return f"{error.reply_text} [{error.reply_code}]"
    if isinstance(error, AMQPConnectionError) and error.args:
        error = error.args[0] if isinstance(error.args[0], BaseException) else error
    return str(error) or type(error).__name__
