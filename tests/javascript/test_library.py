"""The JavaScript library without a node: its own tests, its bytes beside msgspec's, and its package."""

import json
import re
import subprocess
import tomllib
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from node_js import LIBRARY, ROOT, command

VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(1 << 63), (1 << 64) - 1)
    | st.floats(allow_nan=False)
    | st.text()
    | st.binary()
    | st.datetimes(datetime(1, 1, 2), datetime(9998, 1, 1), timezones=st.just(UTC)),
    lambda inner: st.lists(inner, max_size=20) | st.dictionaries(st.text(), inner, max_size=20),
    max_leaves=30,
)
_THERE_AND_BACK = """
import { decode, encode } from "%s/src/msgpack.js";
let rest = Buffer.alloc(0);
process.stdin.on("data", (data) => {
  rest = Buffer.concat([rest, data]);
  while (rest.length >= 4 && rest.length >= 4 + rest.readUInt32BE()) {
    const size = rest.readUInt32BE();
    const back = encode(decode(new Uint8Array(rest.subarray(4, 4 + size))));
    const head = Buffer.alloc(4);
    head.writeUInt32BE(back.length);
    process.stdout.write(Buffer.concat([head, back]));
    rest = rest.subarray(4 + size);
  }
});
"""


@pytest.mark.parametrize("file", sorted((LIBRARY / "test").glob("*.test.js")), ids=lambda file: file.name)
def test_the_library_s_own_tests_pass(file: Path) -> None:
    ran = subprocess.run(["node", "--test", file], capture_output=True, text=True, timeout=300)
    assert ran.returncode == 0, ran.stdout
    assert int(re.findall(r"^# pass (\d+)$", ran.stdout, re.MULTILINE)[0]) > 0


def _as_javascript_has_it(value: Any) -> Any:
    """A `number` has no other form for 1.0 than for 1, and a `Date` has milliseconds."""
    match value:
        case bool():
            return value
        case float() if value.is_integer() and abs(value) < 1 << 53:
            return int(value)
        case datetime():
            return value.replace(microsecond=value.microsecond // 1000 * 1000)
        case list():
            return [_as_javascript_has_it(each) for each in value]
        case dict():
            return {name: _as_javascript_has_it(each) for name, each in value.items()}
    return value


@pytest.fixture(scope="module")
def there_and_back(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Give bytes to JavaScript, which reads and writes them; get what it wrote."""
    file = tmp_path_factory.mktemp("there") / "back.mjs"
    file.write_text(_THERE_AND_BACK % LIBRARY)
    with subprocess.Popen(["node", file], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        given_to, got_from = process.stdin, process.stdout

        def ask(data: bytes) -> bytes:
            given_to.write(len(data).to_bytes(4, "big") + data)
            given_to.flush()
            return got_from.read(int.from_bytes(got_from.read(4), "big"))

        yield ask
        given_to.close()


@settings(deadline=None, max_examples=300, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(value=VALUES)
def test_what_msgspec_writes_is_read_and_written_again(there_and_back: Any, value: Any) -> None:
    back = msgspec.msgpack.decode(there_and_back(msgspec.msgpack.encode(value)))
    assert back == _as_javascript_has_it(value)


def test_the_package_has_the_project_s_version_and_names_its_files() -> None:
    package = json.loads((LIBRARY / "package.json").read_text())
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert (package["version"], package["license"]) == (project["version"], project["license"])
    assert (LIBRARY / package["exports"]["."]["default"]).is_file()
    assert (LIBRARY / package["types"]).is_file()


def test_the_package_has_the_licence_itself_since_npm_packs_no_link() -> None:
    assert not (LIBRARY / "LICENSE").is_symlink()
    assert (LIBRARY / "LICENSE").read_text() == (ROOT / "LICENSE").read_text()


def test_what_is_exported_is_declared(tmp_path: Path) -> None:
    listing = f'import("{LIBRARY}/src/index.js").then((found) => console.log(Object.keys(found).join()))'
    ran = subprocess.run(["node", "-e", listing], capture_output=True, text=True, check=True, timeout=60)
    declared = re.findall(r"^export (?:class|function) (\w+)", (LIBRARY / "src/index.d.ts").read_text(), re.M)
    assert sorted(ran.stdout.strip().split(",")) == sorted(declared)


def test_an_error_is_declared_as_it_is_made() -> None:
    made = (LIBRARY / "src/errors.js").read_text()
    declared = (LIBRARY / "src/index.d.ts").read_text()

    def words(source: str) -> dict[str, list[str]]:
        classes = re.findall(r"^export class (\w+) extends \w+ \{\n +constructor\((.*)\)", source, re.M)
        return {name: re.findall(r"(?:^|, )(\w+)", given) for name, given in classes}

    assert words(declared) == {name: given for name, given in words(made).items() if name != "ClientError"}


def test_a_runtime_without_a_websocket_is_told_what_to_do(tmp_path: Path) -> None:
    program = tmp_path / "program.mjs"
    program.write_text(
        f'import {{ connect }} from "{LIBRARY}/src/index.js";\n'
        "const tried = () => connect('http://127.0.0.1:1').catch((error) => console.log(error.message));\n"
        "await tried();\n"
        "globalThis.WebSocket = class { constructor() { throw new Error('it is found later too'); } };\n"
        "await tried();"
    )
    bare = f"delete globalThis.WebSocket; await import({json.dumps(program.as_uri())});"
    ran = subprocess.run(
        ["node", "--input-type=module", "-e", bare], capture_output=True, text=True, timeout=60
    )
    assert "this runtime has no WebSocket: use Node.js 22 or later" in ran.stdout, ran.stderr
    assert ran.stdout.endswith("it is found later too\n")
    assert command(tmp_path)[0] == "node"
