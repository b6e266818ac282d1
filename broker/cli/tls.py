"""What a command trusts and shows on https and wss. `ssl` is imported when it is needed."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from broker.cli.errors import WRONG_USE, CommandError

if TYPE_CHECKING:
    from ssl import SSLContext


@dataclass(frozen=True, slots=True)
class Tls:
    """`ca`: authorities that nodes must come from, None = the system's. `certificate`, `key`: our own, PEM,
    for nodes that demand one; a certificate's file may hold its key.
    """

    ca: Path | None = None
    certificate: Path | None = None
    key: Path | None = None

    def context(self) -> "SSLContext":
        """Raises `CommandError` where a file is not what it should be."""
        import ssl

        if self.key and not self.certificate:
            raise CommandError("--key alone is of no use: give the certificate with --certificate", WRONG_USE)
        try:
            context = ssl.create_default_context(cafile=str(self.ca) if self.ca else None)
        except (OSError, ssl.SSLError) as error:
            raise CommandError(
                f"{self.ca}: no certificate authorities in it ({error}): expected PEM", WRONG_USE
            ) from None
        if self.certificate:
            self._show(context, self.certificate)
        return context

    def _show(self, context: "SSLContext", certificate: Path) -> None:
        import ssl

        try:
            context.load_cert_chain(certificate, self.key, password=_no_password)
        except (OSError, ssl.SSLError, ValueError) as error:
            where = f"{certificate} and {self.key}" if self.key else str(certificate)
            raise CommandError(
                f"{where}: no certificate with its key ({error}): expected PEM without a password", WRONG_USE
            ) from None


def _no_password() -> str:
    raise ValueError("the key has a password")


class Untrusting(Tls):
    """For a question of this machine to itself, whose certificate may name other hosts."""

    def context(self) -> "SSLContext":
        import ssl

        context = ssl.create_default_context()
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        return context
