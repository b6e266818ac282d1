"""Both kinds of brokers for the tests of links over them."""

import pytest
from brokered_harness import Server


@pytest.fixture(params=["mosquitto", "rabbitmq"])
def server(request: pytest.FixtureRequest) -> Server:
    found: Server = request.getfixturevalue(request.param)
    found.start()
    return found
