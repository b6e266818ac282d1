"""An issuer of tokens for tests: keys made by the library, and what it publishes of them."""

import json
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import jwt
from cryptography.hazmat.primitives.asymmetric import ec, rsa

from config.oidc import Oidc, OidcRole

ISSUER = "https://login.example/realms/chain"
SITE = Oidc(
    issuer=ISSUER,
    audience="sapwood",
    roles=(
        OidcRole(name="till-staff", role="viewer"),
        OidcRole(name="chain operators", role="operator"),
        OidcRole(name="chain-admins", role="administrator"),
    ),
)


class Signer:
    """One key. `kid`: its name; '' = none."""

    def __init__(self, kid: str = "k1", algorithm: str = "RS256", *, bits: int = 2048) -> None:
        self.kid, self.algorithm = kid, algorithm
        curves = {"ES256": ec.SECP256R1, "ES384": ec.SECP384R1}
        self.private: Any = (
            ec.generate_private_key(curves[algorithm]())
            if algorithm in curves
            else rsa.generate_private_key(public_exponent=65537, key_size=bits)
        )

    def jwk(self, **more: Any) -> dict[str, Any]:
        kind = jwt.algorithms.ECAlgorithm if self.algorithm[0] == "E" else jwt.algorithms.RSAAlgorithm
        named = {"kid": self.kid} if self.kid else {}
        return kind.to_jwk(self.private.public_key(), as_dict=True) | named | {"use": "sig"} | more

    def token(self, headers: dict[str, Any] | None = None, **claims: Any) -> str:
        """A right token of `SITE`, with other claims where they are given; None leaves one out."""
        now = int(time.time())
        right = {"iss": ISSUER, "aud": "sapwood", "sub": "248", "iat": now, "exp": now + 300}
        given = {"groups": ["chain operators"], **right, **claims}
        named = {"kid": self.kid} if self.kid else {}
        return jwt.encode(
            {name: value for name, value in given.items() if value is not None},
            self.private,
            self.algorithm,
            headers=named | (headers or {}),
        )


def jwks(*keys: dict[str, Any]) -> bytes:
    return json.dumps({"keys": keys}).encode()


class IssuerProcess:
    """An issuer in a process of its own, that may be stopped and started, and has other keys when told so."""

    def __init__(self, folder: Path, port: int) -> None:
        self._folder, self._port = folder, port
        self.url = f"http://127.0.0.1:{port}"
        self._process: subprocess.Popen[bytes] | None = None
        said = {"issuer": self.url, "jwks_uri": f"{self.url}/keys"}
        (folder / ".well-known").mkdir(parents=True)
        (folder / ".well-known" / "openid-configuration").write_text(json.dumps(said))

    def publish(self, *signers: Signer) -> None:
        new = self._folder / "new"
        new.write_bytes(jwks(*[each.jwk() for each in signers]))
        new.replace(self._folder / "keys")

    def start(self) -> None:
        program = Path(__file__).with_name("token_issuer_server.py")
        self._process = subprocess.Popen([sys.executable, str(program), str(self._port), str(self._folder)])
        while True:
            try:
                socket.create_connection(("127.0.0.1", self._port), 1).close()
                return
            except OSError:
                assert self._process.poll() is None
                time.sleep(0.05)

    def stop(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None
