"""A real BIND of the tests' own: one process on a free port of 127.0.0.1, its files in one folder.

server = BindServer(folder)          # zone example.test, in which the key `sapwood` may change everything
server.start()                       # returns when it answers
server.registration(domain, key)     # what a node's file says to be registered there
await server.until(domain, "SRV", 2) # so many records
server.kill()                        # SIGKILL; start() again brings back what was updated
server.stop()
"""

import asyncio
import os
import shutil
import time
from pathlib import Path
from typing import Any

import dns.message
import dns.query
import dns.tsig
import dns.update
from server_process import PATIENCE, ServerProcess

from broker.cli.demo.plan import free_ports

MISSING = (
    "these tests need a real BIND: as root,"
    " apt-get update && apt-get install -y --no-install-recommends bind9"
)
ZONE = "example.test"
KEY_NAME = "sapwood"
KEY = "c2Fwd29vZC1pbi10ZXN0cy1vbmx5LTAxMjM0NTY3ODk="
OTHER_KEY = "YW5vdGhlci1rZXktdGhhdC1ub2JvZHkga25vd3MtMDE="
_CONFIGURATION = """
options {{
    directory "{folder}"; pid-file "{folder}/pid"; session-keyfile "{folder}/session.key";
    managed-keys-directory "{folder}"; listen-on port {port} {{ 127.0.0.1; }}; listen-on-v6 {{ none; }};
    recursion no; dnssec-validation no; notify no; allow-transfer {{ none; }};
}};
controls {{ }};
key "{key_name}" {{ algorithm hmac-sha256; secret "{key}"; }};
key "reader" {{ algorithm hmac-sha256; secret "{key}"; }};
zone "{zone}" {{ type primary; file "{folder}/zone"; update-policy {{ grant {key_name} zonesub ANY; }}; }};
"""
_RECORDS = "$TTL 60\n@ IN SOA ns.{zone}. root.{zone}. 1 60 60 60 1\n@ IN NS ns.{zone}.\nns IN A 127.0.0.1\n"


class BindServer(ServerProcess):
    """One BIND with one zone."""

    name = "BIND"

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, free_ports(1)[0])
        (folder / "zone").write_text(_RECORDS.format(zone=ZONE))
        (folder / "named.conf").write_text(
            _CONFIGURATION.format(folder=folder, port=self.port, zone=ZONE, key_name=KEY_NAME, key=KEY)
        )

    @property
    def place(self) -> str:
        return f"127.0.0.1:{self.port}"

    def start(self) -> None:
        """Start it, if it does not run, and wait until it answers."""
        if self.process is not None:
            return
        program = shutil.which("named", path=f"{os.environ['PATH']}:/usr/sbin:/usr/local/sbin")
        assert program, MISSING
        self.run(program, "-g", "-n", "1", "-c", str(self.folder / "named.conf"))

    def records(self, domain: str, kind: str) -> list[str]:
        """The records of the service at `domain` (SRV or TXT), as text."""
        question = dns.message.make_query(f"_sapwood._tcp.{domain}.", kind)
        answer = dns.query.tcp(question, "127.0.0.1", port=self.port, timeout=PATIENCE)
        return sorted(each.to_text() for rrset in answer.answer for each in rrset)

    async def until(self, domain: str, kind: str, count: int) -> list[str]:
        """Wait until there are so many, and return them."""
        deadline = time.monotonic() + PATIENCE
        while len(found := await asyncio.to_thread(self.records, domain, kind)) != count:
            assert time.monotonic() < deadline, f"{len(found)} records of {kind}: {found}"
            await asyncio.sleep(0.05)
        return found

    def registration(self, domain: str, key: Path, **further: Any) -> dict[str, Any]:
        """The setting of a node that registers itself at `domain`. `key`: the file of the key's secret."""
        fixed = {"zone": ZONE, "server": self.place, "key_name": KEY_NAME, "key_file": str(key)}
        return {"domain": domain, **fixed, **further}

    def set(self, domain: str, kind: str, *texts: str, ttl: int = 1) -> None:
        """Put these records in the place of all that the service at `domain` has of that kind."""
        key = dns.tsig.Key(f"{KEY_NAME}.", KEY, dns.tsig.HMAC_SHA256)
        update = dns.update.UpdateMessage(f"{ZONE}.", keyring=key)
        update.delete(f"_sapwood._tcp.{domain}.", kind)
        for text in texts:
            update.add(f"_sapwood._tcp.{domain}.", ttl, kind, text)
        answer = dns.query.tcp(update, "127.0.0.1", port=self.port, timeout=PATIENCE)
        assert answer.rcode() == 0, answer.to_text()
