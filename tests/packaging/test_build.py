"""The package builds and installs with a compiler and without one, from what the source distribution contains."""

import importlib.util
import os
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
MISSING = [name for name in ("setuptools", "build") if importlib.util.find_spec(name) is None]
pytestmark = pytest.mark.skipif(bool(MISSING), reason=f"not installed: {', '.join(MISSING)}")

NATIVE = "fedsdg/crypto/backends/_native.abi3.so"
CHECK = """
import fedsdg, json, sys, warnings
warnings.simplefilter("ignore")
from fedsdg import diagnosis
from fedsdg.crypto import backends
assert fedsdg.__file__.startswith(sys.argv[1]), fedsdg.__file__
chosen = backends.choose()
findings = diagnosis.examine()
print(json.dumps([chosen.name, backends.native_problem(), [f.text for f in findings if f.verdict == "broken"]]))
"""


def run(command, cwd, **environment):
    hidden = ("FEDSDG_", "PYTHONPATH", "CC", "CFLAGS", "LDFLAGS")
    clean = {k: v for k, v in os.environ.items() if not k.startswith(hidden)}
    done = subprocess.run(
        [sys.executable, *map(str, command)], cwd=cwd, env=clean | environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    return done.stdout


@pytest.fixture(scope="module")
def sdist(tmp_path_factory):
    """A source distribution, made from a copy of the tree without anything that was ever built in it."""
    tree = tmp_path_factory.mktemp("tree") / "fedsdg"
    built = shutil.ignore_patterns("build", "dist", "*.so", "*.egg-info", "__pycache__", ".*")
    tree.mkdir()
    for item in ROOT.iterdir():
        if item.is_file() and not item.name.startswith("."):
            shutil.copy(item, tree)
    for folder in ("src", "docs", "tests"):
        if (ROOT / folder).is_dir():
            shutil.copytree(ROOT / folder, tree / folder, ignore=built)
    out = tmp_path_factory.mktemp("sdist")
    run(["-m", "build", "--sdist", "--no-isolation", "--outdir", out, tree], cwd=tree)
    (archive,) = out.glob("*.tar.gz")
    return archive


def wheel_from(sdist: Path, folder: Path, **environment: str) -> Path:
    with tarfile.open(sdist) as archive:
        archive.extractall(folder, filter="data")
    (tree,) = folder.iterdir()
    run(["-m", "build", "--wheel", "--no-isolation", "--outdir", folder / "dist", tree], cwd=tree, **environment)
    (wheel,) = (folder / "dist").glob("*.whl")
    return wheel


def install(wheel: Path, folder: Path) -> Path:
    target = folder / "installed"
    quiet = ["--quiet", "--disable-pip-version-check", "--no-deps", "--no-index", "--no-compile"]
    run(["-m", "pip", "install", *quiet, "--target", target, wheel], cwd=folder)
    return target


def look_at(target: Path, folder: Path) -> list:
    import json

    return json.loads(run(["-c", CHECK, str(target)], cwd=folder, PYTHONPATH=str(target)))


def test_the_source_distribution_contains_the_kernel_and_nothing_built(sdist):
    with tarfile.open(sdist) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    native = "src/fedsdg/crypto/backends/native"
    assert {f"{native}/{file}" for file in ("module.c", "batch.c", "batch.h", "kernel.h")} <= names
    assert {"pyproject.toml", "setup.py", "LICENSE", "README.md", "src/fedsdg/py.typed"} <= names
    assert "src/fedsdg/crypto/backends/_native.pyi" in names
    assert not [name for name in names if name.endswith((".so", ".o", ".pyc"))]


@pytest.mark.skipif(not any(map(shutil.which, ("cc", "gcc", "clang"))), reason="no C compiler")
def test_with_a_compiler_the_wheel_has_the_kernel(sdist, tmp_path):
    wheel = wheel_from(sdist, tmp_path)
    assert "cp311-abi3-" in wheel.name
    assert NATIVE in zipfile.ZipFile(wheel).namelist()
    name, problem, broken = look_at(install(wheel, tmp_path), tmp_path)
    ifma = Path("/proc/cpuinfo").exists() and "avx512ifma" in Path("/proc/cpuinfo").read_text().split()
    assert name == ("native" if ifma else "gmpy2"), problem
    assert problem is None or "IFMA" in problem
    assert broken == []


@pytest.mark.parametrize(
    "environment", [{"CC": "/bin/false"}, {"CC": "/no/such/compiler"}, {"FEDSDG_PURE_PYTHON": "1"}], ids=str
)
def test_without_a_compiler_the_wheel_installs_and_gmpy2_serves(sdist, tmp_path, environment):
    wheel = wheel_from(sdist, tmp_path, **environment)
    names = zipfile.ZipFile(wheel).namelist()
    assert NATIVE not in names
    assert "fedsdg/py.typed" in names
    assert not [name for name in names if name.endswith((".so", ".o"))]
    name, problem, broken = look_at(install(wheel, tmp_path), tmp_path)
    assert name == "gmpy2"
    assert "not built" in problem
    assert broken == []
