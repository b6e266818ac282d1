"""Both ends of TLS, without a socket."""

import ssl


def handshake(
    server: ssl.SSLContext,
    client: ssl.SSLContext,
    host: str | None = None,
    session: ssl.SSLSession | None = None,
) -> tuple[ssl.SSLObject, ssl.SSLObject]:
    """The server's end and the client's. Raises `ssl.SSLError` where one refuses."""
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    far = server.wrap_bio(to_server, to_client, server_side=True)
    near = client.wrap_bio(to_client, to_server, server_hostname=host, session=session)
    waiting = {far, near}
    while waiting:
        for end in (far, near):
            try:
                end.do_handshake()
                waiting.discard(end)
            except ssl.SSLWantReadError:
                continue
    return far, near
