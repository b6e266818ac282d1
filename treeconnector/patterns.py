"""Topics and topic patterns: one canonical form inside, the MQTT and the AMQP spelling at the edges.

A topic is a list of levels. Canonical is the MQTT spelling: levels joined by `/`, `+` for exactly one
level, `#` for any number of them, none included. Here, as in RabbitMQ, `#` may stand anywhere.

Law: a level may hold any text. What a spelling cannot hold inside a level is written as its percent code:
`%2F %2B %23` (for `/ + #`) in canonical and MQTT text; `%2E` (for `.`) and, where they are a whole word,
`%2A %23` (for a literal `*` or `#`) on AMQP. Text that already looks like such a code gets `25` put after
its `%`. Every other `%` stays as it is. Hence both round trips are the identity: `to_mqtt(from_mqtt(x)) == x`
and `to_amqp(from_amqp(x)) == x`, and back.

Law: as MQTT has it, a pattern that begins with a wildcard does not match a topic that begins with `$`.

Wrinkle: MQTT allows `#` as the last level only. `to_mqtt` cuts after the first `#`: the result matches
more, never less, and the exact pattern is applied where messages are delivered.

Wrinkle: empty levels are levels (`/a`, `a//b`); the empty text is no topic.
"""

import re
from typing import Final

from sapwood.protocol.errors import PatternError

ONE: Final = "+"
MANY: Final = "#"
MAX_LENGTH: Final = 4096
MAX_LEVELS: Final = 128
MAX_AMQP_BYTES: Final = 255

_CODES: Final = {"/": "%2F", "+": "%2B", "#": "%23", ".": "%2E", "*": "%2A"}
_CHARACTERS: Final = {code: character for character, code in _CODES.items()}
_UNSAFE = re.compile(r"[/+#]|%(?=(?:25)*(?:2F|2B|23))")
_CODED = re.compile(r"%(?:25)*(?:2F|2B|23)")
_UNSAFE_NAME = re.compile(r"[+#]|%(?=(?:25)*(?:2B|23))")
_CODED_NAME = re.compile(r"%(?:25)*(?:2B|23)")
_UNSAFE_WORD = re.compile(r"\.|%(?=(?:25)*2E)")
_CODED_WORD = re.compile(r"%(?:25)*2E")
_UNSAFE_WHOLE = re.compile(r"[*#]|%(?:25)*(?:2A|23)")
_CODED_WHOLE = re.compile(r"%(?:25)*(?:2A|23)")
_PLAIN = re.compile(r"[^%.*/+#]*(?:/[^%.*/+#]*)*")
_PLAIN_AMQP = re.compile(r"[^%.*/+#]*(?:\.[^%.*/+#]*)*")


def check_pattern(pattern: str, length: int = MAX_LENGTH, levels: int = MAX_LEVELS) -> str:
    """Return `pattern` if it is canonical and within the limits (characters, levels); else `PatternError`."""
    _check_text(pattern, "pattern", length, levels)
    if ONE in pattern or MANY in pattern:
        for level in pattern.split("/"):
            if len(level) > 1 and (ONE in level or MANY in level):
                raise PatternError(
                    f"{pattern[:80]!r} is no pattern: expected '+' and '#' to be whole levels, not part of"
                    f" {level[:40]!r} (a literal '+' is written %2B, a literal '#' %23)"
                )
    return pattern


def check_topic(topic: str, length: int = MAX_LENGTH, levels: int = MAX_LEVELS) -> str:
    """Return `topic` if it is a canonical topic name, so without wildcards; else raise `PatternError`."""
    _check_text(topic, "topic", length, levels)
    if ONE in topic or MANY in topic:
        raise PatternError(f"{topic[:80]!r} is no topic: expected no wildcard ('+' or '#') in it")
    return topic


def _check_text(text: str, what: str, length: int, levels: int) -> None:
    if not text or len(text) > length:
        raise PatternError(f"a {what} of {len(text)} characters: expected 1 to {length}: {text[:40]!r}")
    if text.count("/") >= levels:
        raise PatternError(
            f"a {what} of {text.count('/') + 1} levels: expected {levels} at most: {text[:40]!r}"
        )
    if text.isascii():
        if "\0" in text:
            raise PatternError(f"{text[:80]!r} is no {what}: expected no NUL character")
        return
    if "\0" in text or any(0xD800 <= ord(character) <= 0xDFFF for character in text):
        raise PatternError(f"{text[:80]!r} is no {what}: expected text without NUL and lone surrogates")


def has_wildcard(pattern: str) -> bool:
    """Whether a canonical pattern matches other topics than itself."""
    return ONE in pattern or MANY in pattern


def from_mqtt(text: str) -> str:
    """Read a filter as an MQTT client wrote it. Raises `PatternError` if it is none."""
    check_pattern(text)
    if MANY in text[:-1]:
        raise PatternError(f"{text[:80]!r} is no MQTT filter: expected '#' as the last level only")
    return text


def to_mqtt(pattern: str) -> str:
    """Spell a canonical pattern for MQTT, widened where MQTT cannot spell it: `#` ends its filters."""
    place = pattern.find(MANY)
    return pattern if place < 0 else pattern[: place + 1]


def topic_from_mqtt(text: str) -> str:
    """Read a topic name as an MQTT client wrote it. Raises `PatternError` if it is none."""
    return check_topic(text)


def name_from_mqtt(text: str) -> str:
    """Read a queue's name that `name_to_mqtt` spelled."""
    return _CODED_NAME.sub(_decode_match, text)


def name_to_mqtt(name: str) -> str:
    """Spell a queue's name as part of an MQTT topic name, where `+` and `#` have no place."""
    return _UNSAFE_NAME.sub(_encode, name)


def from_amqp(text: str) -> str:
    """Read a binding key of a topic exchange. Raises `PatternError` if it is none, or beyond our limits."""
    if not text:
        raise PatternError("an empty binding key: expected at least one character ('#' matches everything)")
    if _PLAIN_AMQP.fullmatch(text):
        return check_pattern(text.replace(".", "/"))
    return check_pattern("/".join(_level(word) for word in text.split(".")))


def to_amqp(pattern: str) -> str:
    """Spell a canonical pattern as a binding key. Raises `PatternError` if AMQP has no room for it."""
    if _PLAIN.fullmatch(pattern):
        return _short(pattern.replace("/", "."))
    return _short(".".join(_word(level) for level in pattern.split("/")))


def topic_from_amqp(text: str) -> str:
    """Read a routing key. A whole word `*` or `#` is refused: nobody could subscribe to just that."""
    return check_topic(from_amqp(text))


def _level(word: str) -> str:
    """AMQP word to canonical level."""
    if word == "*":
        return ONE
    if word == "#":
        return MANY
    if _CODED_WHOLE.fullmatch(word):
        word = _decode(word)
    return _UNSAFE.sub(_encode, _CODED_WORD.sub(_decode_match, word))


def _word(level: str) -> str:
    """Canonical level to AMQP word; undoes `_level` step by step."""
    if level == ONE:
        return "*"
    if level == MANY:
        return "#"
    word = _UNSAFE_WORD.sub(_encode, _CODED.sub(_decode_match, level))
    return _encode_text(word) if _UNSAFE_WHOLE.fullmatch(word) else word


def _encode(match: re.Match[str]) -> str:
    return _encode_text(match[0])


def _encode_text(text: str) -> str:
    return _CODES.get(text) or "%25" + text[1:]


def _decode_match(match: re.Match[str]) -> str:
    return _decode(match[0])


def _decode(code: str) -> str:
    return _CHARACTERS.get(code) or "%" + code[3:]


def _short(key: str) -> str:
    if len(key) * 4 > MAX_AMQP_BYTES and len(key.encode()) > MAX_AMQP_BYTES:
        raise PatternError(
            f"{key[:40]!r}… is {len(key.encode())} bytes as a routing key: expected {MAX_AMQP_BYTES} at most,"
            " use fewer or shorter levels"
        )
    return key


def matches(pattern: str, topic: str) -> bool:
    """Whether a canonical pattern matches a canonical topic name. Work: levels of one times the other."""
    if topic[:1] == "$" and pattern[:1] in (ONE, MANY):
        return False
    words, levels = pattern.split("/"), topic.split("/")
    word = level = taken = 0
    many = -1
    while level < len(levels):
        if word < len(words) and words[word] == MANY:
            many, taken = word, level
            word += 1
        elif word < len(words) and words[word] in (ONE, levels[level]):
            word += 1
            level += 1
        elif many >= 0:  # let the last '#' take one level more
            taken += 1
            word, level = many + 1, taken
        else:
            return False
    return all(rest == MANY for rest in words[word:])


def intersection(one: str, other: str) -> str | None:
    """The filter that matches exactly what both match, in MQTT's spelling; None if no topic can.

    `#` stands at the end only.
    """
    if (one[:1] == "$") != (other[:1] == "$"):
        return None
    mine, theirs = one.split("/"), other.split("/")
    both: list[str] = []
    for place in range(max(len(mine), len(theirs)) + 1):
        here = mine[place] if place < len(mine) else None
        there = theirs[place] if place < len(theirs) else None
        if here is None and there is None:
            break
        if here == MANY or there == MANY:
            both += theirs[place:] if here == MANY else mine[place:]
            break
        if here is None or there is None or not (here == there or ONE in (here, there)):
            return None
        both.append(there if here == ONE else here)
    return "/".join(both) or None
