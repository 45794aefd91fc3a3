"""References to objects of others that do not keep them alive."""

import weakref
from typing import Any, Callable


def reference_to(thing: Any) -> Callable[[], Any]:
    """What gives a thing while it is there, then None. One without weak references is kept."""
    try:
        return weakref.ref(thing)
    except TypeError:
        return lambda: thing
