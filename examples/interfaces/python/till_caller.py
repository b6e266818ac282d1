"""Fetches a picture of a till's screen, and gives the till a program: python till_caller.py [URL]"""

import sys
from contextlib import closing
from threading import Thread

from chain.tills_v1 import NoSuchTill, TillsSyncClient

from sapwood import channels, sync
from sapwood.channels import AppChannel


def main(url: str) -> None:
    with sync.connect(url) as client:
        tills = TillsSyncClient(client.rpc, timeout=30)
        answer = tills.screen.picture(till=3)
        with channels.take_now(client, answer.png) as channel, channel.socket.makefile("rb") as file:
            picture = file.read()
        print(f"a picture of {len(picture)} bytes came by {channel.way}")
        made, given = channels.make_now(client)
        Thread(target=send, args=(made, b"a program" * 100_000)).start()
        print(f"the till has {tills.install(till=3, program=given).size} bytes")
        try:
            tills.screen.picture(till=1)
        except NoSuchTill as error:
            print(f"there is no till {error.value}")


def send(made: AppChannel, content: bytes) -> None:
    with closing(made):
        made.socket.sendall(content)


if __name__ == "__main__":
    main(*(sys.argv[1:] or ["http://127.0.0.1:7600"]))
