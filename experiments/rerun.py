"""Rerun parts of the studies within minutes on a machine with many cores, to merge them with the committed results.

Run: python experiments/rerun.py FOLDER [--seconds 480] [--n-jobs N]

Needs truewood, numpy, scipy, scikit-learn and pandas; designs of other libraries are left out. Each study has a share
of the time, and starts no data set when that is over. FOLDER gets a file per study with a line per data set, from which
another run goes on. To merge them where the results are committed:

    python experiments/calibration/clusters.py --repetitions 0 --add FOLDER/clusters.jsonl
    python experiments/calibration/cross_validation.py --repetitions 0 --add FOLDER/cross_validation.jsonl
    python experiments/calibration/conditions.py --repetitions 0 --add FOLDER/conditions.jsonl
    python experiments/calibration/study.py power --only-summary --add FOLDER/power.jsonl    # null likewise
    python experiments/selection/study.py --datasets 0 --add FOLDER/selection.csv
    python experiments/selection/residual.py --only-summary --add FOLDER/residual.csv
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).parent
# Share of the time, script and options of each study, by the file that is kept.
STEPS: dict[str, tuple[float, str, list[str]]] = {
    "clusters.jsonl": (0.08, "calibration/clusters.py", ["--repetitions=300", "--output=clusters.csv"]),
    "cross_validation.jsonl": (
        0.07,
        "calibration/cross_validation.py",
        ["--repetitions=100", "--output=cross_validation.csv"],
    ),
    "power.jsonl": (
        0.1,
        "calibration/study.py",
        # The designs beside other tests refit the model, and run R.
        ["power", "--repetitions=75", "--without=*beside other tests*", "--folder=."],
    ),
    "conditions.jsonl": (
        0.1,
        "calibration/conditions.py",
        ["--repetitions=150", "--designs=copies, *|balanced*|settled*", "--output=conditions.csv"],
    ),
    "selection.csv": (0.05, "selection/study.py", ["--methods=truewood [us]*", "--results=selection.csv"]),
    "residual.csv": (0.15, "selection/residual.py", ["--datasets=134", "--results=residual.csv"]),
    # Designs of 20,000 rows take too long.
    "null.jsonl": (0.45, "calibration/study.py", ["null", "--repetitions=67", "--without=*20000 rows*", "--folder=."]),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--seconds", type=float, default=480)
    parser.add_argument("--n-jobs", type=int, default=-1, help="processes; all cores by default")
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    start, until, failed = time.monotonic(), 0.0, []
    with tempfile.TemporaryDirectory() as folder:
        for name, (share, script, arguments) in STEPS.items():
            if (options.folder / name).exists():
                shutil.copy(options.folder / name, folder)
            until += share * options.seconds  # a study that ends early leaves its time to the next
            left = start + until - time.monotonic()
            command = [sys.executable, HERE / script, *arguments, f"--seconds={left:.0f}", f"--n-jobs={options.n_jobs}"]
            if subprocess.run(command, cwd=folder, check=False).returncode:
                failed.append(script)
            if (Path(folder) / name).exists():
                shutil.copy(Path(folder) / name, options.folder)
    if failed:
        sys.exit(f"failed: {', '.join(failed)}")


if __name__ == "__main__":
    main()
