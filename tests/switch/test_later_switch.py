"""Later versions of the message switch have other paths: none of them is taken for something else here."""

from typing import Any

import pytest


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/persistent/till", None),
        ("/transient/till", None),
        ("/request/till/answers", b"x"),
        ("/response/till/answers/1", b"x"),
        ("/shutdown", b""),
        ("/admin/index.html", None),
    ],
)
def test_a_path_of_later_versions_is_404(here: Any, path: str, body: bytes | None) -> None:
    link = here.session("later")
    assert link.ask(path, body).status == 404
    assert link.ask("/create/till").status == 200, "the connection goes on"


def test_transfer_by_post_is_405(here: Any) -> None:
    assert here.session("later").ask("/transfer", b'{"queues": ["till"]}').status == 405
