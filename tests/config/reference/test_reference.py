import re

import pytest

from config import xml, yaml
from config.fields import XML, YAML, Scalar, every_setting
from config.model import Site
from config.reference import reference_xml, reference_yaml

SCALARS = [(path, one) for path, one in every_setting(Site) if isinstance(one, Scalar)]


def test_both_reference_files_say_the_same() -> None:
    site = xml.read(reference_xml(), "reference.xml")
    assert site == yaml.read(reference_yaml(), "reference.yaml")
    assert site.role == "branch"


def test_every_section_and_list_is_there() -> None:
    for path, one in every_setting(Site):
        if not isinstance(one, Scalar):
            assert f"<{XML(path[-1])}>" in reference_xml() or f"<{XML(path[-1])}\n" in reference_xml()
            assert re.search(rf"^ *{YAML(path[-1])}:$", reference_yaml(), re.MULTILINE)


def yaml_paths(text: str) -> set[tuple[str, ...]]:
    """The paths of all keys of the reference file, those in comments included."""
    found, stack = set(), [(-1, "")]
    for line in text.splitlines():
        match = re.match(r"( *)(?:# )?([a-z_]+):(?= |$)", line)
        if match and not re.match(r" *# [a-z_]+: (?!…)", line):
            while stack[-1][0] >= len(match[1]):
                stack.pop()
            stack.append((len(match[1]), match[2]))
            found.add(tuple(name for _, name in stack[2:]))
    return found


@pytest.mark.parametrize(
    ("path", "setting"), SCALARS, ids=lambda one: ".".join(one) if type(one) is tuple else ""
)
def test_every_setting_is_mentioned_with_its_meaning(path: tuple[str, ...], setting: Scalar) -> None:
    assert path in yaml_paths(reference_yaml())
    words = re.sub(r"`[a-z_]+`", "", setting.meaning).split()[:4]
    for text in (reference_yaml(), reference_xml()):
        assert " ".join(words[:3]) in " ".join(text.replace("#", " ").split())
    assert re.search(rf"(<!--|\n) *{XML(setting.name)}: ", reference_xml())


def test_every_default_is_told() -> None:
    for path, setting in SCALARS:
        if setting.default is not None:
            assert f"default {setting.kind.text(setting.default)})" in " ".join(reference_xml().split()), path
