"""`sapwood idl`: mistakes with their places, files laid out, and the name of an extra that is missing."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from nursery import ran as sapwood

EXAMPLES = Path(__file__).parents[2] / "examples" / "interfaces"
UNTIDY = 'struct a "A."{x:int64 "X."} # end\n'
TIDY = 'struct a "A." {\n  x: int64 "X."\n}  # end\n'
WITHOUT_LARK = "import sys; sys.modules['lark'] = None; from broker.cli.program import main; main()"


def python(program: str, *words: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-W", "error", "-c", program, *map(str, words)]
    return subprocess.run(command, capture_output=True, text=True)


def test_the_examples_are_right_and_laid_out() -> None:
    done = sapwood("idl", "check", EXAMPLES)
    assert (done.returncode, done.stdout) == (0, "all is well\n")
    done = sapwood("idl", "format", "--check", EXAMPLES, "--json")
    assert (done.returncode, json.loads(done.stdout)) == (0, {"changed": []})


def test_mistakes_of_all_that_is_named(tmp_path: Path) -> None:
    (tmp_path / "a.idl").write_text("struct {}")
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "c.idl").write_text('type a = b "A."')
    done = sapwood("idl", "check", tmp_path / "a.idl", tmp_path / "b")
    lines = done.stdout.splitlines()
    assert done.returncode == 1
    assert [line.split(": ")[0] for line in lines] == [f"{tmp_path}/a.idl:1:8", f"{tmp_path}/b/c.idl:1:10"]
    done = sapwood("idl", "check", tmp_path / "b", "--json")
    text = "there is no type 'b': define it, or import the file that does"
    assert done.returncode == 1
    assert json.loads(done.stdout) == {
        "problems": [{"file": f"{tmp_path}/b/c.idl", "line": 1, "column": 10, "message": text}]
    }


def test_files_are_laid_out_or_only_looked_at(tmp_path: Path) -> None:
    file = tmp_path / "a.idl"
    file.write_text(UNTIDY)
    done = sapwood("idl", "format", tmp_path, "--check")
    assert (done.returncode, done.stdout) == (1, f"{file} would change\n")
    assert file.read_text() == UNTIDY
    done = sapwood("idl", "format", file)
    assert (done.returncode, done.stdout) == (0, f"{file} changed\n")
    assert file.read_text() == TIDY
    assert sapwood("idl", "format", tmp_path, "--check").returncode == 0


def test_a_file_for_which_the_disk_has_no_room_stays_as_it_was(tmp_path: Path) -> None:
    file = tmp_path / "a.idl"
    file.write_text(UNTIDY.replace("# end", "#" * 2000))
    before = file.read_text()
    full = "import resource, sys; resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000)); "
    full += "sys.dont_write_bytecode = True; "  # Python would leave half of what it compiles, for all others
    done = python(f"{full}from broker.cli.program import main; main()", "idl", "format", file)
    assert (done.returncode, done.stderr) == (1, f"sapwood: {file} stays as it was: File too large\n")
    assert file.read_text() == before
    assert list(tmp_path.iterdir()) == [file]


def test_a_file_behind_a_link_is_laid_out_where_it_is(tmp_path: Path) -> None:
    there = tmp_path / "there"
    there.write_text(UNTIDY)
    there.chmod(0o640)
    (tmp_path / "a.idl").symlink_to("there")
    assert sapwood("idl", "format", tmp_path / "a.idl").returncode == 0
    assert (there.read_text(), there.stat().st_mode & 0o777) == (TIDY, 0o640)
    assert (tmp_path / "a.idl").is_symlink()


def test_nothing_is_written_where_a_file_cannot_be_read(tmp_path: Path) -> None:
    (tmp_path / "a.idl").write_text(UNTIDY)
    (tmp_path / "b.idl").write_text("struct")
    done = sapwood("idl", "format", tmp_path)
    assert done.returncode == 2
    assert done.stdout.startswith(f"{tmp_path}/b.idl:1:7: expected a name")
    assert (tmp_path / "a.idl").read_text() == UNTIDY


@pytest.mark.parametrize("command", ["check", "format"])
def test_a_path_that_is_not_there_is_wrong_use(command: str, tmp_path: Path) -> None:
    done = sapwood("idl", command, tmp_path / "no.idl")
    assert done.returncode == 2
    assert (
        done.stderr == f"sapwood: {tmp_path}/no.idl is not there: name a file of definitions, or a folder\n"
    )


OLD = 'interface stock 1.2 "S." { owners "O" function level "L." { in place: option<int64> "P." } }'


def test_changes_are_told_and_fail_if_the_version_does_not_say_them(tmp_path: Path) -> None:
    old, new = tmp_path / "old.idl", tmp_path / "new.idl"
    old.write_text(OLD)
    new.write_text(OLD.replace("option<int64>", "int64").replace("1.2", "1.3"))
    done = sapwood("idl", "diff", old, new)
    assert done.returncode == 1
    assert done.stdout == (
        "stock 1.2 → 1.3: the version does not say it: expected 2.0 or later\n"
        "  old callers would not survive: function level, in place: is never none now\n"
    )
    new.write_text(new.read_text().replace("1.3", "2.0"))
    done = sapwood("idl", "diff", old, new, "--json")
    change = {"breaks": "old callers", "where": "function level, in place", "text": "is never none now"}
    stock = {
        "name": "stock",
        "old": "1.2",
        "new": "2.0",
        "wanted": "2.0",
        "is_said": True,
        "changes": [change],
    }
    assert (done.returncode, json.loads(done.stdout)) == (0, {"interfaces": [stock]})


def test_an_interface_that_is_gone_fails(tmp_path: Path) -> None:
    done = sapwood("idl", "diff", EXAMPLES / "stock.idl", EXAMPLES / "tills.idl")
    assert done.returncode == 1
    assert done.stdout.startswith(
        "stock 1.2 → gone: the version does not say it: keep it until nobody calls it\n"
    )


def test_what_is_compared_must_be_right(tmp_path: Path) -> None:
    (tmp_path / "new.idl").write_text('type a = b "A."')
    done = sapwood("idl", "diff", EXAMPLES, tmp_path)
    assert (done.returncode, done.stdout.split(": ")[0]) == (2, f"{tmp_path}/new.idl:1:10")


def test_the_extra_is_named_where_the_library_is_missing() -> None:
    done = python(WITHOUT_LARK, "idl", "check", EXAMPLES)
    assert done.returncode == 1
    assert done.stderr == "sapwood: the Python package 'lark' is missing: pip install 'sapwood-node[idl]'\n"


def test_other_commands_do_without_it() -> None:
    assert python(WITHOUT_LARK, "--help").returncode == 0


def test_python_is_written_into_a_package(tmp_path: Path) -> None:
    done = sapwood("idl", "python", EXAMPLES, "--out", tmp_path / "chain")
    assert (done.returncode, done.stderr) == (0, "")
    assert f"{tmp_path}/chain/stock_v1.py" in done.stdout.splitlines()
    said = json.loads(sapwood("idl", "python", EXAMPLES, "--out", tmp_path / "again", "--json").stdout)
    assert len(said["written"]) == 6
    program = "import sys; sys.path.insert(0, sys.argv[1]); from chain import stock_v1, prices_v2"
    assert python(program, tmp_path).returncode == 0


def test_no_python_is_written_from_wrong_definitions(tmp_path: Path) -> None:
    (tmp_path / "a.idl").write_text('type a = b "A."')
    done = sapwood("idl", "python", tmp_path, "--out", tmp_path / "out")
    assert done.returncode == 2
    assert "there is no type 'b'" in done.stdout
    (tmp_path / "a.idl").write_text(
        'interface i 1.0 "I." { owners "O" struct i_client "S." { x: int64 "X." } function f "F." {} }'
    )
    done = sapwood("idl", "python", tmp_path, "--out", tmp_path / "out")
    assert (done.returncode, (tmp_path / "out").exists()) == (2, False)
    assert done.stdout.startswith(f"{tmp_path}/a.idl:1:")
    assert "would both be called IClient in Python: rename one" in done.stdout


def test_ocaml_is_written_as_libraries_of_dune(tmp_path: Path) -> None:
    done = sapwood("idl", "ocaml", EXAMPLES, "--out", tmp_path / "chain")
    assert (done.returncode, done.stderr) == (0, "")
    assert f"{tmp_path}/chain/dune-project" in done.stdout.splitlines()
    stock = (tmp_path / "chain" / "stock_v1" / "chain_stock_v1.ml").read_text()
    assert "module Stock_server_dispatcher" in stock
    done = sapwood("idl", "ocaml", EXAMPLES, "--out", tmp_path / "again", "--package", "Chain")
    assert (done.returncode, (tmp_path / "again").exists()) == (2, False)
    assert "'Chain' is no name for a package: expected small letters" in done.stdout


@pytest.mark.parametrize(
    ("command", "name"), [("python", "__init__.py"), ("ocaml", "dune-project"), ("docs", "index.html")]
)
def test_somebodys_own_folder_is_left_as_it_was(command: str, name: str, tmp_path: Path) -> None:
    own = tmp_path / name
    own.write_text("mine\n")
    done = sapwood("idl", command, EXAMPLES, "--out", tmp_path)
    assert (done.returncode, own.read_text(), list(tmp_path.iterdir())) == (2, "mine\n", [own])
    assert f"{own} is not of `sapwood idl`: nothing is written" in done.stderr
    own.write_text("")
    for _ in range(2):  # an empty one, and then its own
        done = sapwood("idl", command, EXAMPLES, "--out", tmp_path)
        assert (done.returncode, done.stderr) == (0, "")


def test_pages_are_written_with_what_has_changed(tmp_path: Path) -> None:
    shutil.copytree(EXAMPLES, tmp_path / "old")
    file = tmp_path / "old" / "stock.idl"
    file.write_text(
        file.read_text().replace("stock 1.2", "stock 1.1").replace("namespace history", "namespace past")
    )
    done = sapwood("idl", "docs", EXAMPLES, "--out", tmp_path / "site", "--since", tmp_path / "old")
    assert (done.returncode, done.stderr) == (0, "")
    assert f"{tmp_path}/site/index.html" in done.stdout.splitlines()
    assert "function history.movements: is new" in (tmp_path / "site" / "stock_v1.html").read_text()
    file.write_text("struct {}")
    done = sapwood("idl", "docs", tmp_path / "old", "--out", tmp_path / "none")
    assert (done.returncode, (tmp_path / "none").exists()) == (2, False)
