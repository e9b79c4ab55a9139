"""Optional libraries: which are not installed, and the extra of truewood that installs them."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.util import find_spec

# Libraries whose names differ from those of their modules.
_NAMES = {"sksurv": "scikit-survival"}


def explain_missing(needs: str, modules: Sequence[str], extra: str) -> str | None:
    """Explain in a sentence which libraries are not installed; None if all are.

    Parameters
    ----------
    needs : str
        Begins the sentence, such as "Parquet files need".
    modules : sequence of str
        The modules of the libraries.
    extra : str
        The extra that installs them.

    Examples
    --------
    >>> from truewood._extras import explain_missing
    >>> explain_missing("the check needs", ["numpy", "no_such_library"], "cli")
    "the check needs no_such_library, which is not installed: pip install 'truewood[cli]'."
    """
    missing = [module for module in modules if find_spec(module) is None]
    return describe_missing(needs, missing, extra) if missing else None


def describe_missing(needs: str, missing: Sequence[str], extra: str) -> str:
    """Write in a sentence that libraries are not installed; arguments as in `explain_missing`."""
    names = " and ".join(_NAMES.get(module, module) for module in missing)
    return (
        f"{needs} {names}, which {'is' if len(missing) == 1 else 'are'} not installed: pip install 'truewood[{extra}]'."
    )
