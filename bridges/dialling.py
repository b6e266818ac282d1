"""Says why a broker could not be dialled, in words that help."""

import socket
import ssl

from bridges.tls import CERTIFICATE, untimely


def why_not(error: Exception, where: str, *, hint: str = "", seconds: float = 0.0) -> str:
    """`where`: what was dialled. `hint`: said of what cannot be reached. `seconds`: how long was waited."""
    match error:
        case ssl.SSLCertVerificationError():
            return untimely(where, error.verify_message) or (
                f"the certificate of {where} is not trusted ({error.verify_message}): name its authority in"
                " the setting `ca`, and dial the name that it carries"
            )
        case ssl.SSLError():
            return f"TLS with {where} failed: {error.reason or error}; is it the port for TLS? {CERTIFICATE}"
        case socket.gaierror():
            return f"{where}: its host is not known to DNS ({error.strerror})"
        case TimeoutError():
            return f"{where} did not answer{f' within {seconds:g} s' if seconds else ''}"
        case OSError():
            return f"{where} cannot be reached: {error.strerror or error}{hint}"
        case _:
            return f"{where} cannot be dialled: {error}"
