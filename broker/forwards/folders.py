"""Files that are copied: plain ones, within a folder, each of which appears whole.

Law: a path is walked from the folder's own descriptor, name by name, and no link is followed: nothing that
anybody changes meanwhile leads out of it. Devices, pipes and sockets are not opened.

Law: the bytes of a file that comes gather beside it in its *part*, `.NAME.part`, which takes its place when
all are there and on disk. A part stays after a broken line; one writer at a time has it. Names that begin
with a dot are for nobody, so parts are never fetched. A file keeps the permissions of the one before.
"""

import fcntl
import hashlib
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

MAX_PATH: Final = 1024
MAX_NAMES: Final = 32
MAX_NAME: Final = 240
"""Bytes of a path and of one name in it, which leaves room for that of its part; names in a path."""
PROVEN: Final = 1024 * 1024 * 1024
"""Most bytes that are read again so that a copy goes on behind them; it goes on there if more have come."""
FILES_RESERVE: Final = 10_000
"""Files for which the disk keeps a place, or a twentieth of all: the node's own are among them."""
_PIECE: Final = 1024 * 1024
_ACCESS: Final = 0o777
_NEW: Final = 0o644
_OURS: Final = 0o600
_PLAIN: Final = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC


class FileFault(Exception):
    """A file cannot be copied; the text is for people."""


class OtherFault(FileFault):
    """The other end says so, or should have said something else."""


class FileBusy(FileFault):
    """Somebody else brings it."""


def names_of(path: str) -> list[str]:
    """The names of a path within a folder. Raises `FileFault`: it could lead out of it, or elsewhere."""
    names = path.split("/")
    if len(os.fsencode(path)) > MAX_PATH or len(names) > MAX_NAMES:
        raise FileFault(f"a path of {len(path)} characters: expected {MAX_PATH} bytes at most")
    for name in names:
        if not name or name.startswith("."):
            raise FileFault(f"{path!r}: expected names with '/' between, none of which begins with a dot")
        if not name.isprintable() or len(os.fsencode(name)) > MAX_NAME:
            raise FileFault(f"{path!r}: a name has {MAX_NAME} printable bytes at most")
    return names


class FirstBytes:
    """The `sum` of so many first bytes of a file, made in pieces. `left`: bytes that are not in it yet."""

    def __init__(self, descriptor: int, size: int) -> None:
        self._descriptor = descriptor
        self.size = self.left = size
        self.sum = hashlib.sha256()

    def __repr__(self) -> str:
        return f"<FirstBytes size={self.size} left={self.left}>"

    def add(self) -> None:
        """One piece. A file that has become shorter has another sum."""
        data = os.pread(self._descriptor, min(self.left, _PIECE), self.size - self.left)
        self.sum.update(data)
        self.left -= len(data) or self.left


class FileSource:
    """A plain file that is read from its beginning. `size`: as it was when it was opened."""

    def __init__(self, descriptor: int, name: str) -> None:
        self._descriptor = descriptor
        self._name = name
        self.size = _plain(descriptor, name)
        self._sum = hashlib.sha256()

    def __repr__(self) -> str:
        return f"<FileSource {self._name} size={self.size}>"

    def close(self) -> None:
        os.close(self._descriptor)

    def first(self, size: int) -> FirstBytes:
        """Those that another has; none where there are not so many, or more than are proven."""
        return FirstBytes(self._descriptor, size if size <= min(self.size, PROVEN) else 0)

    def begin(self, first: FirstBytes, digest: str) -> int:
        """Where: behind the first bytes if this is their sum, else at the first."""
        same = first.sum.hexdigest() == digest
        self._sum = first.sum if same else hashlib.sha256()
        return os.lseek(self._descriptor, first.size if same else 0, os.SEEK_SET)

    def read(self, most: int) -> bytes:
        """Raises `FileFault`: it has become shorter."""
        data = os.read(self._descriptor, most)
        if not data:
            raise FileFault(f"{self._name} has become shorter while it was read")
        self._sum.update(data)
        return data

    @property
    def digest(self) -> str:
        """The sum of all that was read."""
        return self._sum.hexdigest()


class FilePart:
    """The bytes of a file `name` that have come. `folder`: a descriptor, which is closed with it. `size`: of
    what is there, and proven; below 0 = the part is not ours, or is no more. `first`: that, to be summed.

    Raises `FileBusy`, and `FileFault` where something else has its name.
    """

    def __init__(self, folder: int, name: str) -> None:
        self._folder = folder
        self._name = name
        self._part = f".{name}.part"
        self._descriptor = -1
        self.size = -1
        try:
            mode = _NEW if (before := self._look(name)) is None else _NEW & before | _OURS
            self._look(self._part)
            self._descriptor = os.open(self._part, os.O_RDWR | os.O_CREAT | _PLAIN, mode, dir_fd=self._folder)
            size = _plain(self._descriptor, self._part)
            self._lock()
            self.size = min(size, PROVEN)
        except BaseException:
            self.close()
            raise
        self.first = FirstBytes(self._descriptor, self.size)
        self._sum = self.first.sum

    def __repr__(self) -> str:
        return f"<FilePart {self._name} size={self.size}>"

    def close(self) -> None:
        """All that has come stays; a part in which nothing is does not."""
        try:
            if self.size == 0:
                self._drop()
        finally:
            for descriptor in (self._descriptor, self._folder):
                if descriptor >= 0:
                    os.close(descriptor)
            self._descriptor = self._folder = -1

    def _drop(self) -> None:
        """Another program may have tidied it away."""
        self.size = -1
        with suppress(FileNotFoundError):
            os.unlink(self._part, dir_fd=self._folder)

    def _look(self, name: str) -> int | None:
        """Whatever has the name is a plain file; opening other things may do something already. Its mode."""
        try:
            found = os.stat(name, dir_fd=self._folder, follow_symlinks=False)
        except FileNotFoundError:
            return None
        if not stat.S_ISREG(found.st_mode):
            raise FileFault(f"{name} is there and is no plain file")
        return found.st_mode & _ACCESS

    def _lock(self) -> None:
        """The part is ours, and still has its name: another may have finished it just now."""
        busy = FileBusy(f"{self._name} is being brought by somebody else")
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            named = os.stat(self._part, dir_fd=self._folder, follow_symlinks=False)
        except (BlockingIOError, FileNotFoundError):
            raise busy from None
        ours = os.fstat(self._descriptor)
        if (named.st_dev, named.st_ino) != (ours.st_dev, ours.st_ino) or ours.st_nlink != 1:
            raise busy

    def free(self) -> int:
        """Bytes that the disk has left."""
        found = os.fstatvfs(self._descriptor)
        return found.f_bavail * found.f_frsize

    @property
    def is_crowded(self) -> bool:
        """Has the disk places for few files more, whatever their size? One that counts none says 0 of 0."""
        found = os.fstatvfs(self._descriptor)
        return found.f_favail < min(FILES_RESERVE, found.f_files // 20)

    def keep(self, size: int) -> None:
        """The next bytes follow all that is there, or nothing of it."""
        if size != self.size:
            self.size, self._sum = 0, hashlib.sha256()
        os.ftruncate(self._descriptor, self.size)
        os.lseek(self._descriptor, self.size, os.SEEK_SET)

    def write(self, data: bytes) -> None:
        view = memoryview(data)
        while view:
            view = view[os.write(self._descriptor, view) :]
        self._sum.update(data)
        self.size += len(data)

    def finish(self, digest: str) -> None:
        """All has come: it takes its place. Raises `FileFault`: it is not what was sent; then it is gone."""
        if self._sum.hexdigest() != digest:
            self._drop()
            raise FileFault(f"{self._name} is not what was sent, or has changed meanwhile: copy it again")
        if (before := self._look(self._name)) is not None:
            os.fchmod(self._descriptor, before)
        os.fsync(self._descriptor)
        os.replace(self._part, self._name, src_dir_fd=self._folder, dst_dir_fd=self._folder)
        self.size = -1
        os.fsync(self._folder)


class SharedFolder:
    """A folder, below which others may name files."""

    def __init__(self, root: Path) -> None:
        self._root = root

    def __repr__(self) -> str:
        return f"<SharedFolder {self._root}>"

    def source(self, path: str) -> FileSource:
        """Open a file to read it. Raises `FileFault`."""
        with _in_words(path):
            *_, name = names_of(path)
            folder = self._folder_of(path)
            try:
                if not stat.S_ISREG(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode):
                    raise FileFault(f"{path} is no plain file")
                return source_of(os.open(name, os.O_RDONLY | _PLAIN, dir_fd=folder), path)
            finally:
                os.close(folder)

    def part(self, path: str) -> FilePart:
        """The part of a file that comes. Raises `FileFault`."""
        with _in_words(path):
            *_, name = names_of(path)
            return FilePart(self._folder_of(path), name)

    def _folder_of(self, path: str) -> int:
        """The folder in which the file of a path is."""
        try:
            found = os.open(self._root, _FOLDER)
        except OSError as error:
            raise FileFault(f"the folder itself cannot be opened ({error.strerror})") from None
        for name in names_of(path)[:-1]:
            try:
                inner = os.open(name, _FOLDER | os.O_NOFOLLOW, dir_fd=found)
            except FileNotFoundError:
                raise FileFault(f"{path}: there is no folder {name}: make it first") from None
            finally:
                os.close(found)
            found = inner
        return found


def source_of(descriptor: int, name: str) -> FileSource:
    """Raises `FileFault`: it is no plain file; then it is closed."""
    try:
        return FileSource(descriptor, name)
    except BaseException:
        os.close(descriptor)
        raise


def local_source(file: Path) -> FileSource:
    """A file of whoever copies it, who may name any. Raises `FileFault`."""
    with _in_words(str(file)):
        return source_of(os.open(file, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), str(file))


def local_part(file: Path) -> FilePart:
    """The part of a file that whoever copies it named. Raises `FileFault`."""
    with _in_words(str(file)):
        return FilePart(os.open(file.parent, _FOLDER), file.name)


@contextmanager
def _in_words(path: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise FileFault(f"{path}: {error.strerror or error}") from None


def _plain(descriptor: int, name: str) -> int:
    """The size of a plain file. Raises `FileFault`."""
    found = os.fstat(descriptor)
    if not stat.S_ISREG(found.st_mode):
        raise FileFault(f"{name} is no plain file")
    return found.st_size
