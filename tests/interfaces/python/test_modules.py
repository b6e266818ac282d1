"""Generated Python has every type and every name, and says values as JSON by name."""

import ast
import asyncio
import importlib
import json
from datetime import date
from pathlib import Path
from typing import Any

import msgspec
import pytest
from every import FILES, package

from interfaces.check import check
from interfaces.errors import InterfaceError
from interfaces.load import load
from interfaces.python.modules import write_modules
from sapwood import BadReply, ServiceError
from sapwood.stub_samples import sample
from sapwood.stubs import Function, InternalError

EXAMPLES = Path(__file__).parents[3] / "examples" / "interfaces"


@pytest.fixture(scope="module")
def every(tmp_path_factory: pytest.TempPathFactory) -> Any:
    package(tmp_path_factory.mktemp("every"), FILES, "generated_every")
    return importlib.import_module("generated_every.every_v1")


def sent(function: Function[Any, Any], inputs: Any) -> dict[str, Any]:
    """The arguments that a server gets for the inputs of a caller."""
    return function.arguments(json.loads(msgspec.json.encode(function.parameters(inputs))))


def everything(every: Any, **others: Any) -> Any:
    tree = every.Tree(name="ö", below=[every.Tree(name="", below=[])], next=every.Tree(name="n", below=[]))
    lists = [
        every.ListClass(-(2**63)),
        every.ListPair(("a", tree)),
        every.ListInner(every.ListInner(every.ListNone())),
        every.ListMayBe(),
        every.ListMayBe(0.5),
        every.ListNothing(),
        every.ListNone(),
    ]
    values = {
        "int_": 2**63 - 1,
        "float_": -1e300,
        "str_": "\0\u2028𝄞",
        "bool_": False,
        "lists": lists,
        "by_number": {-(2**63): [], 7: ["a", ""]},
        "by_text": {"": None, "ü": 3},
        "texts": every.PairOfTexts(first="1", second="2"),
    }
    return every.All(**values | others)


def test_every_value_comes_as_it_was_sent(every: Any) -> None:
    whole = everything(every, maybe=every.ListNone())
    inputs = every._EchoIn(from_=whole)
    assert sent(every._ECHO, inputs) == {"from_": whole, "lambda_": None}
    outputs = every.EchoOut(all=whole, maybe=every.ListClass(1))
    assert every._ECHO.result(json.loads(bytes(every._ECHO.answer(outputs)))) == outputs
    assert json.loads(bytes(every._ECHO.answer(outputs)))["maybe"] == {"case": "class", "value": 1}


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("int_", 2**63, "<= 9223372036854775807"),
        ("int_", 1.5, "Expected `int`, got `float`"),
        ("int_", True, "Expected `int`, got `bool`"),
        ("float_", float("nan"), "Expected `float`, got `null`"),
        ("str_", b"x", "Expected `str`, got `bytes`"),
        ("str_", date(2026, 1, 2), "Expected `str`, got `date`"),
        ("lists", (), "lists for arrays"),
        ("str_", "\ud800", "surrogates"),
        ("by_number", {2**63: []}, "at `key`"),
        ("by_number", {"x": []}, "at `key`"),
        ("lists", [1], "Expected `object`"),
        ("texts", None, "Expected `object`"),
        ("maybe", object(), "object"),
    ],
)
def test_a_value_of_another_type_is_not_sent(every: Any, name: str, value: Any, said: str) -> None:
    wrong = everything(every, **{name: value})
    with pytest.raises(ValueError, match="echo: ") as caller:
        every._ECHO.parameters(every._EchoIn(from_=wrong))
    assert said in str(caller.value)
    with pytest.raises(InternalError, match="'echo' returned a wrong value"):
        every._ECHO.answer(every.EchoOut(all=wrong))


def test_a_server_refuses_what_has_another_type(every: Any) -> None:
    good = json.loads(json.dumps({"all": {"x": 1}}))
    function = every._FOR_WHILE_LIST
    assert function.arguments(good)["all"] == every.ForAll(x=1)
    for wrong in (
        {},
        {"all": {}},
        {"all": {"x": "1"}},
        {"all": {"x": 1}, "unknown": 1},
        {"all": {"x": 2**63}},
    ):
        with pytest.raises(ServiceError, match=r"for\.while\.list: .*BAD_PARAMETERS"):
            function.arguments(wrong)
    assert function.arguments({"all": {"x": 1, "a_later_field": 2}})["all"] == every.ForAll(x=1)


def test_a_caller_refuses_a_reply_of_another_type(every: Any) -> None:
    for wrong in (
        None,
        1,
        {},
        {"lists": 1},
        {"lists": [{"case": "unknown"}]},
        {"lists": [{"case": "class"}]},
    ):
        with pytest.raises(BadReply, match=r"the reply of 'for\.while\.list' is not of its type"):
            every._FOR_WHILE_LIST.result(wrong)


def test_errors_keep_their_values(every: Any) -> None:
    wrong = every.Wrong(everything(every))
    answer = every._ECHO.raised(wrong)
    assert answer is wrong
    assert answer.code == "WRONG"
    told = every._ECHO.error(ServiceError("GONE", "text", 7))
    assert type(told).__name__ == "Gone"
    assert told.value == 7
    assert type(every._NOTHING.error(ServiceError("SILENT"))).__name__ == "Silent"
    assert isinstance(every._ECHO.error(ServiceError("GONE", "", "seven")), InternalError)
    assert isinstance(every._ECHO.error(ServiceError("FAILED", "x")), InternalError)
    assert every._ECHO.error(ServiceError("BUSY", "x")).code == "BUSY"


def test_errors_that_are_not_declared_or_not_right_are_internal(every: Any, caplog: Any) -> None:
    assert isinstance(every._NOTHING.raised(every.Wrong(everything(every))), InternalError)
    assert isinstance(every._ECHO.raised(every.Wrong(7)), InternalError)
    assert "nothing raised wrong, which it does not declare" in caplog.text
    assert "echo raised wrong with a wrong value" in caplog.text


def test_a_sample_is_a_value_of_its_type(every: Any) -> None:
    for function in every.FUNCTIONS:
        made = sample(function.outputs)
        assert function.result(json.loads(bytes(function.answer(made)))) == made
    assert sample(every.Tree) == every.Tree(name="text", below=[], next=None)
    assert sample(every.ListInner) == every.ListInner(every.ListClass(1))


def test_descriptions_are_said(every: Any) -> None:
    assert every.__doc__.startswith(
        "Every type.\nOn two lines.\n\nInterface every 1.3, for which answer: Tests.\n"
    )
    assert every._ECHO.inputs_about == {"from": "f", "lambda": "m"}
    shared = ast.parse(Path(every.__file__).with_name("parts").joinpath("shared.py").read_text("utf-8"))
    said = [each.value.value for each in shared.body if isinstance(each, ast.Expr)]
    assert 'A \\ number, of """some""" thing"' in said


HIDING = """
interface hiding 1.0 "Names that generated code uses, and a variant that is longer than a line." {
  owners "Tests"
  type true = boolean "x"
  struct system_exit "x" { a: int64 "x" }
  struct false "x" { field: option<string> "x" list: string "x" property: true "x" str: int64 "x" }
  variant measure_of_something_with_many_cases "x" {
    a_case_whose_name_is_long "x" another_case_whose_name_is_long: int64 "x" yet_another_case: false "x"
  }
  namespace property "x" { function a "x" {
    in sample: measure_of_something_with_many_cases "x"
    out sample: measure_of_something_with_many_cases "x"
  } }
  namespace sample "x" { function b "x" {} }
}
"""


def test_no_name_hides_one_that_the_module_needs(tmp_path: Path) -> None:
    package(tmp_path, {"hiding.idl": HIDING}, "generated_hiding")
    hiding = importlib.import_module("generated_hiding.hiding_v1")
    tested = hiding.Hiding_test()
    assert asyncio.run(tested.property_.a(sample=None)) == sample(hiding.PropertyAOut)
    assert hiding.False_(list_="a", property_=True, str_=1).field is None
    assert not hasattr(hiding, "SystemExit")
    assert hiding.SystemExit_(a=1).a == 1


CLASHES = {
    "types": (
        """
        struct a_b "x" { a: int64 "x" }
        interface i 1.0 "x" {
          owners "x"
          namespace a "x" {
            struct b "x" { a: int64 "x" }
            function f "x" { in b: b "x" in c: a_b "x" }
          }
        }
        """,
        "would both be called AB in Python: rename one",
    ),
    "client": (
        """
        interface i 1.0 "x" {
          owners "x"
          struct i_client "x" { a: int64 "x" }
          function f "x" {}
        }
        """,
        "would both be called IClient in Python: rename one",
    ),
    "functions": (
        """
        interface i 1.0 "x" {
          owners "x"
          function a_b "x" {}
          namespace a "x" { function b "x" {} }
        }
        """,
        "would both be called _A_B in Python: rename one",
    ),
}


@pytest.mark.parametrize(("text", "said"), CLASHES.values(), ids=CLASHES)
def test_two_definitions_never_get_one_name(tmp_path: Path, text: str, said: str) -> None:
    refused(tmp_path, {"a.idl": text}, said)


@pytest.mark.parametrize(
    ("files", "said"),
    [
        ({"a-b.idl": 'type a = int64 "x"'}, "a-b.idl: it has no name for Python: expected letters, digits"),
        (
            {
                "i_v1.idl": 'type a = int64 "x"',
                "b.idl": 'interface i 1.0 "x" { owners "x" function f "x" {} }',
            },
            "i_v1.py would be written for it and for another file: rename one",
        ),
        (
            {"a.idl": 'type a = int64 "x"', "a/b.idl": 'type b = int64 "x"'},
            "a/b.idl: a/b.py and a.py: no module can have the name of a folder of modules; rename one",
        ),
        (
            {
                "i_v1/a.idl": 'type a = int64 "x"',
                "b.idl": 'interface i 1.0 "x" { owners "x" function f "x" {} }',
            },
            "b.idl: i_v1.py and i_v1/a.py: no module can have the name of a folder of modules; rename one",
        ),
    ],
    ids=["no name", "the name of a module", "a folder of that name", "a folder of an interface's name"],
)
def test_files_have_names_of_their_own(tmp_path: Path, files: dict[str, str], said: str) -> None:
    refused(tmp_path, files, said)


def refused(folder: Path, files: dict[str, str], said: str) -> None:
    for file, text in files.items():
        (folder / file).parent.mkdir(exist_ok=True)
        (folder / file).write_text(text, "utf-8")
    catalogue = load(folder)
    assert check(catalogue) == []
    with pytest.raises(InterfaceError) as error:
        write_modules(catalogue)
    assert said in str(error.value)


def test_the_only_function_of_an_interface_may_have_a_long_name(tmp_path: Path) -> None:
    name, about = "n" * 64, 'owners "T"'
    text = f'interface i 1.0 "I." {{ {about} namespace {name} "N." {{ function {name} "F." {{ }} }} }}'
    package(tmp_path, {"long.idl": text}, "generated_long")
    (function,) = importlib.import_module("generated_long.i_v1").FUNCTIONS
    assert function.name == f"{name}.{name}"


def test_the_example_is_as_its_definitions_say() -> None:
    folder = EXAMPLES / "python" / "chain"
    there = {path.relative_to(folder).as_posix(): path.read_text("utf-8") for path in folder.rglob("*.py")}
    assert there == write_modules(load(EXAMPLES))
