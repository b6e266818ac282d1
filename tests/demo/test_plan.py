"""The demo's tree, its messages and its configuration files."""

from pathlib import Path

from broker.cli.demo import plan
from config.load import load

CHAIN = plan.read_chain()


def test_the_chain_is_hq_two_regions_and_six_stores() -> None:
    assert [place.role for place in CHAIN.places].count("branch") == 2
    assert len(CHAIN.stores) == 6
    assert CHAIN.root.role == "root"
    assert all(len(CHAIN.children(place.name)) == 3 for place in CHAIN.places if place.role == "branch")


def test_the_killed_store_stands_in_the_region_that_is_cut_off() -> None:
    assert CHAIN.victim in CHAIN.children(CHAIN.region.name)
    assert CHAIN.region.parent == CHAIN.root.name


def test_every_payload_has_an_id_of_its_own() -> None:
    parcels = plan.price_lists(CHAIN) + plan.offers(CHAIN) + plan.sales(CHAIN)
    assert len({parcel.id for parcel in parcels}) == len(parcels) > 4000
    assert all(f'"id":"{parcel.id}"'.encode() in parcel.payload for parcel in parcels)


def test_every_store_gets_the_whole_price_list_and_only_the_region_its_offers() -> None:
    prices, region = plan.price_lists(CHAIN), {store.name for store in CHAIN.children(CHAIN.region.name)}
    articles = len(plan.read_table("prices.csv"))
    for store in CHAIN.stores:
        assert sum(parcel.receivers == (store.name,) for parcel in prices) == articles
    assert {receiver for parcel in plan.offers(CHAIN) for receiver in parcel.receivers} == region


def test_every_store_sells() -> None:
    assert {parcel.source for parcel in plan.sales(CHAIN)} == {store.name for store in CHAIN.stores}


def test_free_ports_are_different() -> None:
    ports = plan.free_ports(50)
    assert len(set(ports)) == 50


def test_the_files_are_what_the_nodes_read(tmp_path: Path) -> None:
    ports = plan.Ports.choose(CHAIN)
    files = plan.write_configurations(CHAIN, ports, tmp_path)
    sites = {name: load(path) for name, path in files.items()}
    assert {name: site.role for name, site in sites.items()} == {
        place.name: place.role for place in CHAIN.places
    }
    assert {site.listener.port for site in sites.values()} == set(ports.nodes.values())
    assert {site.data_directory for site in sites.values()} == {tmp_path / "data" / name for name in sites}


def test_only_the_region_goes_over_the_line_that_is_cut(tmp_path: Path) -> None:
    ports = plan.Ports.choose(CHAIN)
    files = plan.write_configurations(CHAIN, ports, tmp_path)
    over = [name for name, path in files.items() if f":{ports.line}/" in path.read_text()]
    assert over == [CHAIN.region.name]
