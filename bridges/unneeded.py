"""Libraries are loaded without what they load in vain.

Some import a large part of the standard library for a case that no node ever meets: at each start of a small
machine these were some seventy modules, a tenth of its time.

Wrinkle: while such a library is loaded, an empty module stands among the loaded ones for each that it does
not need, so that Python finds that and looks no further. Nothing loads these in a thread, so nobody else
meets it.
"""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType


@contextmanager
def without(*names: str, absent: tuple[str, ...] = ()) -> Iterator[None]:
    """Import inside it. `names`: modules that are imported in vain; those of them that are loaded stay so.

    `absent`: modules that look as if they were not installed, whether they are loaded or not.
    """
    hidden = {name: sys.modules.get(name) for name in absent}
    made = {name: ModuleType(name) for name in names if name not in sys.modules}
    sys.modules.update(made)
    sys.modules.update(dict.fromkeys(absent))  # type: ignore[arg-type] # None: as if it were not installed
    try:
        yield
    finally:
        for name in (*made, *absent):
            del sys.modules[name]
        sys.modules.update({name: module for name, module in hidden.items() if module is not None})
