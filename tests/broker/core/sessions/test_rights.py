"""What an application with limited rights can do at the switch, and what it cannot, whatever it says."""

from typing import Any

import pytest

from broker.core.errors import NotLoggedIn, SwitchError
from broker.core.policy import Policy
from broker.core.sessions.rights import FULL, Rights
from broker.core.sessions.sessions import Connection
from sapwood.protocol.bundles import Message, Properties
from simulation.forest import Forest
from simulation.site import Site
from treeconnector.permits import Grant, Permit, Rules, application


@pytest.fixture
def hq(forest: Forest) -> Site:
    return forest.add("hq")


def account(name: str, *, consume: tuple[str, ...] = (), send: tuple[str, ...] = ()) -> Rights:
    return Rights(f"account {name}", f"{name}/", Permit([application("hq", name, consume, send)]))


def line(site: Site, rights: Rights | None, token: str = "t") -> Connection:
    made = Connection(lambda frame: None, "test", "http", rights)
    site.core.switch.login(made, token)
    return made


def send(site: Site, connection: Connection, name: str, reply_to: str = "") -> None:
    message = Message(b"x", Properties(reply_to=reply_to))
    site.core.switch.send(connection, name, message, lambda error: None)


def test_nobody_logs_in_who_has_not_proved_who_it_is(hq: Site) -> None:
    with pytest.raises(NotLoggedIn):
        line(hq, None)


def test_an_account_without_patterns_has_what_is_below_its_name(hq: Site) -> None:
    till = line(hq, account("till"))
    hq.core.switch.create(till, "till/orders")
    hq.core.switch.subscribe(till, "till/orders")
    send(hq, till, "till/orders")
    send(hq, till, "topic:till/sold")
    for name in ("orders", "tills/orders", "topic:till2/x", "q@till", "System@hq"):
        with pytest.raises(SwitchError, match=r"PERMIT|is for nodes"):
            send(hq, till, name)


def test_who_may_only_send_to_a_queue_cannot_delete_it_with_what_others_sent(hq: Site) -> None:
    till = line(hq, account("till", send=("queue:orders",)))
    office = line(hq, account("office", consume=("queue:orders",)))
    hq.core.switch.create(office, "orders")
    hq.core.switch.create(till, "orders")
    with pytest.raises(SwitchError, match="PERMIT"):
        hq.core.switch.destroy(till, "orders")
    assert hq.core.switch.local_queues.has("orders")
    hq.core.switch.destroy(office, "orders")
    assert not hq.core.switch.local_queues.has("orders")


@pytest.mark.parametrize("restarted", [False, True])
def test_whoever_made_a_queue_may_delete_it(hq: Site, restarted: bool) -> None:
    till = line(hq, account("till", send=("queue:orders",)))
    hq.core.switch.create(till, "orders")
    if restarted:
        hq.run()
        hq.crash()
        hq.boot()
        till = line(hq, account("till", send=("queue:orders",)))
    other = line(hq, account("other", send=("queue:orders",)))
    with pytest.raises(SwitchError, match="PERMIT"):
        hq.core.switch.destroy(other, "orders")
    hq.core.switch.destroy(till, "orders")
    assert not hq.core.switch.local_queues.has("orders")


def test_an_account_named_like_a_node_has_none_of_its_cells(hq: Site) -> None:
    york = line(hq, account("york"))
    with pytest.raises(SwitchError, match="PERMIT"):
        send(hq, york, "orders@york")


def test_two_accounts_never_share_a_session_whatever_they_call_it(hq: Site) -> None:
    one, other = line(hq, account("one"), "same"), line(hq, account("other"), "same")
    full = line(hq, FULL, "same")
    sessions: list[Any] = [connection.session for connection in (one, other, full)]
    assert len({id(session) for session in sessions}) == 3
    assert set(hq.core.switch.sessions) == {"one/same", "other/same", "same"}


def test_a_fresh_queue_is_read_by_its_session_alone(hq: Site) -> None:
    mine, thief = line(hq, account("one")), line(hq, account("other"))
    name = hq.core.switch.create(mine, "")
    hq.core.switch.subscribe(mine, name)
    with pytest.raises(SwitchError, match="PERMIT"):
        hq.core.switch.subscribe(thief, name)
    send(hq, thief, name)


def test_an_answer_goes_nowhere_that_the_account_may_not_send(hq: Site) -> None:
    till = line(hq, account("till", send=("orders",)))
    send(hq, till, "orders", reply_to=hq.core.switch.create(till, ""))
    for reply_to in ("payroll", "queue:payroll", "topic:prices/york", "cell@york"):
        with pytest.raises(SwitchError, match="place for an answer: PERMIT"):
            send(hq, till, "orders", reply_to=reply_to)
    assert hq.core.message_admission.refused["REFUSED"] == 4


def test_a_queue_is_made_by_who_may_read_it_or_send_to_it(hq: Site) -> None:
    reader, writer = account("r", consume=("orders",), send=("nothing",)), account("w", send=("orders",))
    for rights in (reader, writer):
        assert hq.core.switch.create(line(hq, rights), "orders") == "orders"
        with pytest.raises(SwitchError, match="PERMIT"):
            hq.core.switch.create(line(hq, rights), "payroll")
    with pytest.raises(SwitchError, match="PERMIT"):
        hq.core.switch.subscribe(line(hq, writer), "orders")


def test_no_account_gets_into_a_session_that_is_called_like_its_own(hq: Site) -> None:
    """As those of MQTT clients are, for an account of that name."""
    full = line(hq, FULL, "till/1")
    with pytest.raises(SwitchError, match="somebody else"):
        line(hq, account("till"), "1")
    send(hq, full, "orders")


class OwnNames(Policy):
    def owner_of(self, token: str) -> str:
        return "account till" if token.startswith("till/") else ""


def test_who_has_every_right_takes_no_names_of_an_account_either(hq: Site) -> None:
    hq.core.policies.add((OwnNames(),))
    with pytest.raises(SwitchError, match="of account till"):
        line(hq, FULL, "till/1")
    line(hq, account("till"), "1")
    line(hq, FULL, "till")


def test_a_certificate_opens_the_channels_that_its_child_may_and_no_others() -> None:
    grant = Grant("hq", "shop", (), (), opens=("till@york",))
    shop = Rights("certificate shop", "shop:", Permit([Rules(grant)]), is_of_child=True)
    assert shop.why_not_open("till", "york") == ""
    assert shop.why_not_open("till", "leeds").startswith("PERMIT: hq lets shop open channels to till@york")
    assert account("till").why_not_open("till", "leeds") == FULL.why_not_open("till", "leeds") == ""
