"""`HTMLViewMixin`: in notebooks, the scores of a fitted estimator appear below scikit-learn's diagram of it."""

from __future__ import annotations

from typing import Any


class HTMLViewMixin:
    """Mixin for estimators, to be listed before those of scikit-learn."""

    def _write_scores(self) -> str:
        """Write the scores as HTML; nothing before the fit."""
        raise NotImplementedError

    def _repr_html_inner(self) -> str:
        return f"{super()._repr_html_inner()}{self._write_scores()}"  # type: ignore[misc]

    def _repr_mimebundle_(self, **kwargs: Any) -> dict[str, str]:
        bundle: dict[str, str] = super()._repr_mimebundle_(**kwargs)  # type: ignore[misc]
        if "text/html" in bundle:
            bundle["text/html"] += self._write_scores()
        return bundle
