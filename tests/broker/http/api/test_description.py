"""The API's description is whole: every route is in it, every path is served, every schema is one."""

from typing import Any

from aiohttp import web
from jsonschema import Draft202012Validator

from broker.api.table import OPERATIONS
from broker.http.api.description import describe, operation_id
from broker.http.app import build_app

METHODS = {"get", "post", "delete", "put", "patch"}


def served(app: web.Application) -> set[tuple[str, str]]:
    return {
        (route.method.lower(), route.resource.canonical)
        for route in app.router.routes()
        if route.resource is not None
        and route.resource.canonical.startswith("/api/")
        and route.method.lower() in METHODS
    }


def test_every_route_is_described_and_every_path_is_served(node: Any) -> None:
    paths = describe(OPERATIONS)["paths"]
    assert {(method, path) for path, methods in paths.items() for method in methods} == served(
        build_app(node)
    )


def test_every_schema_is_valid_and_every_reference_leads_somewhere() -> None:
    description = describe(OPERATIONS)
    schemas = description["components"]["schemas"]
    for schema in schemas.values():
        Draft202012Validator.check_schema(schema)

    def references(found: Any) -> list[str]:
        if isinstance(found, dict):
            own = [found["$ref"]] if isinstance(found.get("$ref"), str) else []
            return own + [each for value in found.values() for each in references(value)]
        return [each for value in found for each in references(value)] if isinstance(found, list) else []

    for reference in references(description):
        assert reference.rpartition("/")[2] in schemas, reference


def test_path_parameters_are_those_of_the_path_and_ids_are_unique() -> None:
    for operation in OPERATIONS:
        named = {each.name for each in operation.parameters if each.in_path}
        assert named == {part[1:-1] for part in operation.path.split("/") if part.startswith("{")}
    ids = [operation_id(operation) for operation in OPERATIONS]
    assert len(ids) == len(set(ids))


def test_answers_are_strict_so_that_a_check_against_them_can_fail() -> None:
    schemas = describe(OPERATIONS)["components"]["schemas"]
    queue = schemas["Queue"]
    assert queue["additionalProperties"] is False
    assert not Draft202012Validator(queue).is_valid({"name": "sales"})


def test_what_is_said_to_all_is_said_once() -> None:
    description = describe(OPERATIONS)
    assert description["openapi"].startswith("3.1")
    for methods in description["paths"].values():
        for operation in methods.values():
            assert {"200", "400", "403"} <= operation["responses"].keys()
            assert operation["summary"].endswith(".")


def test_a_body_is_described_and_said_to_be_needed_where_it_is() -> None:
    """A client made of it can send a message, with an account, and forgets no body."""
    paths = describe(OPERATIONS)["paths"]
    publish = paths["/api/publish/{destination}"]["post"]
    assert publish["requestBody"]["content"] == {"*/*": {"schema": {}}}
    assert {"account": []} in publish["security"]
    assert "security" not in paths["/api/queues"]["get"]
    assert paths["/api/announce"]["post"]["requestBody"]["required"]
    assert not paths["/api/dead"]["delete"]["requestBody"]["required"]
    assert "409" in paths["/api/queues/{name}/purge"]["post"]["responses"]
