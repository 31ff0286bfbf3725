"""Which back end runs: the best one here, the one that was asked for, or an error that says why not."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from crypto_helpers import needs_native

from fedsdg.crypto import Encryptor, backends
from fedsdg.crypto.backends import native_ring
from fedsdg.errors import BackendUnavailable, ConfigError

SHOW = """
import warnings
warnings.simplefilter("ignore")
from fedsdg.crypto import Decryptor, Encryptor, PrivateKey
encryptor = Encryptor(PrivateKey.generate(256, allow_test_size=True))
assert Decryptor(encryptor).decrypt(encryptor.encrypt([7])) == [7]
print(encryptor.backend)
"""


def run_with(**environment: str) -> subprocess.CompletedProcess:
    clean = {k: v for k, v in os.environ.items() if k not in (backends.ENVIRONMENT_VARIABLE, "FEDSDG_THREADS")}
    return subprocess.run([sys.executable, "-c", SHOW], env=clean | environment, capture_output=True, text=True)


def test_the_environment_variable_forces_a_back_end(backend):
    done = run_with(FEDSDG_BACKEND=backend)
    assert done.stdout.strip() == backend, done.stderr


@pytest.mark.parametrize("name", ["", "auto"])
def test_an_empty_or_automatic_choice_is_the_default(name):
    assert run_with(FEDSDG_BACKEND=name).stdout.strip() == run_with().stdout.strip() != ""


def test_an_unknown_name_in_the_environment_is_a_clear_error():
    done = run_with(FEDSDG_BACKEND="cuda")
    assert done.returncode != 0
    assert "BackendUnavailable" in done.stderr
    assert "FEDSDG_BACKEND=cuda" in done.stderr
    assert "native, gmpy2" in done.stderr


def test_an_argument_overrides_the_environment(monkeypatch, test_key):
    monkeypatch.setenv(backends.ENVIRONMENT_VARIABLE, "nonsense")
    assert Encryptor(test_key, "gmpy2").backend == "gmpy2"
    with pytest.raises(BackendUnavailable, match="nonsense"):
        Encryptor(test_key)
    with pytest.raises(BackendUnavailable, match="openssl"):
        backends.choose(2048, "openssl")


def no_extension(monkeypatch):
    monkeypatch.setattr(native_ring, "IMPORT_PROBLEM", "No module named _native")


def no_cpu(monkeypatch):
    monkeypatch.setattr(native_ring, "IMPORT_PROBLEM", None)
    monkeypatch.setattr(native_ring, "cpu_supported", lambda: False)


def no_size(monkeypatch):
    monkeypatch.setattr(native_ring, "IMPORT_PROBLEM", None)
    monkeypatch.setattr(native_ring, "cpu_supported", lambda: True)
    monkeypatch.setattr(native_ring, "SIZES", (4,))


@pytest.mark.parametrize(("obstacle", "reason"), [(no_extension, "not built"), (no_cpu, "IFMA"), (no_size, "2048-bit")])
def test_a_forced_native_back_end_that_cannot_run_is_an_error_and_an_unforced_one_falls_back(
    monkeypatch, obstacle, reason
):
    monkeypatch.delenv(backends.ENVIRONMENT_VARIABLE, raising=False)
    obstacle(monkeypatch)
    with pytest.raises(BackendUnavailable, match=reason):
        backends.choose(2048, "native")
    fallback = backends.choose(2048)
    assert fallback.name == "gmpy2"
    assert reason in fallback.reason
    monkeypatch.setenv(backends.ENVIRONMENT_VARIABLE, "native")
    with pytest.raises(BackendUnavailable, match="FEDSDG_BACKEND=native"):
        backends.choose(2048)


def test_without_the_extension_everything_still_works():
    hide = "import sys; sys.modules['fedsdg.crypto.backends._native'] = None\n"
    environment = {k: v for k, v in os.environ.items() if k != backends.ENVIRONMENT_VARIABLE}
    done = subprocess.run([sys.executable, "-c", hide + SHOW], env=environment, capture_output=True, text=True)
    assert done.stdout.strip() == "gmpy2", done.stderr


def test_a_machine_that_can_run_the_native_back_end_does():
    """A silent fallback would cost a factor of ten and no test would notice: this one does."""
    if os.environ.get(backends.ENVIRONMENT_VARIABLE):
        pytest.skip("FEDSDG_BACKEND is set")
    if os.environ.get("FEDSDG_PURE_PYTHON"):
        pytest.skip("FEDSDG_PURE_PYTHON: built without the extension on purpose")
    cpuinfo = Path("/proc/cpuinfo")
    if not cpuinfo.exists() or "avx512ifma" not in cpuinfo.read_text().split():
        pytest.skip("this CPU has no AVX-512 IFMA")
    if not any(shutil.which(compiler) for compiler in ("cc", "gcc", "clang")):
        pytest.skip("no C compiler")
    assert backends.native_problem() is None
    for bits in (256, 512, 1024, 2048, 3072):
        assert backends.choose(bits).name == "native"


@needs_native
def test_every_compiled_size_is_the_same_in_c_and_in_python():
    assert [k for k in range(4097) if native_ring._native.has_size(k)] == list(native_ring.SIZES)


@needs_native
def test_the_multiply_add_can_be_measured():
    assert 0 < native_ring.nanoseconds_per_multiply_add() < 1e6


def test_the_number_of_threads_comes_from_the_call_the_environment_or_the_machine(monkeypatch):
    native_ring.set_thread_count(None)
    try:
        monkeypatch.setenv("FEDSDG_THREADS", "3")
        assert native_ring.thread_count() == 3
        monkeypatch.setenv("FEDSDG_THREADS", "")
        assert native_ring.thread_count() >= 1
        native_ring.set_thread_count(2)
        assert native_ring.thread_count() == 2
    finally:
        native_ring.set_thread_count(None)


@pytest.mark.parametrize("value", ["many", "0", "-2", "1.5", "\u0663"])
def test_an_unusable_number_of_threads_is_refused(monkeypatch, value):
    monkeypatch.setenv("FEDSDG_THREADS", value)
    with pytest.raises(ConfigError, match="FEDSDG_THREADS"):
        native_ring.thread_count()
