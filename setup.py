"""Builds the optional AVX-512 kernel. Everything else about the package stands in pyproject.toml.

Without a C compiler, or with FEDSDG_PURE_PYTHON=1, the package installs all the same and gmpy2 does the arithmetic.
"""

import os

from setuptools import Extension, setup
from setuptools.command.bdist_wheel import bdist_wheel

SOURCES = "src/fedsdg/crypto/backends/native"
KERNEL = Extension(
    "fedsdg.crypto.backends._native",
    sources=[f"{SOURCES}/module.c", f"{SOURCES}/batch.c"],
    depends=[f"{SOURCES}/batch.h", f"{SOURCES}/kernel.h", f"{SOURCES}/lanes.h"],
    extra_compile_args=["-O3", "-std=gnu11", "-fvisibility=hidden"],
    define_macros=[("Py_LIMITED_API", "0x030B0000")],
    py_limited_api=True,
    optional=True,
)


class Abi3Wheel(bdist_wheel):
    """One wheel for every CPython from 3.11 on."""

    def get_tag(self):
        python, abi, platform = super().get_tag()
        return ("cp311", "abi3", platform) if python.startswith("cp") else (python, abi, platform)


setup(
    ext_modules=[] if os.environ.get("FEDSDG_PURE_PYTHON") else [KERNEL],
    cmdclass={"bdist_wheel": Abi3Wheel},
)
