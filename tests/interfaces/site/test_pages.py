"""Pages lead only to places that are there, say texts as they are, and tell what has changed."""

import importlib
from collections import Counter
from html.parser import HTMLParser
from pathlib import Path

import msgspec
import pytest
from every import FILES, package

from interfaces.load import Catalogue, load
from interfaces.parse import parse
from interfaces.site.pages import write_pages
from sapwood.stub_samples import sample

EXAMPLES = Path(__file__).parents[3] / "examples" / "interfaces"


class Read(HTMLParser):
    """A page as a browser reads it."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.ids: Counter[str] = Counter()
        self.links: list[str] = []
        self.text = ""
        self._open: list[str] = []
        self.feed(text)
        self.close()
        assert self._open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        said = dict(attrs)
        if "id" in said:
            self.ids[str(said["id"])] += 1
        self.links += [str(said[key]) for key in ("href", "src") if key in said]
        if tag not in ("input", "link", "meta"):
            self._open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


def pages(texts: dict[str, str]) -> dict[str, Read]:
    return {name: Read(text) for name, text in texts.items() if name.endswith(".html")}


@pytest.fixture(scope="module", params=["examples", "every"])
def written(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The files of two catalogues."""
    if request.param == "examples":
        return write_pages(load(EXAMPLES))
    return write_pages(Catalogue({name: parse(text) for name, text in reversed(FILES.items())}))


def test_every_link_leads_somewhere(written: dict[str, str]) -> None:
    read = pages(written)
    for name, page in read.items():
        assert [each for each, count in page.ids.items() if count > 1] == []
        assert page.links
        for each in page.links:
            file, _, place = each.partition("#")
            assert file == "" or file in written
            assert place == "" or place in read[file or name].ids


def test_texts_are_said_as_they_are(tmp_path: Path) -> None:
    said = "<script>alert('&amp;')</script>"
    text = f'interface i 1.0 "{said}" {{ owners "{said}" function f "{said}" {{ in a: int64 "{said}" }} }}'
    texts = write_pages(Catalogue({"a.idl": parse(text)}))
    assert Read(texts["i_v1.html"]).text.count(said) == 4
    assert "<script>alert" not in texts["i_v1.html"] + texts["index.html"]


def test_files_whose_names_are_much_alike_have_a_page_each(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    names = ("a-b.idl", "a_b.idl", "a/b.idl")
    for number, name in enumerate(names):
        (tmp_path / name).write_text(f'type t{number} = string "T."')
    written = write_pages(load(tmp_path, names))
    assert sorted(name for name in written if name.startswith("file-")) == [
        *("file-a-b.html", "file-a_-b.html", "file-a__b.html")
    ]
    assert "t2" in Read(written["file-a_-b.html"]).text


def test_changes_are_told() -> None:
    def catalogue(*texts: str) -> Catalogue:
        return Catalogue({f"{number}.idl": parse(text) for number, text in enumerate(texts)})

    def version(number: str, *functions: str) -> str:
        inner = " ".join(f'function {each} "F." {{}}' for each in functions)
        return f'interface i {number} "I." {{ owners "O" {inner} }}'

    old = catalogue(version("1.0", "a"))
    new = catalogue(version("1.1", "a", "b"), version("2.0", "b"))
    read = pages(write_pages(new, since=old))
    assert "Since 1.0function b: is new (old servers)" in read["i_v1.html"].text
    assert "Since 1.1function a: is gone (old callers)" in read["i_v2.html"].text
    assert "Changes" not in pages(write_pages(old))["i_v1.html"].text


def test_many_types_that_need_each_other_have_a_short_example(tmp_path: Path) -> None:
    """One that goes through all of them in each order has more than a million values."""
    names = [f"type_{number}" for number in range(8)]
    fields = " ".join(f'of_{name}: array<{name}> "x"' for name in names)
    types = "\n".join(f'struct {name} "x" {{ {fields} }}' for name in names)
    text = 'interface a 1.0 "x" { owners "x" function f "x" { in a: type_0 "x" out b: type_1 "x" } }'
    (tmp_path / "a.idl").write_text(f"{types}\n{text}", "utf-8")
    pages = write_pages(load(tmp_path), package="chain", since=None)
    assert sum(map(len, pages.values())) < 2_000_000
    package(tmp_path, {"a.idl": f"{types}\n{text}"}, "generated_types")
    module = importlib.import_module("generated_types.a_v1")
    assert len(msgspec.json.encode(sample(module.FOut))) < 2_000_000
