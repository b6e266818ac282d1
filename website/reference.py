"""The reference pages, made of the code: commands, HTTP API, settings, client library."""

from collections.abc import Iterator
from typing import Any, Final

from typer import Context
from typer.main import get_command

import sapwood
from audit.options import parser
from broker.api.table import OPERATIONS
from broker.cli.app import app
from broker.cli.sections import SECTIONS
from broker.http.api.description import describe
from config.reference import reference_xml, reference_yaml

HOW: Final = "This page is made of the program itself; the [glossary](../glossary.md) explains its words."


def pages() -> dict[str, str]:
    """Text of each page by its name."""
    return {"commands": commands(), "http-api": http_api(), "settings": settings(), "client": client()}


def commands() -> str:
    """Each command's own help."""
    program: Any = get_command(app)
    lines = ["# Commands", "", f"{HOW} Each command prints the same with `--help`.", ""]
    for section, names in SECTIONS.items():
        lines += [f"## {section}", ""]
        for name in names:
            lines += command(program.commands[name], f"sapwood {name}")
    return "\n".join(lines)


def command(found: Any, name: str) -> Iterator[str]:
    inner = getattr(found, "commands", {})
    if inner:
        yield from (f"### {name}", "", found.help or "", "")
        for word, each in inner.items():
            yield from command(each, f"{name} {word}")
        return
    text = found.get_help(Context(found, info_name=name, terminal_width=100))
    if name == "sapwood audit":
        # The audit reads its words itself, so that Spark's own options reach it.
        text = parser().format_help()
    level = "###" if name.count(" ") == 1 else "####"
    yield from (f"{level} {name}", "", "```text", text.strip(), "```", "")


def http_api() -> str:
    said = describe(OPERATIONS)
    lines = ["# HTTP API", "", f"{HOW} A node describes itself at `GET /api/openapi.json`.", ""]
    lines += [said["info"]["description"], ""]
    for tag in said["tags"]:
        lines += [f"## {tag['name']}", ""]
        for path, methods in said["paths"].items():
            for method, told in methods.items():
                if told["tags"] == [tag["name"]]:
                    lines += operation(method.upper(), path, told)
    lines += ["## Types", ""]
    for name, schema in said["components"]["schemas"].items():
        lines += kind(name, schema)
    return "\n".join(lines)


def operation(method: str, path: str, told: dict[str, Any]) -> list[str]:
    lines = [f"### `{method} {path}`", "", told["summary"], ""]
    parameters = told.get("parameters", [])
    if parameters:
        lines += ["| parameter | in | type | meaning |", "|---|---|---|---|"]
        for each in parameters:
            meaning = cell(each.get("description", ""))
            lines.append(f"| `{each['name']}` | {each['in']} | {spelled(each['schema'])} | {meaning} |")
        lines.append("")
    for media, content in told.get("requestBody", {}).get("content", {}).items():
        lines += [f"Body, `{media}`: {spelled(content['schema'])}", ""]
    lines += ["| answer | |", "|---|---|"]
    for status, answer in told["responses"].items():
        types = [f"`{media}`: {spelled(each['schema'])}" for media, each in answer.get("content", {}).items()]
        lines.append(f"| {status} | {cell(answer['description'])} {cell(', '.join(types))} |")
    return [*lines, ""]


def kind(name: str, schema: dict[str, Any]) -> list[str]:
    lines = [f"### {name}", "", schema.get("description", ""), ""]
    rows = [
        f"| `{field}` | {spelled(each)} | {cell(each.get('description', ''))} |"
        for field, each in schema.get("properties", {}).items()
    ]
    return [
        *lines,
        *(["| field | type | |", "|---|---|---|", *rows, ""] if rows else [f"{spelled(schema)}", ""]),
    ]


def spelled(schema: dict[str, Any]) -> str:
    """A type in words, with a link where it has a name."""
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        return f"[{name}](#{name.lower()})"
    if "anyOf" in schema:
        return " or ".join(spelled(each) for each in schema["anyOf"])
    if "enum" in schema:
        return " or ".join(f"`{each}`" for each in schema["enum"])
    if schema.get("type") == "array":
        return f"list of {spelled(schema.get('items') or {})}"
    if schema.get("type") == "object" and isinstance(schema.get("additionalProperties"), dict):
        return f"object of {spelled(schema['additionalProperties'])} by name"
    named = schema.get("type", "anything")
    return " or ".join(named) if isinstance(named, list) else str(named)


def settings() -> str:
    parts = [
        "# Settings",
        "",
        f"{HOW} `sapwood config reference` prints it; a site's file needs a few lines of it.",
    ]
    for title, language, text in (("In YAML", "yaml", reference_yaml()), ("In XML", "xml", reference_xml())):
        parts += ["", f"## {title}", "", f"```{language}", text.rstrip(), "```"]
    return "\n".join([*parts, ""])


def client() -> str:
    """mkdocstrings reads the sources where it finds `:::`."""
    lines = ["# Client library", "", f"{HOW} [Client library](../client.md) tells how to use it.", ""]
    for name in sapwood.__all__:
        lines += [f"::: {sapwood._HOMES[name]}.{name}", ""]
    return "\n".join(lines)


def cell(text: str) -> str:
    """Text for a table."""
    return " ".join(text.split()).replace("|", "\\|")
