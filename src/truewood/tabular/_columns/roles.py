"""Column roles: target, weights, groups, event, dropped, or feature."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from difflib import get_close_matches

import pandas as pd

from truewood._formatting import list_names, quote
from truewood.tabular._errors import TableError


@dataclass(frozen=True)
class Roles:
    """Names of the columns that are not ordinary features.

    Parameters
    ----------
    target : str
        The column to predict.
    sample_weight : str or None
        The column of row weights.
    groups : str or None
        The column that groups rows.
    event : str or None
        The column of event indicators, for survival targets.
    drop : tuple of str
        Columns to drop.
    keep : tuple of str
        Columns to use even if they look like identifiers, target leakage or free text.
    """

    target: str
    sample_weight: str | None = None
    groups: str | None = None
    event: str | None = None
    drop: tuple[str, ...] = ()
    keep: tuple[str, ...] = ()

    def check(self, names: list[str]) -> None:
        """Refuse unknown columns, and roles for the target."""
        check_name(self.target, names, "target")
        single = {"sample_weight": self.sample_weight, "groups": self.groups, "event": self.event}
        roles = {"drop": self.drop, "keep": self.keep}
        roles |= {argument: (name,) for argument, name in single.items() if name is not None}
        for argument, given in roles.items():
            for name in given:
                check_name(name, names, argument)
                if name == self.target:
                    raise TableError(f"{quote(name)} is the target; choose another column.", argument)

    def choose_features(self, table: pd.DataFrame) -> pd.DataFrame:
        """Select the features."""
        absent = {self.target, self.sample_weight, self.groups, self.event, *self.drop}
        return table[[name for name in table if name not in absent]]


def read_roles(
    target: str,
    *,
    sample_weight: str | None,
    groups: str | None,
    event: str | None = None,
    drop: str | Iterable[str],
    keep: str | Iterable[str] = (),
) -> Roles:
    """Read roles as the user passes them: one name or several, which may be numbers in a data frame."""
    weight, groups, happened = (None if name is None else str(name) for name in (sample_weight, groups, event))
    return Roles(str(target), weight, groups, happened, _read_names(drop), _read_names(keep))


def _read_names(given: str | Iterable[str]) -> tuple[str, ...]:
    return (given,) if isinstance(given, str) else tuple(map(str, given))


def check_name(name: str, names: list[str], argument: str) -> None:
    """Refuse an unknown column, and suggest others."""
    if name in names:
        return
    close = get_close_matches(name, names, n=3, cutoff=0.6)
    folded = [known for known in names if known.lower() == name.lower()]
    if close or folded:
        hint = "did you mean " + " or ".join(map(quote, dict.fromkeys([*folded, *close]))) + "?"
    else:
        hint = f"it has {list_names(list(map(quote, names)), 10)}."
    raise TableError(f"the table has no column {quote(name)}; {hint}", argument)
