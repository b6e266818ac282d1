"""Each way in which dialling fails is told in words that help."""

import socket
import ssl

import pytest

from bridges.dialling import why_not


def broken() -> ssl.SSLError:
    error = ssl.SSLError(1, "failed")
    error.reason = "WRONG_VERSION_NUMBER"
    return error


def untrusted(why: str = "self-signed certificate") -> ssl.SSLCertVerificationError:
    error = ssl.SSLCertVerificationError(1, "failed")
    error.verify_message = why
    return error


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (untrusted(), "the certificate of hq is not trusted (self-signed certificate): name its"),
        (untrusted("certificate has expired"), "the certificate of hq has expired: renew it there"),
        (untrusted("certificate is not yet valid"), "the certificate of hq does not hold yet: is the clock"),
        (broken(), "TLS with hq failed: WRONG_VERSION_NUMBER; is it the port for TLS?"),
        (socket.gaierror(-2, "Name or service not known"), "hq: its host is not known to DNS (Name or"),
        (TimeoutError(), "hq did not answer within 3 s"),
        (ConnectionRefusedError(111, "Connection refused"), "hq cannot be reached: Connection refused; try"),
        (ValueError("odd"), "hq cannot be dialled: odd"),
    ],
)
def test_what_went_wrong_is_told(error: Exception, text: str) -> None:
    assert why_not(error, "hq", hint="; try", seconds=3).startswith(text)
