"""Report duplicate rows."""

from __future__ import annotations

import pandas as pd

from truewood._rows.copies import encode_table, find_copies
from truewood.tabular._messages import Messages


def warn_of_duplicates(X: pd.DataFrame, messages: Messages) -> None:
    """Warn about rows that are copies of others in all columns, see `find_copies`."""
    copies = find_copies(encode_table(X))
    if copies is not None:
        messages.warn(
            f"{copies.n_copies:,} of {len(X):,} rows are duplicates of other rows in all features. Importances and "
            "p-values take this into account, but the measured model performance does not and is too optimistic: "
            "remove the duplicates"
        )
