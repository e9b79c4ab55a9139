"""Which method keeps the right columns, and at what cost? Data sets with a known answer, see designs.py.

Run: python experiments/selection/study.py [--n-jobs 1] [--datasets 30] [--designs PATTERN] [--methods PATTERN]
[--seconds S] [--results FILE] [--add FILE ...]

Appends a line to results.csv for each missing design, data set and method, one data set of a design at a time, so that
an interrupted run continues where it stopped, and writes summary.csv, methods.csv and selection.png beside
it. `--add` takes lines of other machines in place of those of the same design, data set and method: costs are relative
to a fit that each machine times itself. Remove lines after a change to a method. Data set k of a design always has the
same seed. Each job is a process of its own on one core. requirements.txt has the peers; ranger is that of R.
"""

from __future__ import annotations

import argparse
import csv
import importlib.util
import os
import time
import warnings
from collections.abc import Iterator, Sequence
from fnmatch import fnmatchcase
from itertools import takewhile
from pathlib import Path

import numpy as np
import pandas as pd
from designs import BESIDE, DESIGNS, NOISE, REAL, SIGNAL, Data
from joblib import Parallel, delayed
from methods import NAMES, NoAnswerError, make_forest, run_method, score_by
from sklearn.metrics import get_scorer
from tables import ALL, ORACLE, compare_methods, summarize, write_markdown

KEYS = ["design", "dataset", "method"]
FIELDS = (*KEYS, "seconds", "fit_seconds", "score", SIGNAL, BESIDE, NOISE, REAL, "problem")
Line = dict[str, object]


class Judge:
    """Scores, on the test rows of a data set, of forests that are refit on the columns that were kept."""

    def __init__(self, data: Data, seed: int) -> None:
        self.data, self.seed = data, seed
        self.known: dict[bytes, float] = {}

    def score(self, is_kept: np.ndarray) -> float:
        """The score, or that of a constant if nothing is kept."""
        data, key = self.data, is_kept.tobytes()
        if not is_kept.any():
            return 0.5 if data.has_classes else 1 - np.mean((data.y_test - data.y.mean()) ** 2) / data.y_test.var()
        if key not in self.known:
            forest = make_forest(data.y, self.seed).fit(data.X[:, is_kept], data.y)
            self.known[key] = get_scorer(score_by(data.y))(forest, data.X_test[:, is_kept], data.y_test)
        return self.known[key]


def time_fit(data: Data, seed: int) -> float:
    """CPU seconds of the fit of a forest to all columns."""
    started = time.process_time()
    make_forest(data.y, seed).fit(data.X, data.y)
    return time.process_time() - started


def ask(method: str, data: Data, roles: np.ndarray, seed: int, fit_seconds: float) -> tuple[np.ndarray, float]:
    """Which columns are kept, and what it cost; `ALL` costs one fit, and knowing the signals costs nothing."""
    if method == ORACLE:
        return roles == SIGNAL, 0.0
    if method == ALL:
        return np.ones(len(roles), dtype=bool), fit_seconds
    return run_method(method, data.X, data.y, seed)


def run_one(design: str, number: int, methods: list[str]) -> list[Line]:
    """Select columns of a data set by some methods, and judge what they keep."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the peers, one per fit
        return list(_judge_methods(design, number, methods))


def _judge_methods(design: str, number: int, methods: list[str]) -> Iterator[Line]:
    data = DESIGNS[design].draw(np.random.default_rng([number, *design.encode()]))
    roles = np.array(DESIGNS[design].roles)
    judge, fit_seconds = Judge(data, number), time_fit(data, number)
    for method in methods:
        line: Line = {"design": design, "dataset": number, "method": method, "fit_seconds": f"{fit_seconds:.4g}"}
        try:
            is_kept, seconds = ask(method, data, roles, number, fit_seconds)
        except NoAnswerError as problem:
            yield line | {"problem": str(problem)}
            continue
        counts = {role: int(is_kept[roles == role].sum()) for role in (SIGNAL, BESIDE, NOISE, REAL)}
        yield line | counts | {"seconds": f"{seconds:.4g}", "score": f"{judge.score(is_kept):.5g}"}


def list_missing(results: Path, n_sets: int, designs: str, methods: str) -> Iterator[tuple[str, int, list[str]]]:
    """What is missing from the results, data set by data set of all designs."""
    known = pd.read_csv(results) if results.exists() else pd.DataFrame(columns=FIELDS)
    done = set(zip(known["design"], known["dataset"], known["method"], strict=True))
    for number in range(n_sets):
        for design in DESIGNS:
            if not fnmatchcase(design, designs):
                continue
            asked = [ALL, *([ORACLE] if SIGNAL in DESIGNS[design].roles else [])]
            asked += [name for name in NAMES if fnmatchcase(name, methods)]
            missing = [method for method in asked if (design, number, method) not in done]
            if missing:
                yield design, number, missing


def merge(results: Path, others: Sequence[Path]) -> None:
    """Replace lines of the results by those of other machines, and append those that it lacks."""
    lines = [file.read_text(encoding="utf-8").splitlines() for file in (results, *others)]
    if any(first != lines[0][0] for first, *_ in lines):
        raise ValueError(f"the results must have the columns {', '.join(FIELDS)}")
    by_key = {}
    for line in (line for _, *own in lines for line in own):
        by_key[tuple(next(csv.reader([line]))[: len(KEYS)])] = line
    results.write_text("\n".join([lines[0][0], *by_key.values(), ""]), encoding="utf-8")


def run(results: Path, n_sets: int, designs: str, methods: str, n_jobs: int, seconds: float = float("inf")) -> None:
    """Append what is missing, as far as it can be started within some seconds."""
    if results.exists():  # ignore a truncated line
        os.truncate(results, results.read_bytes().rfind(b"\n") + 1)
    end = time.monotonic() + seconds
    missing = list(list_missing(results, n_sets, designs, methods))
    with results.open("a", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, FIELDS, lineterminator="\n")
        if file.tell() == 0:
            writer.writeheader()
        started = takewhile(lambda _: time.monotonic() < end, missing)
        found = Parallel(n_jobs, return_as="generator")(delayed(run_one)(*place) for place in started)
        for done, lines in enumerate(found, 1):
            writer.writerows(lines)
            file.flush()
            print(f"{done} of {len(missing)}: {missing[done - 1][0]}, data set {missing[done - 1][1]}", flush=True)


def main() -> None:
    """Run what is missing, and write tables and the plot."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--n-jobs", type=int, default=1)
    parser.add_argument("--datasets", type=int, default=30)
    parser.add_argument("--designs", default="*")
    parser.add_argument("--methods", default="*")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="start no data set after so long")
    parser.add_argument("--results", type=Path, default=Path(__file__).parent / "results.csv")
    parser.add_argument("--add", type=Path, nargs="*", default=[], metavar="FILE", help="results of other machines")
    options = parser.parse_args()
    os.environ["TQDM_DISABLE"] = "1"
    if options.add:
        merge(options.results, options.add)
    run(options.results, options.datasets, options.designs, options.methods, options.n_jobs, options.seconds)
    lines, folder = pd.read_csv(options.results), options.results.parent
    summary = summarize(lines)
    table = compare_methods(summary)
    summary.to_csv(folder / "summary.csv", index=False, float_format="%.4g")
    table.to_csv(folder / "methods.csv", index=False, float_format="%.4g")
    if importlib.util.find_spec("matplotlib") is None:
        print("matplotlib is not installed; no plot")
    else:
        from plots import draw_selection

        draw_selection(summary, folder / "selection.png")
    print(write_markdown(pd.read_csv(folder / "methods.csv")))  # the table of docs/selection.md


if __name__ == "__main__":
    main()
