"""The methods to compare, each from data sets to scores by feature."""

from __future__ import annotations

import shutil
import subprocess
from importlib import resources
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor

from truewood._importance import importance
from truewood._paper.data import Problem
from truewood._writing import temporary_folder

BY_Z_SCORE = "UFI, z-score"
OUR_MEASURES = {
    "UFI": "ufi",
    "UFI centered": "ufi_centered",
    "MDI-oob": "mdi_oob",
    "permutation": "permutation",
    BY_Z_SCORE: "ufi",
}
PEERS = {"cforest": "party", "ranger": "ranger"}
INSTALL_PEERS = "apt-get install r-base-core r-cran-party r-cran-ranger"


class PeerError(ValueError):
    """An R package failed."""


def score_in_python(
    problem: Problem, *, methods: list[str], trees: int, depth: int | None, seed: int
) -> dict[str, Any]:
    """Score one forest by SI (scikit-learn's importances) and by truewood's measures."""
    X, owners = problem.encode()
    make = RandomForestClassifier if problem.is_classification else RandomForestRegressor
    forest = make(trees, max_depth=depth, random_state=seed).fit(X, problem.y)
    scores = {}
    for method in methods:
        if method == "SI":
            names = [str(name) for name in problem.X]
            scores[method] = [float(forest.feature_importances_[np.array(owners) == name].sum()) for name in names]
        else:
            is_z = method == BY_Z_SCORE
            result = importance(
                forest,
                X,
                problem.y,
                measure=OUR_MEASURES[method],
                feature_groups=owners,
                inference=is_z,
                random_state=seed,
            )
            scores[method] = (result.z_score if is_z else result.values).tolist()
    return scores


def find_peers() -> dict[str, bool]:
    """Return which of the R packages are installed."""
    if shutil.which("Rscript") is None:
        return dict.fromkeys(PEERS, False)
    code = ";".join(f"cat(requireNamespace('{package}', quietly = TRUE), '\\n')" for package in PEERS.values())
    answer = subprocess.run(["Rscript", "-e", code], capture_output=True, text=True, check=False).stdout.split()
    return {peer: answer[k : k + 1] == ["TRUE"] for k, peer in enumerate(PEERS)}


def score_in_r(
    peer: str, problems: list[Problem], *, seeds: list[int], trees: int, depth: int | None, mincriterion: float
) -> list[list[float]]:
    """Score data sets, each with its seed, by `cforest` or `ranger`; Rscript runs on files."""
    with temporary_folder() as folder:
        for k, problem in enumerate(problems):
            # R cannot use names such as -20; categories become factors, as R users expect.
            table = problem.X.set_axis([f"f{j}" for j in range(problem.X.shape[1])], axis=1)
            target: NDArray[Any] = np.where(problem.y, "yes", "no") if problem.is_classification else problem.y
            table.assign(target=target).to_csv(folder / f"{k}.csv", index=False, float_format="%.17g")
        with resources.as_file(resources.files("truewood._paper") / "peers.R") as script:
            settings = [str(value) for value in (trees, depth or 0, mincriterion, *seeds)]
            run = subprocess.run(
                ["Rscript", str(script), peer, str(folder), *settings], capture_output=True, text=True, check=False
            )
    if run.returncode != 0:
        reason = " ".join(run.stderr.split())[-300:]
        raise PeerError(f"R's {peer} failed: {reason}; run without it: --peers none.")
    scores = [[float("nan")] * problem.X.shape[1] for problem in problems]
    for line in run.stdout.splitlines():
        number, feature, value = line.split(",")
        scores[int(number)][int(feature[1:])] = float(value)
    return scores
