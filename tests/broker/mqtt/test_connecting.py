"""A client is given its wishes as far as the node goes along with them."""

from bridges.mqtt.packets import LEVEL_5, Connect
from bridges.mqtt.properties import Name
from broker.mqtt.connecting import MOST_WAITING, wishes_of


def test_a_client_has_so_many_messages_unanswered_at_most_whatever_it_says() -> None:
    older = Connect("c", False, 0, None, None, None)
    assert wishes_of(older).window == MOST_WAITING
    for said, window in ((65_535, MOST_WAITING), (MOST_WAITING, MOST_WAITING), (10, 10)):
        newer = older._replace(level=LEVEL_5, properties={Name.RECEIVE_MAXIMUM: said})
        assert wishes_of(newer).window == window
    assert wishes_of(newer._replace(properties={})).window == MOST_WAITING
