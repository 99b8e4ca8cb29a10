"""What a Python rank tells autolaunch, and hears of it: docs/guides/python.md.

A package of this name that you have installed yourself is imported instead: this one is found by
PYTHONPATH, before what is installed, and steps aside.
"""
import importlib.machinery
import importlib.util
import os
import sys


def _is_ours(entry, this=os.path.dirname(os.path.abspath(__file__))):
    """Whether an entry of sys.path has this package, or a copy of it, as of an outer launch."""
    folder = os.path.join(entry or os.getcwd(), "autolaunch")
    is_copy = os.path.exists(os.path.join(folder, "_rank_session.py"))
    return is_copy or os.path.abspath(folder) == this


def _other():
    """Where the user's own module of this name is; None: there is none."""
    path = [entry for entry in sys.path if isinstance(entry, str) and not _is_ours(entry)]
    for finder in sys.meta_path:
        find = getattr(finder, "find_spec", None)
        if find is None:
            continue
        is_by_path = finder is importlib.machinery.PathFinder
        found = find(__name__, path) if is_by_path else find(__name__, None)
        # A folder without __init__.py is no package where another one is found.
        if found is not None and found.loader is not None and found.has_location:
            return found
    return None


_found = _other()
if _found is not None:
    _module = importlib.util.module_from_spec(_found)
    sys.modules[__name__] = _module  # what the import statement then takes
    _found.loader.exec_module(_module)
else:
    from . import _batch, _data, _rank_session, _recovery
    from ._batch import *  # noqa: F401,F403
    from ._data import *  # noqa: F401,F403
    from ._rank_session import *  # noqa: F401,F403
    from ._recovery import *  # noqa: F401,F403

    __all__ = _batch.__all__ + _data.__all__ + _rank_session.__all__ + _recovery.__all__
