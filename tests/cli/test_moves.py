"""Moving messages on the command line: what is no message's id is told before a node is asked."""

import pytest

from broker.cli.views.moves import move_failed, move_wrong

ID = "31db0123456789abcdef0123456789ab-0"


@pytest.mark.parametrize(
    ("ids", "every", "said"),
    [
        ([ID], False, ""),
        ([], True, ""),
        ([], False, "which messages? Give their ids, or --all"),
        ([ID, "stock"], False, "to the queue 'stock': `--all --to stock`"),
    ],
)
def test_a_queue_s_name_is_no_message_s_id(ids: list[str], every: bool, said: str) -> None:
    text = move_wrong({"name": "sales", "ids": ids, "all": every, "to": ""})
    assert text == said or (said and text.endswith(said))


def test_the_rest_that_stays_has_its_reason() -> None:
    assert move_failed({"moved": 1, "to": "queue:stock", "why": ""}) == ""
    assert move_failed({"moved": 1, "to": "queue:stock", "why": "full"}) == "the rest stays where it is: full"
