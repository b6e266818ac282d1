"""A folder's files are read with their imports, and nothing outside of it is."""

import os
from pathlib import Path

import pytest

from interfaces import load as module
from interfaces.errors import InterfaceError
from interfaces.load import load, names_in

TYPE = 'type {} = int64 "A type."\n'


def write(folder: Path, **texts: str) -> Path:
    for name, text in texts.items():
        path = folder / f"{name.replace('__', '/')}.idl"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")
    return folder


def said(folder: Path, *names: str) -> str:
    with pytest.raises(InterfaceError) as caught:
        load(folder, names or None)
    return str(caught.value)


def test_files_stand_behind_those_that_they_import(tmp_path: Path) -> None:
    write(
        tmp_path,
        a='import "below/c.idl"\nimport "b.idl"',
        b='import "below/c.idl"',
        below__c='import "../d.idl"',
        d="",
    )
    assert names_in(tmp_path) == ["a.idl", "b.idl", "below/c.idl", "d.idl"]
    assert list(load(tmp_path).files) == ["d.idl", "below/c.idl", "b.idl", "a.idl"]
    assert set(load(tmp_path, ["below/c.idl"]).files) == {"below/c.idl", "d.idl"}


def test_mistakes_of_all_files_at_once(tmp_path: Path) -> None:
    write(tmp_path, a="struct", b='import "no.idl"\n@')
    (tmp_path / "c.idl").write_bytes(b"# \xff")
    write(tmp_path, d='import "e.idl"')
    assert said(tmp_path).splitlines() == [
        "a.idl:1:7: expected a name, found the end of the file: words of the language are no names",
        "b.idl:1:8: 'no.idl' is not there, or is no plain file: expected a path from this file",
        "b.idl:2:1: unexpected '@': take it out, or put it into a text or behind a #",
        "c.idl: 'c.idl' is not UTF-8 at byte 2: save it as UTF-8",
        "d.idl:1:8: 'e.idl' is not there, or is no plain file: expected a path from this file",
    ]


@pytest.mark.parametrize(
    "path", ["../secret.idl", "/etc/passwd", "x/../../secret.idl", "link.idl", "linked/secret.idl"]
)
def test_no_import_leads_out_of_the_folder(tmp_path: Path, path: str) -> None:
    folder = tmp_path / "folder"
    write(tmp_path, secret="", folder__a=f'import "{path}"', folder__x__y="")
    (folder / "link.idl").symlink_to(tmp_path / "secret.idl")
    (folder / "linked").symlink_to(tmp_path)
    assert "leads out of the folder: import what is in it" in said(folder, "a.idl")


def test_a_folder_that_is_a_link_itself_is_read(tmp_path: Path) -> None:
    write(tmp_path / "real", a=TYPE.format("x"))
    (tmp_path / "link").symlink_to(tmp_path / "real")
    assert list(load(tmp_path / "link").files) == ["a.idl"]


def test_only_plain_files_are_read_and_not_to_their_end(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.idl")
    (tmp_path / "folder.idl").mkdir()
    (tmp_path / "long.idl").write_bytes(b"# " * 200_000)
    assert said(tmp_path).splitlines() == [
        "folder.idl: 'folder.idl' is not there, or is no plain file: expected a path from this file",
        "long.idl: 262145 characters: expected 65536 at most; divide it into several files",
        "pipe.idl: 'pipe.idl' is not there, or is no plain file: expected a path from this file",
    ]


def test_a_link_in_a_circle_and_a_name_that_is_too_long_are_told_with_their_place(tmp_path: Path) -> None:
    (tmp_path / "circle.idl").symlink_to("circle.idl")
    write(tmp_path, long=f'import "{"a" * 300}"', other=f'import "{"a/" * 3000}"')
    assert said(tmp_path).splitlines() == [
        "circle.idl: 'circle.idl' is a link that leads in a circle: expected a plain file",
        f"long.idl:1:8: '{'a' * 39}…' cannot be read: File name too long",
        f"other.idl:1:8: '{'a/' * 19}a…' cannot be read: File name too long",
    ]


def test_a_circle_of_imports_is_named(tmp_path: Path) -> None:
    write(tmp_path, a='import "b.idl"', b='\nimport "c.idl"', c='import "b.idl"')
    text = "put what both need into a file of its own"
    assert said(tmp_path, "a.idl") in {
        f"b.idl:2:8: imports lead in a circle, b.idl → c.idl → b.idl: {text}",
        f"c.idl:1:8: imports lead in a circle, c.idl → b.idl → c.idl: {text}",
    }
    write(tmp_path, a='import "a.idl"')
    assert said(tmp_path, "a.idl") == f"a.idl:1:8: imports lead in a circle, a.idl → a.idl: {text}"


def test_a_long_chain_of_imports_is_read_and_a_longer_one_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    chain = {f"f{n}": f'import "f{n + 1}.idl"' for n in range(299)} | {"f299": TYPE.format("x")}
    write(tmp_path, **chain)
    assert len(load(tmp_path, ["f0.idl"]).scopes) == 300
    monkeypatch.setattr(module, "MAX_FILES", 299)
    assert said(tmp_path, "f0.idl") == "more than 299 files: divide the folder"


def test_an_empty_folder_is_a_mistake(tmp_path: Path) -> None:
    assert said(tmp_path) == "no file *.idl here: name another folder, or a file"
