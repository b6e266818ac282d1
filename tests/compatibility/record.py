"""Writes down what this version says to its neighbours, for later versions: run it once at a release.

    python tests/compatibility/record.py tests/compatibility/0.1.0

`frames.json` has each kind of frame with no more than it needs and with all that it can have;
`NAME.jsonl.zst` has a conversation of `plays`. A folder that is there is never written again: its files are
what old neighbours say.
"""

import json
import sys
from pathlib import Path
from typing import Any

import msgspec

sys.path[:0] = [str(Path(__file__).parents[2]), str(Path(__file__).parent)]

from plays import PLAYS
from recording import Recorder, text_of

from sapwood.protocol import bundles, session_frames
from treeconnector import frames

HOUSES = {
    "link": frames.AnyFrame,
    "client": session_frames.ClientFrame,
    "node": session_frames.NodeFrame,
    "header": bundles.Header,
    "message": bundles.Message,
}


def sample(kind: msgspec.inspect.Type, number: int) -> Any:
    """Some value of a type; `number` makes it another one."""
    inspect = msgspec.inspect
    match kind:
        case inspect.BoolType():
            return True
        case inspect.IntType():
            return number + 1
        case inspect.BytesType():
            return bytes([number + 1]) * 16
        case inspect.StrType():
            return f"text {number} ü"
        case inspect.EnumType():
            return next(iter(kind.cls)).value
        case inspect.ListType():
            return [sample(kind.item_type, number), sample(kind.item_type, number + 1)]
        case inspect.TupleType():
            return [sample(item, number + place) for place, item in enumerate(kind.item_types)]
        case inspect.DictType():
            return {"name": number, "other": "value"}
        case inspect.UnionType():
            return sample(kind.types[0], number)
        case inspect.NamedTupleType() | inspect.StructType():
            return filled(kind, everything=True)
    raise TypeError(f"no sample of {kind}")


def filled(kind: Any, *, everything: bool) -> Any:
    """Fields of a struct or named tuple, as msgspec's builtins; without optional ones unless `everything`."""
    values = {
        field.encode_name: sample(field.type, number)
        for number, field in enumerate(kind.fields)
        if everything or field.required
    }
    if isinstance(kind, msgspec.inspect.StructType) and not kind.array_like:
        return values
    tag = [kind.tag] if isinstance(kind, msgspec.inspect.StructType) and kind.tag is not None else []
    return [*tag, *values.values()]


def frames_of(house: Any) -> list[dict[str, Any]]:
    kinds = getattr(house, "__args__", (house,))
    found = []
    for each in kinds:
        described = msgspec.inspect.type_info(each)
        for everything in (False, True):
            data = msgspec.msgpack.encode(filled(described, everything=everything))
            value = msgspec.msgpack.decode(data, type=each)
            shown = json.loads(msgspec.json.encode(value))
            found.append({"kind": each.__name__, "bytes": text_of(data), "value": shown})
    return found


def main(folder: Path) -> None:
    folder.mkdir()
    lines = []
    for name, house in HOUSES.items():
        lines += [json.dumps({"house": name, **each}, ensure_ascii=False) for each in frames_of(house)]
    (folder / "frames.json").write_text("[\n" + ",\n".join(lines) + "\n]\n", encoding="utf-8")
    for name, (play, secret) in PLAYS.items():
        recorder = Recorder(secret)
        play(recorder)
        recorder.write(folder / f"{name}.jsonl.zst")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
