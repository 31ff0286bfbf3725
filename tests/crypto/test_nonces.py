"""Every encryption has its own nonce: never twice, not from a prefilled pool, not across threads, not after a fork."""

import contextlib
import os
import subprocess
import sys
import threading

import pytest
from crypto_helpers import textbook_crt_decrypt, values_of

from fedsdg.crypto import Encryptor, Evaluator


def nonces_of(party, array) -> list[int]:
    """c modulo n determines the nonce, whatever the plaintext."""
    return [c % int(party.n) for c in values_of(array.ring, array.rows)]


@pytest.fixture(params=["owner", "public"])
def encryptor(request, party):
    """Each way to draw nonces, with a pool of its own."""
    return Encryptor(party.key if request.param == "owner" else party.key.public_key, party.backend)


def test_no_nonce_repeats_over_thousands(party, encryptor):
    seen = [nonce for _ in range(4) for nonce in nonces_of(party, encryptor.encrypt([0] * 1000))]
    assert len(set(seen)) == 4000


def test_nonces_are_encryptions_of_zero(party, encryptor):
    rows = encryptor._nonces.draw(5)
    assert [textbook_crt_decrypt(party.key, c) for c in values_of(encryptor.ring, rows)] == [0] * 5
    assert all(
        pow(c, (int(party.key.p) - 1) * (int(party.key.q) - 1), int(party.n) ** 2) == 1
        for c in values_of(encryptor.ring, rows)
    )


def test_nonces_of_the_owner_are_n_th_residues_of_both_signs(party):
    """Uniform in all of the group, not in a subgroup: both Legendre symbols occur modulo both primes."""
    nonces = nonces_of(party, party.encryptor.encrypt([0] * 100))
    for prime in (int(party.key.p), int(party.key.q)):
        symbols = [pow(c, (prime - 1) // 2, prime) == 1 for c in nonces]
        assert 15 < sum(symbols) < 85


def test_each_party_derives_its_own_base_for_a_key(party):
    """Two public encryptors share no table: nobody has to trust a base that somebody sent."""
    one, other = (Encryptor(party.key.public_key, party.backend) for _ in range(2))
    tables = [
        values_of(e.ring, e._nonces._table) if party.backend == "native" else e._nonces._table[0] for e in (one, other)
    ]
    assert tables[0][1] != tables[1][1]


@pytest.mark.parametrize("pool", [0, 1, 7, 8, 30])
def test_prefilled_nonces_are_used_once_and_then_fresh_ones_follow(party, encryptor, pool):
    encryptor.prefill(pool)
    seen = [nonce for count in (3, 5, 1, 0, 20) for nonce in nonces_of(party, encryptor.encrypt([9] * count))]
    assert len(set(seen)) == 29
    assert encryptor._nonces._ready is None or pool > 29


def test_prefilled_encryptions_are_correct(party, encryptor):
    encryptor.prefill(4)
    for count in (3, 3, 3):
        array = encryptor.encrypt(list(range(count)))
        assert [textbook_crt_decrypt(party.key, c) for c in values_of(array.ring, array.rows)] == list(range(count))


def test_prefilling_again_repeats_nothing(party, encryptor):
    seen = []
    for _ in range(3):
        encryptor.prefill(10)
        seen += nonces_of(party, encryptor.encrypt([0] * 4))
    assert len(set(seen)) == 12


def test_an_evaluator_and_the_encryptor_it_was_made_from_share_a_pool_but_no_nonce(party):
    encryptor = Encryptor(party.key, party.backend)
    evaluator = Evaluator(encryptor)
    encryptor.prefill(20)
    first = encryptor.encrypt([0] * 5)
    fresh, _ = evaluator.mask(encryptor.encrypt([0] * 5))
    last = encryptor.encrypt([0] * 5)
    seen = [n for array in (first, fresh, last) for n in nonces_of(party, array)]
    assert len(set(seen)) == 15


def test_threads_that_share_a_pool_never_draw_the_same_nonce(party, encryptor, monkeypatch):
    """The worst moment to be interrupted: after choosing rows of the pool, before noting that they are used."""
    encryptor.prefill(16)
    source, ring = encryptor._nonces, encryptor.ring
    original = type(ring).take
    both_inside = threading.Barrier(2)

    def slow_take(self, rows, indices):
        taken = original(self, rows, indices)
        if self is ring:
            with contextlib.suppress(threading.BrokenBarrierError):  # the other has to wait its turn: as it should be
                both_inside.wait(timeout=0.2)
        return taken

    monkeypatch.setattr(type(ring), "take", slow_take)
    drawn: list[int] = []
    threads = [threading.Thread(target=lambda: drawn.extend(values_of(ring, source.draw(4)))) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(drawn) == 8
    assert len(set(drawn)) == 8, "two threads encrypted with the same nonces"


FORK = """
import os, sys, warnings
warnings.simplefilter("ignore")
from fedsdg.crypto import Encryptor, PrivateKey
key = PrivateKey.generate(512, allow_test_size=True)
encryptor = Encryptor(key if sys.argv[2] == "owner" else key.public_key, sys.argv[1])
encryptor.encrypt([0] * 40)  # the pool of threads exists before the fork
encryptor.prefill(64)
n, w = int(key.public_key.n), encryptor.ring.value_bytes
def show(label):
    rows = encryptor.encrypt([0] * 24).rows
    raw = encryptor.ring.dump(rows)
    for i in range(0, len(raw), w):
        os.write(1, f"{label} {int.from_bytes(raw[i:i + w], 'little') % n:x}\\n".encode())
child = os.fork()
if child == 0:
    show("child")
    grandchild = os.fork()
    if grandchild == 0:
        show("grandchild")
        os._exit(0)
    os._exit(os.waitstatus_to_exitcode(os.waitpid(grandchild, 0)[1]))
show("parent")
sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
@pytest.mark.parametrize("holder", ["owner", "public"])
def test_a_forked_child_repeats_none_of_its_parents_nonces(backend, holder):
    done = subprocess.run([sys.executable, "-c", FORK, backend, holder], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    lines = [line.split() for line in done.stdout.splitlines()]
    assert sorted({label for label, _ in lines}) == ["child", "grandchild", "parent"]
    assert len({nonce for _, nonce in lines}) == len(lines) == 72
