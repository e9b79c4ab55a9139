"""Unbiased feature importance for tree models.

The usual impurity importance of trees is biased: it evaluates splits on the rows that chose them, so a feature with
many possible splits looks important even if it is pure noise. truewood scores the same splits on out-of-bag or held-out
rows.
"""

from importlib import import_module as _import_module
from importlib.metadata import version as _version
from typing import TYPE_CHECKING

from truewood import adapters
from truewood._exceptions import AdapterError, DeviceMemoryError, DeviceWarning, NativeEngineWarning, TrainingRowsError
from truewood._importance import importance
from truewood._inputs.target import TargetKind
from truewood._measures.registry import measures
from truewood._results.importance_result import ImportanceResult
from truewood._results.scores_with_errors import ClassScores
from truewood._trees.ensemble import TreeEnsemble
from truewood._trees.node_sums import NodeSums
from truewood.adapters import SparkModel, load_spark_model, register_adapter, to_ensemble

if TYPE_CHECKING:
    from truewood import datasets, integrations, tabular, testing
    from truewood._accumulator import ImportanceAccumulator
    from truewood._compare import compare
    from truewood._corrected_importance import corrected_importance
    from truewood._correlated_groups import CorrelatedGroups, correlated_groups
    from truewood._cross_importance import cross_importance
    from truewood._cross_interactions import cross_interactions
    from truewood._estimators.display import ImportanceDisplay
    from truewood._estimators.forests import (
        UnbiasedExtraTreesClassifier,
        UnbiasedExtraTreesRegressor,
        UnbiasedRandomForestClassifier,
        UnbiasedRandomForestRegressor,
    )
    from truewood._estimators.selector import UnbiasedSelector
    from truewood._explain import explain
    from truewood._interactions import interactions
    from truewood._load import load
    from truewood._permutation_test import PermutationTestResult, permutation_test
    from truewood._results.comparison import Comparison
    from truewood._results.explanation import Explanation
    from truewood._results.interactions import Interactions
    from truewood._results.pair_surfaces import JointSurfaces
    from truewood._show_versions import show_versions

__version__ = _version("truewood")

__all__ = [
    "AdapterError",
    "ClassScores",
    "Comparison",
    "CorrelatedGroups",
    "DeviceMemoryError",
    "DeviceWarning",
    "Explanation",
    "ImportanceAccumulator",
    "ImportanceDisplay",
    "ImportanceResult",
    "Interactions",
    "JointSurfaces",
    "NativeEngineWarning",
    "NodeSums",
    "PermutationTestResult",
    "SparkModel",
    "TargetKind",
    "TrainingRowsError",
    "TreeEnsemble",
    "UnbiasedExtraTreesClassifier",
    "UnbiasedExtraTreesRegressor",
    "UnbiasedRandomForestClassifier",
    "UnbiasedRandomForestRegressor",
    "UnbiasedSelector",
    "adapters",
    "compare",
    "corrected_importance",
    "correlated_groups",
    "cross_importance",
    "cross_interactions",
    "datasets",
    "explain",
    "importance",
    "integrations",
    "interactions",
    "load",
    "load_spark_model",
    "measures",
    "permutation_test",
    "register_adapter",
    "show_versions",
    "tabular",
    "testing",
    "to_ensemble",
]


# Names that `importance` does not need are imported on first use, each from its module.
_LAZY = {
    "Comparison": "_results.comparison",
    "CorrelatedGroups": "_correlated_groups",
    "Explanation": "_results.explanation",
    "ImportanceAccumulator": "_accumulator",
    "ImportanceDisplay": "_estimators.display",
    "Interactions": "_results.interactions",
    "JointSurfaces": "_results.pair_surfaces",
    "PermutationTestResult": "_permutation_test",
    "UnbiasedExtraTreesClassifier": "_estimators.forests",
    "UnbiasedExtraTreesRegressor": "_estimators.forests",
    "UnbiasedRandomForestClassifier": "_estimators.forests",
    "UnbiasedRandomForestRegressor": "_estimators.forests",
    "UnbiasedSelector": "_estimators.selector",
    "compare": "_compare",
    "corrected_importance": "_corrected_importance",
    "correlated_groups": "_correlated_groups",
    "cross_importance": "_cross_importance",
    "cross_interactions": "_cross_interactions",
    "explain": "_explain",
    "interactions": "_interactions",
    "load": "_load",
    "permutation_test": "_permutation_test",
    "show_versions": "_show_versions",
}
_LAZY_MODULES = ("datasets", "integrations", "tabular", "testing")


if not TYPE_CHECKING:  # type checkers see the imports above

    def __getattr__(name: str) -> object:
        if name in _LAZY_MODULES:
            return _import_module(f"truewood.{name}")
        if name not in _LAZY:
            raise AttributeError(f"module 'truewood' has no attribute {name!r}")
        globals()[name] = found = getattr(_import_module(f"truewood.{_LAZY[name]}"), name)
        return found


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
