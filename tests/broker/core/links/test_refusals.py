"""Refusals by rule: the latest first, bounded."""

from broker.core.links.refusals import RefusalCount, Refusals


def test_refusals_of_one_rule_are_counted_together_with_the_last_example() -> None:
    refusals = Refusals()
    assert refusals.add("PERMIT: hq lets york send to a, not queue:b")
    assert not refusals.add("PERMIT: hq lets york send to a, not queue:c", 3)
    assert refusals.add("a pattern of 2000 characters")
    assert refusals.total == 5
    assert refusals.latest() == [
        RefusalCount("a pattern of 2000 characters", "", 1),
        RefusalCount("PERMIT: hq lets york send to a", "queue:c", 4),
    ]
    assert repr(refusals) == "<Refusals total=5 rules=2>"


def test_rules_and_texts_are_bounded() -> None:
    refusals = Refusals()
    for number in range(80):
        refusals.add(f"{number} {'x' * 1000}, not {'y' * 1000}")
    latest = refusals.latest()
    assert (len(latest), refusals.total) == (50, 80)
    assert latest[0].rule.startswith("79 ")
    assert max(len(each.rule) + len(each.what) for each in latest) == 600
