"""What is to be predicted, and which rows have it: classes, numbers, or times until an event."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from truewood.tabular.messages import Messages
from truewood.tabular.roles import Roles
from truewood.tabular.survival_target import read_survival_target
from truewood.tabular.target_column import Target, find_rows_with_target, read_target
from truewood.tabular.wanted_kinds import choose_task


def find_goal(
    table: pd.DataFrame, roles: Roles, task: str | None, kinds: Mapping[str, str], messages: Messages
) -> tuple[NDArray[np.bool_], Target]:
    """Whether each row has a target, and the target of those that have.

    Parameters
    ----------
    table : DataFrame
        All rows.
    roles : Roles
        Which column is the target, and which the event.
    task, kinds : str or None, mapping of str to str
        What was asked for, as of `score_table`.
    messages : Messages
        Hears what was inferred.
    """
    has_target = find_rows_with_target(table, roles.target, messages)
    if roles.event is None:
        given = table[roles.target][has_target].reset_index(drop=True)
        return has_target, read_target(given, roles.target, task or choose_task(kinds, roles.target), messages)
    has_target &= find_rows_with_target(table, roles.event, messages)
    rows = table[has_target].reset_index(drop=True)
    return has_target, read_survival_target(rows, roles.target, roles.event, messages)
