"""Parameters that several operations have."""

from typing import Final

from broker.administration.pages import DEFAULT_LIMIT, MOST, Cut
from broker.http.api.operations import Call, Parameter

LIMIT: Final = Parameter("limit", "How many at most.", "integer", default=DEFAULT_LIMIT, least=1, most=MOST)
AFTER: Final = Parameter("after", "`next` of the page before.")
SEARCH: Final = Parameter("search", "Only those whose name holds this text.")
PAGE: Final = (LIMIT, AFTER)
NODE: Final = Parameter("node", "A node's name.", in_path=True)
GONE: Final = {404: "There is no such thing here."}


def cut_of(call: Call) -> Cut:
    return Cut(call["limit"], call["after"])
