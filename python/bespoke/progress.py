"""Progress of a long piece of work: in notebooks, on terminals, or to a function."""

from __future__ import annotations

import sys
import time
from typing import Any, Callable, Optional, Union

ProgressLike = Union[None, bool, Callable[[str, int], None]]


class Progress:
    """Counts calls and shows what is being done; the base class shows nothing."""

    def __init__(self) -> None:
        self.what = ""
        self.calls = 0

    def say(self, what: str) -> None:
        """What is being done now."""
        self.what = what
        self.show()

    def add(self, calls: int) -> None:
        """This many calls more."""
        self.calls += calls
        self.show()

    def show(self) -> None:
        """Puts it where people look."""

    def close(self) -> None:
        """Leaves no line half written."""

    def __enter__(self) -> "Progress":
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


class _Told(Progress):
    def __init__(self, function: Callable[[str, int], None]) -> None:
        super().__init__()
        self._function = function

    def show(self) -> None:
        self._function(self.what, self.calls)


class _Bar(Progress):
    """tqdm's, which also draws in notebooks."""

    def __init__(self, tqdm: Any) -> None:
        super().__init__()
        self._bar = tqdm(unit=" calls", leave=False)

    def show(self) -> None:
        self._bar.set_description(self.what, refresh=False)
        self._bar.update(self.calls - self._bar.n)

    def close(self) -> None:
        self._bar.close()


class _Line(Progress):
    """One line of a terminal, drawn anew now and then."""

    def __init__(self) -> None:
        super().__init__()
        self._drawn = 0.0

    def show(self) -> None:
        now = time.monotonic()
        if now - self._drawn > 0.1:
            self._drawn = now
            sys.stderr.write(f"\r\x1b[K{self.what}, {self.calls:,} calls")
            sys.stderr.flush()

    def close(self) -> None:
        sys.stderr.write("\r\x1b[K")
        sys.stderr.flush()


def open_progress(progress: ProgressLike) -> Progress:
    """None: where there is someone to look. True, False, or a function of (what, calls)."""
    if callable(progress):
        return _Told(progress)
    if progress is False or (progress is None and not _watched()):
        return Progress()
    tqdm = _tqdm()
    return _Line() if tqdm is None else _Bar(tqdm)


def _tqdm() -> Optional[Any]:
    try:
        from tqdm.auto import tqdm
    except ImportError:
        return None
    return tqdm


def _watched() -> bool:
    notebook = "ipykernel" in sys.modules
    return notebook or (sys.stderr is not None and sys.stderr.isatty())
