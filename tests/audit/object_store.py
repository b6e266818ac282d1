"""A real object store for tests: the S3 server of moto, as a process of its own."""

import os
import re
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from pyarrow import fs


@contextmanager
def object_store(bucket: str) -> Iterator[str]:
    """While it lasts, `s3://BUCKET` is there, and the environment leads to it. Yields its URL."""
    command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", "0"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True) as server:
        try:
            assert server.stderr is not None
            said = next(line for line in server.stderr if "Running on" in line)
            address = re.search(r"http://127\.0\.0\.1:\d+", said)
            assert address, said
            threading.Thread(target=deque, args=(server.stderr, 0), daemon=True).start()  # it logs requests
            with pytest.MonkeyPatch.context() as patch:
                for name in [name for name in os.environ if name.startswith("AWS_")]:
                    patch.delenv(name)
                patch.setenv("AWS_ENDPOINT_URL", address[0])
                patch.setenv("AWS_ACCESS_KEY_ID", "key")
                patch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
                patch.setenv("AWS_REGION", "us-east-1")
                system, _ = fs.FileSystem.from_uri(f"s3://{bucket}?allow_bucket_creation=true")
                system.create_dir(bucket)
                yield f"s3://{bucket}"
        finally:
            server.kill()


def upload(folder: Path, url: str) -> None:
    """Copy all that lies in a folder."""
    system, root = fs.FileSystem.from_uri(url)
    fs.copy_files(str(folder), root, fs.LocalFileSystem(), system)
