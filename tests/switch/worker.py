"""A client as a process of its own, to be killed at any point: `worker.py consume|produce PORT NAME FILE`.

It writes down what it did, a line each, before it goes on: what stands there has happened.
consume: `got ID PAYLOAD` when a message came, `done ID` when its acknowledgement was answered.
produce: `try PAYLOAD` before a message is sent, `sent PAYLOAD` when that was answered.
"""

import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from plain import Link

QUEUE = "work"


class Diary:
    def __init__(self, path: str) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)

    def write(self, *words: object) -> None:
        os.write(self._file, (" ".join(map(str, words)) + "\n").encode())


def consume(port: int, name: str, diary: Diary) -> None:
    """Transfer on one connection, acknowledge on another, hold a third; for ever."""
    fetching, settling, idle = (Link(port).login(name) for _ in range(3))
    settling.read(QUEUE)
    idle.create()
    highest = -1
    diary.write("ready")
    while True:
        for number, message in fetching.transfer(highest, 20.0):
            diary.write("got", number, message["payload"])
            settling.ack(number)
            diary.write("done", number)
            highest = max(highest, number)


def produce(port: int, name: str, diary: Diary) -> None:
    """Send numbered messages, one after the other, for ever."""
    link = Link(port).login(name)
    diary.write("ready")
    number = 0
    while True:
        payload = f"{name}-{number}"
        diary.write("try", payload)
        link.send(QUEUE, payload.encode(), number)
        diary.write("sent", payload)
        number += 1


if __name__ == "__main__":
    {"consume": consume, "produce": produce}[sys.argv[1]](int(sys.argv[2]), sys.argv[3], Diary(sys.argv[4]))
