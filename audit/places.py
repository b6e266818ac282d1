"""Places beyond this machine, as pyarrow reaches them: `s3://` (also as `s3a://`), `gs://`, `abfs://`,
`hdfs://`, or a folder. No jar is needed; keys and `AWS_ENDPOINT_URL` come from the environment.

`near` brings logs here that Spark cannot read, since it has no jar for where they lie. Law: a copy has the
time and the folders of its original, and its original's name in every table.
"""

import os
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote, urlsplit

from pyarrow import fs

from audit.errors import UsageError
from audit.listing import RESULTS, format_of, is_local, is_usage

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

AT_ONCE: Final = 16
"""Files that are fetched at the same time."""


def opened(url: str) -> tuple[fs.FileSystem, str]:
    """The file system of a URL or a folder, and the path there. Raises `OSError` or `ValueError` for one that
    cannot be reached."""
    place = url.replace("s3a://", "s3://", 1)
    uri = place if "://" in place else Path(place).absolute().as_uri()
    system, root = fs.FileSystem.from_uri(uri)
    return system, str(root).rstrip("/")


@dataclass(frozen=True, slots=True)
class Near:
    """URLs whose files were brought here. `folder`: where to."""

    folder: Path
    _paths: dict[str, str] = field(default_factory=dict)

    def path(self, url: str) -> str:
        """Where that of a URL lies now: itself, if it was within reach."""
        return self._paths.get(url, url)

    @property
    def renamed(self) -> dict[str, str]:
        """How the names of files begin here, and there; as Spark spells them."""
        schemes = {urlsplit(url).scheme for url in self._paths}
        return {f"file:{quote(str(self.folder))}/{scheme}/": f"{scheme}://" for scheme in sorted(schemes)}

    def bring(self, url: str) -> None:
        """Fetch a file, or all logs below a folder. Raises `UsageError` if it cannot be reached."""
        scheme = urlsplit(url).scheme
        try:
            system, root = opened(url)
            found = _files(system, root)
            if not found:
                raise UsageError(f"{url}: there is no such file or folder: expected advisory logs")
            with ThreadPoolExecutor(AT_ONCE) as pool:
                list(pool.map(lambda file: _fetch(system, file, self.folder / scheme, root), found))
        except (OSError, ValueError) as error:
            raise UsageError(f"{url}: cannot be read: {error}") from None
        self._paths[url] = str(self.folder / scheme / root)


@contextmanager
def near(spark: "SparkSession", urls: Sequence[str]) -> Iterator[Near]:
    """While it lasts, what Spark cannot reach lies on this machine. Raises `UsageError` where Spark's
    executors are on others: these need the jar."""
    far = [url for url in dict.fromkeys(urls) if url and not is_local(url) and not _reaches(spark, url)]
    with tempfile.TemporaryDirectory(prefix="sapwood-audit-") as folder:
        brought = Near(Path(folder))
        for url in far:
            if not _master(spark).startswith("local"):
                raise UsageError(f"{url}: {_JAR.format(version=_hadoop(spark), master=_master(spark))}")
            brought.bring(url)
        yield brought


_JAR: Final = (
    "Spark has no file system for it: expected its jar, such as"
    " --spark spark.jars.packages=org.apache.hadoop:hadoop-aws:{version}; with {master} logs are not"
    " brought to this machine, since executors may be on others"
)


def _reaches(spark: "SparkSession", url: str) -> bool:
    from py4j.protocol import Py4JJavaError

    jvm: Any = spark.sparkContext._jvm
    context: Any = spark.sparkContext._jsc
    try:
        jvm.org.apache.hadoop.fs.Path(url).getFileSystem(context.hadoopConfiguration())
    except Py4JJavaError:  # no class for it on the class path
        return False
    return True


def _hadoop(spark: "SparkSession") -> str:
    jvm: Any = spark.sparkContext._jvm
    return str(jvm.org.apache.hadoop.util.VersionInfo.getVersion())


def _master(spark: "SparkSession") -> str:
    return str(spark.sparkContext.master)


def _files(system: fs.FileSystem, root: str) -> list[fs.FileInfo]:
    """The file that `root` is, or all below the folder, but those of an audit's own results."""
    itself = system.get_file_info(root)
    if itself.type == fs.FileType.File:
        return [itself]
    below = system.get_file_info(fs.FileSelector(root, recursive=True, allow_not_found=True))
    found = [file for file in below if file.is_file]
    own = tuple(file.path.removesuffix(RESULTS) for file in found if file.base_name == RESULTS)
    return [file for file in found if not file.path.startswith(own) or file.base_name == RESULTS]


def _fetch(system: fs.FileSystem, file: fs.FileInfo, folder: Path, root: str) -> None:
    """Copy a log; of a file that is none the name is enough. A name that leads out of the folder is left."""
    if ".." in PurePosixPath(file.path).parts:
        return
    target = folder / file.path.lstrip("/")
    target.parent.mkdir(parents=True, exist_ok=True)
    if file.path != root and not (format_of(file.base_name) or is_usage(file.base_name)):
        target.touch()
        return
    with system.open_input_stream(file.path, compression=None) as source, target.open("wb") as sink:
        shutil.copyfileobj(source, sink, 1024 * 1024)
    if file.mtime_ns:
        os.utime(target, ns=(file.mtime_ns, file.mtime_ns))
