"""Files that are written whole or not at all, as the compiled module writes them."""

from __future__ import annotations

import errno
import os
import secrets
import shutil
from typing import Union

from bespoke.errors import Error

Path = Union[str, "os.PathLike[str]"]

_PERMISSIONS = 0o777


def write_text(path: str, text: str) -> None:
    """Writes a file whole or not at all.

    One that is replaced keeps its mode. A link stays, and the file behind it is written; into what
    is no file, such as /dev/stdout, the text is written as it is.
    """
    try:
        if _is_special(path):
            with open(path, "wb") as file:
                file.write(text.encode())
            return
        _replace(path, text.encode())
    except OSError as error:
        raise Error(f"cannot write {path}: {error}") from None


def move_into_place(made: Path, path: Path) -> None:
    """Gives the file `made` the name `path`, by the rules of write_text."""
    if _is_special(path):
        _copy_through(made, path)
        return
    target = _behind_links(path)
    if os.path.exists(target):
        _set_mode(made, os.stat(target).st_mode)
    try:
        os.replace(made, target)
    except OSError as error:
        if error.errno != errno.EXDEV:
            raise
        # Behind a link there may be another disk, where it must lie before it can take the name.
        beside = _beside(target)
        try:
            shutil.copy2(made, beside)
            os.replace(beside, target)
            os.unlink(made)
        finally:
            _remove(beside)


def _replace(path: Path, data: bytes) -> None:
    target = _behind_links(path)
    mode = os.stat(target).st_mode & _PERMISSIONS if os.path.exists(target) else None
    scratch = _beside(target)
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
    # Nobody reads it before it has its mode who may not read it afterwards.
    handle = os.open(scratch, flags, 0o666 if mode is None else mode & 0o600)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        if mode is not None:
            _set_mode(scratch, mode)
        os.replace(scratch, target)
    finally:
        _remove(scratch)


def _is_special(path: Path) -> bool:
    """Whether there is something that is neither a file nor a folder."""
    return os.path.exists(path) and not os.path.isfile(path) and not os.path.isdir(path)


def _behind_links(path: Path) -> str:
    target = os.path.realpath(path)
    if os.path.islink(target):
        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), os.fspath(path))
    return target


def _beside(target: str) -> str:
    """A name that is neither met by chance nor guessed."""
    return os.path.join(os.path.dirname(target), f".bespoke-{secrets.token_hex(16)}.tmp")


def _set_mode(path: Path, mode: int) -> None:
    try:
        os.chmod(path, mode & _PERMISSIONS)
    except OSError:
        pass  # on file systems without modes nothing is lost


def _copy_through(made: Path, path: Path) -> None:
    with open(made, "rb") as source, open(path, "wb") as sink:
        shutil.copyfileobj(source, sink)
    os.unlink(made)


def _remove(path: str) -> None:
    try:
        os.unlink(path)
    except FileNotFoundError:
        pass
