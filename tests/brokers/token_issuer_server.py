"""An issuer as a process: `token_issuer_server.py PORT FOLDER` serves the folder as it is at each request."""

import sys
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer


class Handler(SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        """Nobody reads it."""


if __name__ == "__main__":
    serve = partial(Handler, directory=sys.argv[2])
    ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), serve).serve_forever()
