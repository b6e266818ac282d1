"""The site's file, read again while the node runs: who may be a child, which accounts its applications
have, and what all of them may do.
"""

import logging
from dataclasses import replace
from typing import TYPE_CHECKING

from broker.core.errors import SwitchError
from broker.entrance.passwords import PasswordError
from broker.entrance.policy import policy_of
from broker.grants import Grants
from broker.link_secrets import LinkSecrets
from config.errors import ConfigurationError
from treeconnector.errors import Refusal

if TYPE_CHECKING:
    from broker.node import Node

_log = logging.getLogger("sapwood.node")


def reread(node: "Node") -> list[str]:
    """Read it and let it count; return the children that it names no more, or otherwise, whose links end.

    A link that stays keeps its secret until it comes up again. Raises `SwitchError`: nothing has changed.
    """
    if node.source is None:
        raise SwitchError("this node was not started from a file: there is nothing to read again")
    try:
        read = node.source()
        if read.name not in ("", node.site.name):
            raise ConfigurationError(f"the file is of {read.name!r}, this node is {node.site.name!r}")
        site = replace(
            node.site,
            children=read.children,
            children_secrets=read.children_secrets,
            permits=read.permits,
            accounts=read.accounts,
            account_passwords=read.account_passwords,
        )
        permits = LinkSecrets(site, closed=node.names_children)
        policy = policy_of(site)
    except (ConfigurationError, PasswordError) as error:
        _log.warning("! the file was not read again, nothing has changed: %s", error)
        raise SwitchError(str(error)) from None
    permits.office, invited = node.enrolment, node.grants.invited
    node.site, node.grants, node.permits = site, Grants(site), permits
    node.grants.invited = invited
    node.names_children = permits.closed
    node.core.admission.configure(permits.secret_of, permits.secret_of_core)
    node.grants.tell(node.core)
    node.entrance.configure(policy)
    away = _turn_away(node, permits)
    node.wake()
    node.grants.warn(_log)
    if permits.names_nobody:
        _log.warning(
            "! the file names no child any more: no further one links until it names one again. A node that"
            " is started with such a file asks for no names"
        )
    _log.info("= the file was read again%s", f"; turned away: {', '.join(away)}" if away else "")
    return away


def _turn_away(node: "Node", permits: LinkSecrets) -> list[str]:
    found: dict[str, tuple[Refusal, str]] = {}
    for child in node.core.context.children():
        why = node.core.permitting.why_not_role(child.name, child.detail.role) if child.detail.role else ""
        if not permits.names(child.name):
            text = f"{node.site.name!r} has no permit any more for its child {child.name!r}"
            found[child.name] = Refusal.SECRET, text
        elif why:
            found[child.name] = Refusal.ROLE, why
        if child.name in found and child.link is not None:
            node.core.admission.handle(child.link, child.link.refuse(*found[child.name]))
    return list(found)
