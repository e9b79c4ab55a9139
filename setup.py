"""Build the optional C++ kernel; pyproject.toml has everything else."""

from glob import glob

from pybind11 import get_include
from pybind11.setup_helpers import ParallelCompile
from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

KERNEL = "src/truewood/_engines/kernel/"
# No fused multiply-add: the native and the numpy engine must agree bit for bit on every machine.
GNU_FLAGS = ["-O3", "-std=c++17", "-ffp-contract=off", "-fvisibility=hidden", "-g0"]
MICROSOFT_FLAGS = ["/O2", "/std:c++17", "/fp:precise", "/EHsc", "/bigobj"]


class BuildKernel(build_ext):
    """Build with flags for the compiler in use, all sources at a time."""

    def build_extensions(self) -> None:
        """Set the flags and build."""
        for extension in self.extensions:
            extension.extra_compile_args = MICROSOFT_FLAGS if self.compiler.compiler_type == "msvc" else GNU_FLAGS
        with ParallelCompile():
            super().build_extensions()


setup(
    cmdclass={"build_ext": BuildKernel},
    ext_modules=[
        Extension(
            "truewood._engines._kernel",
            sources=sorted(glob(KERNEL + "*.cpp")),
            depends=sorted(glob(KERNEL + "*.hpp")),
            include_dirs=[get_include()],
            language="c++",
            optional=True,
        )
    ],
)
