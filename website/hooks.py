"""Called by MkDocs: adds the pages that are generated from the code, and files that documents lead to.

The documents are read in a checkout as well, where `../examples/retail/README.md` is a file. On the site such
a document is a page below `project/`, and any other file of the checkout is a copy below `files/`.
"""

import posixpath
import re
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

sys.path.insert(0, str(Path(__file__).parent))

import reference

ROOT: Final = Path(__file__).parents[1]
DOCUMENTS: Final = ROOT / "docs"
BESIDE: Final = ("site.css",)
ELSEWHERE: Final = re.compile(r'src="https://[^"]+/iframe-worker/shim"')
"""A script that the theme's pages load from a network."""
LINK: Final = re.compile(r"\]\((?!https?://|mailto:|#)([^)#\s]+)(#[^)\s]*)?\)")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    for name, text in reference.pages().items():
        files.append(File.generated(config, f"reference/{name}.md", content=text))
    for name in BESIDE:
        files.append(File.generated(config, name, abs_src_path=str(Path(__file__).parent / name)))
    for name, source in config.extra["scripts"].items():
        files.append(File.generated(config, name, abs_src_path=source))
    files.append(File.generated(config, "decisions.md", content=decisions()))
    for path in sorted(outside(DOCUMENTS.rglob("*.md"))):
        if path.exists():
            files.append(File.generated(config, place(path), abs_src_path=str(path)))
        else:
            files.append(File.generated(config, place(path), content=listing(path.parent)))
    return files


def on_page_markdown(markdown: str, /, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Turns each link that leaves the documents to where the site has that file."""
    del config, files
    source = origin(page.file.src_uri)

    def turned(match: re.Match[str]) -> str:
        target = Path(posixpath.normpath(source.parent / match[1]))
        if target == DOCUMENTS / "decisions":
            return f"]({relative('decisions.md', page)})"
        if target.is_dir():
            return f"]({relative(place(target / 'README.md'), page)})"
        return f"]({relative(place(target), page)}{match[2] or ''})" if target.exists() else match[0]

    return LINK.sub(turned, markdown)


def on_post_page(output: str, /, page: Page, config: MkDocsConfig) -> str:
    """The theme asks for this one script elsewhere, whatever its settings say."""
    del config
    return ELSEWHERE.sub(f'src="{relative("iframe-worker.js", page)}"', output)


def on_post_template(output: str, /, template_name: str, config: MkDocsConfig) -> str:
    del template_name, config
    return ELSEWHERE.sub('src="/iframe-worker.js"', output)


def outside(documents: Iterable[Path]) -> set[Path]:
    """Files beyond `docs` that documents lead to, and those that these lead to."""
    found: set[Path] = set()
    waiting = list(documents)
    while waiting:
        document = waiting.pop()
        for link, _ in LINK.findall(document.read_text("utf-8")):
            target = Path(posixpath.normpath(document.parent / link))
            if target.is_relative_to(DOCUMENTS) or not target.exists():
                continue
            inside = contents(target) if target.is_dir() else []
            page = target / "README.md" if target.is_dir() else target
            for each in {page, *inside} - found:
                found.add(each)
                waiting += [each] if each.suffix == ".md" and each.exists() else []
    return found


def contents(folder: Path) -> list[Path]:
    """Files of a folder of examples, which its page leads to where nobody has written one."""
    if (folder / "README.md").exists():
        return []
    return sorted(path for path in folder.iterdir() if path.is_file())


def listing(folder: Path) -> str:
    """A page for a folder that has none."""
    name = folder.relative_to(ROOT).as_posix()
    lines = [f"- [{path.name}]({path.name})" for path in contents(folder)]
    return "\n".join([f"# {name}", "", *lines, ""])


def place(path: Path) -> str:
    """Where the site has a file of the checkout, seen from its top."""
    if path.is_relative_to(DOCUMENTS):
        return path.relative_to(DOCUMENTS).as_posix()
    folder = "project" if path.suffix == ".md" else "files"
    return f"{folder}/{path.relative_to(ROOT).as_posix()}"


def origin(uri: str) -> Path:
    """The file of the checkout that a page is made of."""
    return ROOT / uri.removeprefix("project/") if uri.startswith("project/") else DOCUMENTS / uri


def relative(target: str, page: Page) -> str:
    return posixpath.relpath(target, posixpath.dirname(page.file.src_uri) or ".")


def decisions() -> str:
    """The index of the decisions, out of the index of the documents."""
    rows = re.findall(
        r"^\| \[\d{4}\]\(decisions/.*$", (DOCUMENTS / "README.md").read_text("utf-8"), re.MULTILINE
    )
    return "\n".join(
        ["# Decisions", "", "Why it is as it is.", "", "| | in one line |", "|---|---|", *rows, ""]
    )
