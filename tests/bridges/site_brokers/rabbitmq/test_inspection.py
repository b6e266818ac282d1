"""What a real RabbitMQ lacks, and that the printed lines, run as they are, end the lack."""

import asyncio
import shlex
from pathlib import Path

import pytest
from rabbitmq_server import RabbitServer
from rabbitmq_site import PATIENCE

from bridges.site_brokers.base import SiteBrokerError
from config.model import SiteExchange


def run(server: RabbitServer, line: str) -> None:
    program, *arguments = shlex.split(line)
    server.control(program, *arguments)


async def test_a_broker_with_everything_lacks_nothing(place) -> None:
    assert await place().bridge.inspect() == []


async def test_it_may_run_beside_a_node_that_works_and_leaves_nothing(
    york, place, rabbitmq, vhost: str
) -> None:
    before = rabbitmq.api("GET", f"/queues/{vhost}")
    assert await york.bridge.inspect() == []
    assert await place("york").bridge.inspect() == []
    names = [each["name"] for each in rabbitmq.api("GET", f"/queues/{vhost}")]
    assert names == [each["name"] for each in before]


async def test_another_nodes_broker_is_said_to_be_one(york, place) -> None:
    (found,) = await place("leeds").bridge.inspect()
    assert found.fatal
    assert "belongs to node 'york'" in found.text


async def test_a_user_with_no_rights_is_told_the_lines_that_give_him_all(place, rabbitmq, vhost: str) -> None:
    user = f"poor-{vhost}"
    rabbitmq.add_user(user)
    york = place(user=user, password=lambda: user)
    (unknown,) = await york.bridge.inspect()
    assert unknown.fatal
    (permit,) = (line for line in unknown.lines if f"set_permissions -p {vhost} " in line)
    run(rabbitmq, permit.partition("'")[0] + "'^$' '^$' '^$'")
    found = await york.bridge.inspect()
    assert [(one.fatal, one.text.partition(" ")[0]) for one in found] == [
        (True, "user"),
        (False, "no"),
        (False, "no"),
    ]
    assert f"lacks rights in the virtual host {vhost!r}" in found[0].text
    assert "no events" in found[1].text
    assert "no lists" in found[2].text
    for line in [line for one in found for line in one.lines]:
        run(rabbitmq, line)
    assert await york.bridge.inspect() == []
    await york.start()
    assert york.bridge.status()["discovery"] == "events and lists"
    york.want("topic:sales/#")
    await york.until_answered(york.deliver("topic:a", b"x"))
    assert york.bridge.status()["troubles"] == {}


async def test_a_user_that_is_not_there_yet_is_told_all_lines(place, vhost: str) -> None:
    (found,) = await place(user=f"new-{vhost}", password=lambda: "secret").bridge.inspect()
    assert f"refuses user 'new-{vhost}'" in found.text
    words = [" ".join(line.split()[:2]) for line in found.lines]
    assert words == [
        "rabbitmq-plugins enable",
        "rabbitmqctl add_vhost",
        "rabbitmqctl add_user",
        "rabbitmqctl set_permissions",
        "rabbitmqctl set_permissions",
        "rabbitmqctl set_user_tags",
    ]


@pytest.mark.parametrize(
    ("write", "read"),
    [(r"^sapwood\..*", ".*"), (r"^(sapwood\..*|amq\.topic)$", ".*"), (".*", r"^sapwood\..*")],
)
async def test_each_missing_right_is_noticed(place, rabbitmq, vhost: str, write: str, read: str) -> None:
    user = f"half-{vhost}"
    rabbitmq.add_user(user, "monitoring")
    rabbitmq.permit("/", user)
    rabbitmq.permit(vhost, user, write=write, read=read)
    (found,) = await place(user=user, password=lambda: user).bridge.inspect()
    assert found.fatal
    assert "access" in found.text


async def test_an_exchange_that_is_not_there_is_fatal(place, vhost: str) -> None:
    found = (await place(exchange="chain").bridge.inspect())[0]
    assert found.fatal
    assert found.lines == (f"rabbitmqadmin -V {vhost} declare exchange name=chain type=topic durable=true",)


async def test_each_exchange_is_there_lets_us_write_and_knows_topics(
    place, applications, rabbitmq, vhost: str
) -> None:
    exchanges = tuple(SiteExchange(name=name, prefix=f"{name}/") for name in ("sales", "stock"))
    user = f"half-{vhost}"
    rabbitmq.add_user(user, "monitoring")
    rabbitmq.permit("/", user)
    rabbitmq.permit(vhost, user, write=r"^(sapwood\..*|amq\.default|amq\.topic|sales)$")
    at = place(user=user, password=lambda: user, exchanges=exchanges)
    applications.channel().exchange_declare("sales", "topic", durable=True)
    missing, *_ = await at.bridge.inspect()
    assert "no exchange 'stock'" in missing.text
    applications.channel().exchange_declare("stock", "direct", durable=True)
    refused, kind = await at.bridge.inspect()
    assert "access to exchange 'stock'" in refused.text
    assert r"'^(sapwood\..*|amq\.default|amq\.topic|sales|stock)$'" in refused.lines[0]
    assert "'stock' in" in kind.text
    assert "of type direct: expected topic" in kind.text
    assert refused.fatal
    assert kind.fatal


async def test_an_exchange_that_another_one_feeds_is_refused_where_their_topics_differ(
    place, applications
) -> None:
    channel = applications.channel()
    for name in ("sales", "intake"):
        channel.exchange_declare(name, "topic", durable=True)
    at = place(exchanges=(SiteExchange(name="sales", prefix="sales/"),))
    channel.exchange_bind("amq.topic", "intake", "#")
    assert await at.bridge.inspect() == [], "both have no prefix"
    channel.exchange_bind("sales", "intake", "tea.#")
    channel.exchange_bind("amq.topic", "sales", "tea.#")
    found = await at.bridge.inspect()
    assert all(each.fatal for each in found)
    assert [each.text.partition(":")[0] for each in found] == [
        "exchange 'amq.topic' is bound to exchange 'sales'",
        "exchange 'sales' is bound to exchange 'intake'",
    ]


async def test_what_waits_for_a_node_that_is_away_outlives_a_policy_for_all_queues(
    york, applications, rabbitmq: RabbitServer, vhost: str
) -> None:
    york.want("topic:sales/#")
    await applications.until_bound("sales.#")
    await york.stop()
    policy = {"pattern": ".*", "definition": {"message-ttl": 200, "expires": 86_400_000}, "priority": 3}
    rabbitmq.api("PUT", f"/policies/{vhost}/all", policy)
    (found,) = await york.bridge.inspect()
    assert "policy 'all' sets message-ttl and expires for queue 'sapwood.topics'" in found.text
    run(rabbitmq, *found.lines)
    assert await york.bridge.inspect() == []
    applications.publish("sales.tea", b"1", "amq.topic")
    applications.channel().queue_declare("other", durable=True)
    applications.publish("other", b"1")
    while applications.channel().queue_declare("other", passive=True).method.message_count:
        await asyncio.sleep(0.1)
    await york.start()
    await york.desk.until(lambda: york.desk.payloads == [b"1"])


async def test_a_node_that_runs_tells_of_such_a_policy(place, rabbitmq: RabbitServer, vhost: str) -> None:
    policy = {"pattern": ".*", "definition": {"max-length": 5}}
    rabbitmq.api("PUT", f"/operator-policies/{vhost}/cap", policy)
    york = await place().start()
    assert "operator policy 'cap' sets max-length" in york.bridge.status()["lacks"]["policies"]


async def test_a_shovel_beside_the_tree_is_named_and_so_is_what_comes_through_it(
    york, place, rabbitmq: RabbitServer, vhost: str, caplog: pytest.LogCaptureFixture
) -> None:
    """A queue that it fills goes round: its reader at the one end is the shovel, at the other nobody."""
    above = f"{vhost}-hq"
    rabbitmq.add_vhost(above)
    try:
        for name in (vhost, above):
            rabbitmq.api("PUT", f"/queues/{name}/sales", {"durable": True})
        hq = await place("hq", uri=rabbitmq.uri(above)).start()
        uris = {"src-uri": rabbitmq.uri(vhost), "dest-uri": rabbitmq.uri(above)}
        queues = {"src-queue": "sales", "dest-queue": "sales"}
        protocols = {"src-protocol": "amqp091", "dest-protocol": "amqp091"}
        shovel = {"value": uris | queues | protocols}
        rabbitmq.api("PUT", f"/parameters/shovel/{vhost}/to-hq", shovel)
        await york.desk.until_consumers("queue:sales")
        hq.want("queue:sales")
        york.deliver("queue:sales", b"1")
        await hq.desk.until(lambda: hq.desk.payloads == [b"1"])
        why = hq.bridge.status()["other_ways"]["queue:sales"]
        assert "node 'york' gave to its own broker" in why
        assert f"queue:sales comes another way than the tree's, too: {why}" in caplog.text
        for at in (york, hq):
            async with asyncio.timeout(PATIENCE):
                while not (found := await at.bridge.inspect()):
                    await asyncio.sleep(0.2)  # the management API lags
            assert "messages go other ways here too ('Shovel to-hq')" in found[0].text
        rabbitmq.api("DELETE", f"/parameters/shovel/{vhost}/to-hq")
        await hq.stop()
    finally:
        rabbitmq.delete_vhost(above)


async def test_missing_plugins_are_named_with_the_lines_that_enable_them(
    place, tmp_path: Path, rabbitmq: RabbitServer
) -> None:
    del rabbitmq
    bare = RabbitServer(tmp_path / "bare", plugins=())
    try:
        bare.start()
        york = place(uri=bare.uri(), management=bare.management_uri)
        found = await york.bridge.inspect()
        assert [(one.fatal, one.lines) for one in found] == [
            (False, ("rabbitmq-plugins enable rabbitmq_event_exchange",)),
            (False, ("rabbitmq-plugins enable rabbitmq_management",)),
        ]
        await york.start()
        assert york.bridge.status()["discovery"] == "queues that are wanted or configured, one by one"
        with bare.connect("/") as application:
            application.channel().queue_declare("orders", durable=True)
            york.want("queue:orders")
            await york.desk.until(lambda: york.bridge.status()["taking_queues"] == ["orders"])
        await york.stop()
    finally:
        bare.stop()


async def test_a_broker_that_is_not_there_is_an_error(place) -> None:
    with pytest.raises(SiteBrokerError, match="cannot be reached"):
        await place(uri="amqp://127.0.0.1:9").bridge.inspect()
