"""The optional C++ kernel; everything else is in pyproject.toml."""

import sys
from glob import glob

from pybind11 import get_include
from setuptools import Extension, setup

# No fused multiply-add: both engines must give the same bits on every machine.
flags = (
    ["/O2", "/std:c++17"]
    if sys.platform == "win32"
    else ["-O3", "-std=c++17", "-ffp-contract=off", "-fvisibility=hidden", "-g0"]
)

setup(
    ext_modules=[
        Extension(
            "truewood.engines._kernel",
            sources=["src/truewood/engines/_kernel.cpp"],
            depends=sorted(glob("src/truewood/engines/*.hpp")),
            include_dirs=[get_include()],
            extra_compile_args=flags,
            language="c++",
            optional=True,
        )
    ]
)
