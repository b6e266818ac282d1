"""The nightly test finds what is wrong, and tells it in few words."""

from pathlib import Path

import pytest

from broker.core.links.neighbour import Neighbour
from broker.core.neighbours.advertising import Advertising
from sapwood.protocol.destinations import Destination
from sapwood.protocol.errors import SapwoodError
from simulation.actions import Action
from simulation.advisory_log import Row
from simulation.deployment import generated
from simulation.soak import TRIALS, Failure, read_failure, replay, run_seed, soak
from simulation.weather import check_spillage
from treeconnector.advertiser import Beside, Down
from treeconnector.held import Held
from treeconnector.routes import Route, RoutingTable


def test_every_kind_of_trial_goes_well() -> None:
    outcomes = list(soak(1, len(TRIALS)))
    assert {outcome.trial for outcome in outcomes} == set(TRIALS)
    assert [outcome.failure for outcome in outcomes] == [None] * len(TRIALS)
    assert all(outcome.length >= 100 for outcome in outcomes)


@pytest.mark.parametrize("trial", ["weather", "chaos-crash"])
def test_a_history_that_was_recorded_is_the_history_that_was(trial: str) -> None:
    first, again = TRIALS[trial](3), TRIALS[trial](3)
    first.run()
    again.replay(first.history)
    assert again.history == first.history


def test_a_route_that_is_told_sideways_is_found_and_the_history_shortened(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Rule 3 broken: what a child has told is advertised to the other children."""

    def route(self: Down, table: RoutingTable, key: Destination) -> Route | None:
        routes = table.gateways(key).values() if key.kind in self._kinds else ()
        return next(iter(routes), None)

    monkeypatch.setattr(Down, "route", route)
    failure = run_seed("weather", 6).failure
    assert failure is not None
    assert failure.where == "check_routes (AssertionError)"
    assert [action.what for action in failure.history] == ["add"]
    assert "weather, seed 6" in str(failure)
    assert str(failure.history[0]) in str(failure)


def test_what_a_root_tells_the_others_of_its_children_s_consumers_is_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """In a mesh each node hears from its children itself."""
    plain = Beside.route

    def route(self: Beside, table: RoutingTable, key: Destination) -> Route | None:
        return plain(self, table, key) or next(
            (each for each in table.gateways(key).values() if each.gateway not in table.apart), None
        )

    monkeypatch.setattr(Beside, "route", route)
    failure = next(outcome.failure for outcome in soak(1, 5, "weather-mesh") if outcome.failure)
    assert failure.where == "check_routes (AssertionError)"
    assert len(failure.history) <= 2


def test_routes_that_are_swept_in_a_snapshot_are_found_in_chaos(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is not on disk is forgotten by a crash."""

    def keep(self: Advertising, neighbour: Neighbour, applied: object) -> None:
        """Keep nothing."""

    monkeypatch.setattr(Advertising, "_keep_routes", keep)
    monkeypatch.setattr(Held, "digest", property(lambda self: b""))
    outcome = run_seed("chaos-crash", 1)
    assert outcome.failure is not None
    assert len(outcome.failure.history) < outcome.length / 4


def test_a_failure_is_kept_and_lived_through_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rule 8 broken: nothing is told anew when a link comes up."""
    monkeypatch.setattr(Advertising, "tell_all", lambda *arguments: None)
    failure = next(outcome.failure for outcome in soak(6, 9, "weather") if outcome.failure)
    assert len(failure.history) <= 3
    failure.write(tmp_path / "failure.json")
    kept = read_failure(tmp_path / "failure.json")
    assert kept == failure
    again = replay(kept)
    assert again is not None
    assert again.where == failure.where
    monkeypatch.undo()
    assert replay(kept) is None


def test_what_is_no_failure_is_refused(tmp_path: Path) -> None:
    (tmp_path / "x.json").write_text("{}")
    with pytest.raises(SapwoodError, match="holds no failed history"):
        read_failure(tmp_path / "x.json")
    with pytest.raises(SapwoodError, match="'snow' is no kind of trial: expected one of chaos,"):
        next(soak(1, 1, "snow"))
    with pytest.raises(SapwoodError, match="no kind of trial"):
        replay(Failure("snow", 1, "", "", [Action("cut", ("a", 1.0))]))


def test_spillage_is_an_advisory_beside_the_way() -> None:
    row = Row("advisory", 1, "acme", "store-2", "leaf", 2, "region-1", "add", "queue", "a", origin="store-1")
    deployment = generated(4, regions=2)
    check_spillage([row._replace(node="region-1"), row._replace(node="hq")], deployment)
    check_spillage([row._replace(origin="hq"), row._replace(node="hq", origin="region-2")], deployment)
    with pytest.raises(AssertionError, match="store-2 was told by None of queue:a at store-1, which"):
        check_spillage([row], deployment)
    with pytest.raises(AssertionError, match="its own consumer"):
        check_spillage([row._replace(node="store-1")], deployment)


def test_in_a_mesh_all_nodes_are_above_what_one_is_above_of() -> None:
    row = Row("advisory", 1, "acme", "hq-b", "root", 0, None, "add", "queue", "a", origin="store-1")
    deployment = generated(4, regions=2, cores=2, region_cores=2)
    check_spillage([row, row._replace(origin="hq-a")], deployment)
    check_spillage([row._replace(node="region-1-b"), row._replace(node="store-1", origin="hq-b")], deployment)
    with pytest.raises(AssertionError, match="region-2-a was told"):
        check_spillage([row._replace(node="region-2-a")], deployment)
