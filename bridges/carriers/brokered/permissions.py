"""The lines that confine each child to its own topics or queues at its parent's broker. Text only.

Law: a child may say on its `up` and hear on its `down`, nothing else; the parent may do the reverse for all,
and meet other parents.
Each child logs in with a user of its own, named as the child.

Wrinkle: RabbitMQ lets a user without topic permissions use every key of an exchange that he may write to, so
`set_topic_permissions` is not an extra. Write permission for the default exchange (`amq.default`) reaches
every queue: no child gets it.
Wrinkle: with an `acl_file` Mosquitto lets everybody subscribe to anything, and then delivers nothing that may
not be read; its dynamic security refuses the subscription.
"""

import re
import shlex
from collections.abc import Iterable, Iterator
from typing import Final

from bridges.carriers.brokered.envelopes import HALF
from bridges.carriers.brokered.names import Queues, Topics

_CONTROL: Final = "mosquitto_ctrl dynsec"


def acl_file(tree: str, node_user: str) -> list[str]:
    """Lines of Mosquitto's `acl_file`. The patterns hold for every child, `%u` being its user."""
    topics = Topics(tree)
    return [
        "# children: the user's name is the child's",
        f"pattern write {topics.up('%u')}/#",
        f"pattern read {topics.down('%u')}",
        "# this node",
        f"user {node_user}",
        f"topic read {topics.up('+')}/#",
        f"topic write {topics.down('+')}",
        f"topic readwrite {topics.parents}",
    ]


def dynamic_security(tree: str, node_user: str, children: Iterable[str]) -> list[str]:
    """Commands for Mosquitto's dynamic-security plugin. `createClient` asks for a password."""
    topics = Topics(tree)
    lines = [
        "# this node",
        *_role(
            node_user,
            f"sapwood-{tree}-links",
            ("subscribePattern", f"{topics.up('+')}/#"),
            ("publishClientReceive", f"{topics.up('+')}/#"),
            ("publishClientSend", topics.down("+")),
            ("subscribeLiteral", topics.parents),
            ("publishClientReceive", topics.parents),
            ("publishClientSend", topics.parents),
        ),
    ]
    for child in children:
        lines += [
            f"# child {child}",
            *_role(
                child,
                f"sapwood-{tree}-link-{child}",
                ("subscribeLiteral", topics.down(child)),
                ("publishClientReceive", topics.down(child)),
                ("publishClientSend", f"{topics.up(child)}/#"),
            ),
        ]
    return lines


def _role(user: str, role: str, *rules: tuple[str, str]) -> Iterator[str]:
    yield f"{_CONTROL} createRole {shlex.quote(role)}"
    for kind, topic in rules:
        yield f"{_CONTROL} addRoleACL {shlex.quote(role)} {kind} {shlex.quote(topic)} allow"
    yield f"{_CONTROL} createClient {shlex.quote(user)}"
    yield f"{_CONTROL} addClientRole {shlex.quote(user)} {shlex.quote(role)}"


def rabbitmq(tree: str, vhost: str, node_user: str, children: Iterable[str]) -> list[str]:
    """Commands for RabbitMQ. `add_user` asks for a password."""
    queues = Queues(tree)
    exchange = re.escape(queues.exchange)
    everything = f"^{exchange}($|\\.)"
    lines = [
        "# this node",
        f"rabbitmqctl add_user {shlex.quote(node_user)}",
        _permit(vhost, node_user, everything, f"^amq\\.default$|{everything}", everything),
    ]
    for child in children:
        queue = f"^{re.escape(queues.down_queue(child, ''))}[0-9a-f]{{{2 * HALF}}}$"
        key = f"^{re.escape(queues.up(child))}(\\.knock)?$"
        lines += [
            f"# child {child}",
            f"rabbitmqctl add_user {shlex.quote(child)}",
            _permit(vhost, child, queue, f"^{exchange}$", queue),
            f"rabbitmqctl set_topic_permissions -p {shlex.quote(vhost)} {shlex.quote(child)}"
            f" {shlex.quote(queues.exchange)} {shlex.quote(key)} '^$'",
        ]
    return lines


def _permit(vhost: str, user: str, configure: str, write: str, read: str) -> str:
    words = ("-p", vhost, user, configure, write, read)
    return f"rabbitmqctl set_permissions {' '.join(map(shlex.quote, words))}"
