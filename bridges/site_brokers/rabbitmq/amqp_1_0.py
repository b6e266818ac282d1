"""Messages of applications that speak AMQP 1.0, as RabbitMQ hands them to one that speaks 0-9-1.

Data sections come as a plain body. A value comes encoded, with the type `amqp-1.0` and with sections in
headers, though RabbitMQ says in plain properties all that 0-9-1 has a word for. A value that is a text or
bytes becomes the payload here: nobody else in the tree reads that encoding. Other values go on as they came.

Sources: OASIS AMQP 1.0, part 1 section 1.6 (types) and part 3 section 3.2 (sections); RabbitMQ's addresses.
"""

from typing import Final
from urllib.parse import unquote

import pika

TYPE: Final = "amqp-1.0"
TEXT: Final = "text/plain"
_APPLICATION: Final = "x-amqp-1.0-app-properties"
_SECTIONS: Final = ("x-amqp-1.0-properties", "x-amqp-1.0-message-annotations", _APPLICATION)
_VALUES: Final = (b"\x00\x53\x77", b"\x00\x80\x00\x00\x00\x00\x00\x00\x00\x77")
"""A section begins with its descriptor, a number in one byte or in eight."""
_FORMS: Final = {0xA0: (1, False), 0xB0: (4, False), 0xA1: (1, True), 0xB1: (4, True)}
"""Bytes and texts: how many bytes say the length, and whether it is a text."""
_QUEUES: Final = ("/queues/", "/amq/queue/", "/queue/")
"""Begin addresses of queues: in the form of RabbitMQ 4, and in the one before."""


def plain(properties: pika.BasicProperties, body: bytes) -> tuple[pika.BasicProperties, bytes]:
    """The message as 0-9-1 has it; the same where it is so already, or can be none."""
    found = _value(body) if properties.type == TYPE else None
    if found is None:
        return properties, body
    payload, is_text = found
    headers = properties.headers or {}
    said = {name: value for name, value in headers.items() if name not in _SECTIONS}
    if not said and _APPLICATION in headers:  # RabbitMQ 3 does not say these in headers of their own
        said[_APPLICATION] = headers[_APPLICATION]
    fields = {**vars(properties), "headers": said, "type": None}
    if is_text:
        fields["content_type"] = properties.content_type or TEXT
    return pika.BasicProperties(**fields), payload


def _value(body: bytes) -> tuple[bytes, bool] | None:
    """The bytes of a value that is the whole body, and whether it is a text; None if it is another one."""
    start = next((len(each) for each in _VALUES if body.startswith(each)), 0)
    form = _FORMS.get(body[start]) if 0 < start < len(body) else None
    if form is None:
        return None
    size, is_text = form
    begin = start + 1 + size
    whole = begin + int.from_bytes(body[start + 1 : begin]) == len(body)
    return (body[begin:], is_text) if whole else None


def queue_of(address: str) -> str:
    """The name of the queue that an application of AMQP 1.0 wrote as an address; other names as they are."""
    for prefix in _QUEUES:
        name = address.removeprefix(prefix)
        if name and name != address and "/" not in name:
            return unquote(name)
    return address
