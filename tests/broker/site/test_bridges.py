"""A bridge is made as the site's file says, and reads what may change for each connection."""

from pathlib import Path

from broker.site.bridges import make_bridge
from config.load import load


def test_the_secret_is_read_anew_for_each_connection(tmp_path: Path) -> None:
    secret, file = tmp_path / "secret", tmp_path / "york.yaml"
    secret.write_text("old")
    secret.chmod(0o600)
    said = f"{{uri: 'mqtt://localhost', user: york, secret_file: '{secret}'}}"
    file.write_text(f"broker: {{name: york, tree: acme, site_broker: {said}}}\n")
    bridge = make_bridge(load(file), "1")
    assert bridge._access.password == "old"
    secret.write_text("new")
    assert bridge._access.password == "new"
