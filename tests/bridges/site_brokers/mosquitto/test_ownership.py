"""One node at one broker: two claims and the messages between them."""

from bridges.site_brokers.mosquitto.ownership import HOLDER, PATIENCE, SHORT, WHO, Ownership


class Broker:
    """Both claims' messages, delivered at once; retained ones to who comes later."""

    def __init__(self) -> None:
        self.claims: list[Ownership] = []
        self.refused: dict[Ownership, str] = {}
        self.retained = b""

    def join(self, claim: Ownership) -> None:
        def say(topic: str, payload: bytes, retained: bool) -> None:
            if retained:
                self.retained = payload
            for other in self.claims:
                if other is not claim:
                    other.heard(topic, payload, False)

        self.claims.append(claim)
        if self.retained:
            claim.heard(HOLDER, self.retained, True)
        claim.ask(say, lambda text: self.refused.setdefault(claim, text))


def test_a_second_node_is_told_who_has_the_broker() -> None:
    broker, york, bath = Broker(), Ownership("11", "york", "acme"), Ownership("22", "bath", "acme")
    broker.join(york)
    assert york.patience == SHORT
    york.hold()
    broker.join(bath)
    assert bath.patience == PATIENCE
    assert "node 'york' of tree 'acme' has this broker already" in broker.refused[bath]
    assert york not in broker.refused
    assert york.held


def test_a_dead_holder_does_not_answer() -> None:
    broker, york, bath = Broker(), Ownership("11", "york", "acme"), Ownership("22", "bath", "acme")
    broker.join(york)
    york.hold()
    broker.claims.remove(york)
    broker.join(bath)
    bath.hold()
    assert broker.refused == {}


def test_of_two_that_come_at_once_one_goes_on() -> None:
    broker, york, bath = Broker(), Ownership("11", "york", "acme"), Ownership("22", "bath", "acme")
    broker.join(york)
    broker.join(bath)
    assert len(broker.refused) <= 1
    for claim in (york, bath):
        if claim not in broker.refused:
            claim.hold()
    assert len(broker.refused) == 1
    assert sum(claim.held for claim in (york, bath)) == 1


def test_a_copy_of_the_same_database_is_another_holder() -> None:
    broker, york, copy = Broker(), Ownership("11", "york", "acme"), Ownership("11", "york", "acme")
    broker.join(york)
    york.hold()
    broker.join(copy)
    assert copy.patience == SHORT
    assert copy in broker.refused


def test_nonsense_is_left_aside_and_a_goodbye_clears() -> None:
    broker, york = Broker(), Ownership("11", "york", "acme")
    broker.join(york)
    york.hold()
    york.heard(WHO, b"nonsense", False)
    york.leave()
    assert broker.retained == b""
