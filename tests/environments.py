"""Which tests belong where: the table behind tox's environments unit, brokers, browser, spark and network.

    pytest --environment unit

runs those of one row; without the option all run. A path counts for all that is below it, unless a longer one
says otherwise. Whatever no row names is of `network`: it may start nodes, listen and dial.

Law: a test of `unit` starts no process and opens no line to anybody; `conftest` refuses it if it tries.
"""

import functools
from pathlib import Path
from typing import Final

TESTS: Final = Path(__file__).parent
REST: Final = "network"
TABLE: Final[dict[str, tuple[str, ...]]] = {
    "spark": (
        "audit",
        "benchmarks/test_audit.py",
        "benchmarks/test_small_files.py",
        "tutorials/test_audit.py",
    ),
    "browser": ("dashboard", "hostile/test_web_page.py", "website/test_pictures.py"),
    "network": (
        "broker/core/neighbours/test_following.py",
        "broker/core/test_chaos.py",
        "config/test_agreement.py",
        "simulation/test_reference.py",
        "simulation/test_run.py",
        "simulation/test_soak.py",
        "treeconnector/test_advisories_oracle.py",
    ),
    "brokers": (
        "tutorials/test_tutorials.py",
        "network/test_44_requests_are_answered.py",
        "network/test_126_bindings_are_greeted_in_parts.py",
        "benchmarks/test_all.py",
        "benchmarks/test_footprint.py",
        "benchmarks/test_requests.py",
        "bridges",
        "cli/test_check.py",
        "cli/test_check_site_broker.py",
        "network/test_30_mosquitto.py",
        "network/test_31_mosquitto_discovery.py",
        "network/test_32_mosquitto_custody.py",
        "network/test_33_mosquitto_check.py",
        "network/test_40_links_over_brokers.py",
        "network/test_40_rabbitmq_sites.py",
        "network/test_41_each_link_on_another_carrier.py",
        "network/test_41_rabbitmq_properties.py",
        "network/test_42_a_name_at_a_broker_is_proven.py",
        "network/test_42_rabbitmq_line_to_the_broker.py",
        "network/test_43_mqtt_and_amqp.py",
        "network/test_45_location.py",
        "network/test_50_real_brokers.py",
        "network/test_51_conversions.py",
        "network/test_52_tls_at_sites.py",
        "network/test_53_older_mqtt.py",
        "network/test_54_mosquitto_tells_on.py",
        "network/test_55_cleared_means_cleared.py",
        "network/test_56_a_node_leaves_its_broker.py",
        "network/test_57_a_replaced_machine.py",
        "network/test_58_who_was_there_before_the_node.py",
        "network/test_66_cores_are_found_by_one_name.py",
        "network/test_88_a_broker_that_forgot_who_reads.py",
        "network/test_118_a_mosquitto_is_killed_with_the_documented_lines.py",
        "network/test_109_a_reader_that_leaves_delays_nobody.py",
        "network/test_110_retained_at_a_rabbitmq.py",
        "network/test_128_a_value_that_several_sites_write.py",
        "network/test_127_a_queue_of_a_site_with_a_nodes_name.py",
        "network/test_91_an_idle_leaf_loads_what_it_needs.py",
    ),
    "unit": (
        "arrows",
        "broker/core",
        "compatibility",
        "config",
        "interfaces",
        "sapwood/protocol",
        "simulation",
        "test_compiled.py",
        "treeconnector",
    ),
}
"""Of `network` are also seven files of the pure houses: they take long, or start processes.

In the order in which all of them run, row by row and file by file: the longest first, so that none of them is
alone at the end."""


@functools.cache
def _named(path: Path) -> tuple[str, int]:
    """The row of a test's file, and its place there; the files that no row names come last in theirs."""
    inside = path.relative_to(TESTS).as_posix()
    fitting = [
        (len(prefix), name, place)
        for name, prefixes in TABLE.items()
        for place, prefix in enumerate(prefixes)
        if inside == prefix or inside.startswith(f"{prefix}/")
    ]
    _, name, place = max(fitting, default=(0, REST, len(TABLE[REST])))
    return name, place


def environment_of(path: Path) -> str:
    """The row of a test's file."""
    return _named(path)[0]


def turn_of(path: Path) -> tuple[int, int]:
    """When a test's file is run: sorted by it, all are in the order of the table."""
    name, place = _named(path)
    return list(TABLE).index(name), place
