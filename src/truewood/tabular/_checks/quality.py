"""Whether a model predicts well enough for its importances to mean something."""

from __future__ import annotations

import math

from truewood._formatting import format_p_value
from truewood.tabular._checks.performance import ModelPerformance
from truewood.tabular._messages import Messages


def check_quality(
    performance: ModelPerformance | None,
    total_p_value: float,
    messages: Messages,
    *,
    alpha: float,
    may_be_too_deep: bool,
) -> None:
    """Say how well the model predicts, and warn where its importances mean nothing.

    Parameters
    ----------
    performance : ModelPerformance or None
        How well it predicts unseen rows; None where that could not be measured.
    total_p_value : float
        The p-value of all columns together; NaN where there is none.
    messages : Messages
        Hears the verdict.
    alpha : float
        p-values up to this are called significant.
    may_be_too_deep : bool
        Whether nothing but the number of rows limits the depth of the trees.
    """
    if performance is None:
        messages.warn("how well the model predicts could not be measured: too few unseen rows, or all of one class")
        return
    messages.add(str(performance))
    has_test = not math.isnan(total_p_value)
    is_noise = has_test and total_p_value > alpha
    if performance.p_value <= alpha:
        if is_noise:
            messages.warn(f"the splits taken together may be noise (p = {format_p_value(total_p_value)})")
        return
    tested = f"{performance.name} {performance.value:.3f} against {performance.chance:.3f}, one-sided p = {format_p_value(performance.p_value)}"
    if is_noise or not has_test:
        together = f", all columns together p = {format_p_value(total_p_value)}" if has_test else ""
        messages.warn(
            f"the model predicts no better than chance ({tested}{together}); importances of such a model mean nothing"
        )
        return
    hint = "; trees may be too deep for so weak a signal, try max_depth=3" if may_be_too_deep else ""
    messages.warn(
        f"the model predicts no better than chance ({tested}), though its splits hold up on unseen rows (p = "
        f"{format_p_value(total_p_value)}){hint}"
    )
