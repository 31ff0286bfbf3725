"""What may be said of every byte that crosses: it is documented, it is fresh, and it carries nobody's secrets."""

from __future__ import annotations

import base64
import logging
import re
import struct
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from privacy_helpers import array_of, byte_fields, ciphertexts, job, nonce_part, residues, watched_run

from fedsdg.client import interactive_share
from fedsdg.client.interactive_share import InteractiveShare
from fedsdg.config import GateSettings
from fedsdg.crypto.layouts import plan_minibatch
from fedsdg.data.feature_table import FeatureTable
from fedsdg.messages import codec
from fedsdg.messages.base import Request
from fedsdg.server import noisy_weights

ROOT = Path(__file__).parents[2]
LAYERS = ["dense", "elementwise", "dense, columns"]

#: Distinctive values: no other computation of the run yields them.
CANARY_FLOATS = (98765.4321098765, -31337.271828182845, 0.12345678901234567, 2718281.828459045)
CANARY_IDS = tuple(8675309001.0 + 7919 * i for i in range(80))
CANARY_COLUMNS = ("canary_salary_zq", "canary_diagnosis_zq")
CANARY_LABELS = ("canary-yes-zq", "canary-no-zq")
CANARY_SEEDS = {name: f"canary private seed of {name}".encode().ljust(32, b"#") for name in ("bank", "shop", "server")}


@pytest.fixture(scope="module", params=LAYERS)
def watched(request):
    """One run per layer, with canaries in every place that must stay private, and all shares noted."""
    stream = np.random.default_rng(2)
    X = stream.standard_normal((80, 8))
    X[:4, 0] = CANARY_FLOATS
    X[:, 1] = CANARY_IDS
    X[:4, 5] = CANARY_FLOATS[::-1]
    labels = np.where(X[:, 2] + X[:, 6] > 0, *CANARY_LABELS)
    tables = {
        "bank": FeatureTable.of(X[:, :4], (CANARY_COLUMNS[0], "bank_canary_id_zq", "bank_zq2", "bank_zq3")),
        "shop": FeatureTable.of(X[:, 4:], (CANARY_COLUMNS[1], "shop_zq1", "shop_zq2", "shop_zq3")),
    }
    with pytest.MonkeyPatch.context() as patch:
        if request.param == "dense, columns":
            for module in (interactive_share, noisy_weights):
                patch.setattr(module, "plan_minibatch", lambda *sizes: plan_minibatch(*sizes, gradient="columns"))
        draw, shares = InteractiveShare._draw, []

        def noted(self, shape):
            shares.append(draw(self, shape))
            return shares[-1]

        patch.setattr(InteractiveShare, "_draw", noted)
        run = watched_run(patch, job(request.param.split(",")[0]), tables, labels, CANARY_SEEDS)
    assert run.error is None
    run.shares = shares
    return run


# --- (a) Documented ------------------------------------------------------------------------------------------------


def test_every_message_that_crosses_says_who_learns_what(watched):
    for kind in {entry.kind for entry in watched.channel.transcript}:
        cls = codec.registered()[kind]
        learner = "Client learns:" if issubclass(cls, Request) else "Server learns:"
        assert learner in (cls.__doc__ or ""), kind


def test_every_message_of_the_protocol_says_who_learns_what():
    for kind, cls in codec.registered().items():
        learner = "Client learns:" if issubclass(cls, Request) else "Server learns:"
        assert learner in (cls.__doc__ or ""), kind


@pytest.mark.parametrize("page", ["protocol.md", "threat_model.md"])
def test_every_message_is_named_in_the_documentation(page):
    text = (ROOT / "docs" / page).read_text(encoding="utf-8")
    for kind in codec.registered():
        assert re.search(rf"\b{kind}\b", text), kind


def test_requests_go_to_clients_and_replies_to_the_server(watched):
    for entry in watched.channel.transcript:
        assert issubclass(codec.registered()[entry.kind], Request) != entry.to_server


# --- (b) Fresh -----------------------------------------------------------------------------------------------------


def views(run):
    yield "server", list(run.channel.view_of_server())
    for client in run.tables:
        yield client, list(run.channel.view_of_client(client))


def test_no_ciphertext_comes_twice_in_the_view_of_a_party(watched):
    for party, view in views(watched):
        counted = Counter(value for _, _, value in ciphertexts(view))
        assert len(counted) > 100, party
        assert counted.most_common(1)[0][1] == 1, party


def test_no_masked_plaintext_comes_twice_in_the_view_of_a_party(watched):
    for party, view in views(watched):
        counted = Counter(value for _, value in residues(view))
        assert counted, party
        assert counted.most_common(1)[0][1] == 1, party


def test_only_the_encrypted_labels_are_the_same_for_several_clients(watched):
    seen: dict[int, str] = {}
    for where, _, value in ciphertexts(watched.channel.transcript):
        if value in seen:
            assert where == seen[value] == "CountLabels.indicators"
        seen[value] = where


def test_no_nonce_comes_twice_under_a_key(watched):
    seen: dict[tuple[bytes, int], int] = {}
    for _, key, c, m in watched.decrypted(watched.channel.transcript):
        nonce = nonce_part(c, m, int(key.n))
        assert nonce != 1
        assert seen.setdefault((key.fingerprint, nonce), c) == c  # the same nonce only in the same (label) ciphertext
    assert len(seen) > 500


def test_keys_and_run_ids_are_fresh_in_every_run(watched, monkeypatch):
    again = watched_run(monkeypatch, watched.config, watched.tables, watched.labels, watched.seeds)
    assert not set(again.decryptors()) & set(watched.decryptors())
    ids = {e.message().run_id for run in (watched, again) for e in run.channel.transcript if e.kind == "JoinRun"}
    assert len(ids) == 2


def test_the_same_seeds_never_send_the_same_ciphertexts_or_noisy_weights_again(watched, monkeypatch):
    again = watched_run(monkeypatch, watched.config, watched.tables, watched.labels, watched.seeds)
    assert again.result.losses == watched.result.losses
    sent = [{value for _, _, value in ciphertexts(run.channel.transcript)} for run in (again, watched)]
    assert not sent[0] & sent[1]
    noisy = [
        {w for e in run.channel.transcript if e.kind == "PhaseStarted" for w in e.message().noisy_weights}
        for run in (again, watched)
    ]
    assert not noisy[0] & noisy[1]


# --- (c) Nobody's secrets ------------------------------------------------------------------------------------------


def wrapped(raw: bytes) -> set[bytes]:
    """The same bytes in every dress that a serialiser might use."""
    dresses = {raw, raw[::-1], raw.hex().encode(), raw.hex().upper().encode(), repr(raw)[2:-1].encode()}
    for lead in range(3):  # base64 depends on the position modulo three: keep the part that does not
        text = base64.b64encode(bytes(lead) + raw)
        dresses.add(text[(lead * 8 + 5) // 6 : -4])
        dresses.add(base64.urlsafe_b64encode(bytes(lead) + raw)[(lead * 8 + 5) // 6 : -4])
    return {dress for dress in dresses if len(dress) >= 6}


def of_text(text: str) -> set[bytes]:
    return {dress for name in ("utf-8", "utf-16-le", "utf-16-be", "utf-32-le") for dress in wrapped(text.encode(name))}


def of_integer(value: int) -> set[bytes]:
    value = abs(int(value))
    raw = value.to_bytes((value.bit_length() + 7) // 8, "little")
    found = wrapped(str(value).encode()) | wrapped(f"{value:x}".encode())
    if len(raw) >= 6:
        found |= wrapped(raw)
    for width in (8, 16):
        if value < 1 << (8 * width - 1):
            for signed in (value, -value):
                found |= wrapped(signed.to_bytes(width, "little", signed=True))
    return {dress for dress in found if len(dress) >= 6}


def of_float(value: float) -> set[bytes]:
    """As text, in double precision in either byte order, and in fixed point at every scale of the protocol."""
    texts = {repr(value), f"{value:.6f}", f"{value:.8g}", f"{value:.10e}", f"{value:.4f}"}
    found = {dress for text in texts for dress in wrapped(text.encode())}
    for code in ("<d", ">d"):
        found |= wrapped(struct.pack(code, value))
    for bits in (12, 14, 16, 24, 32, 36, 48, 50):
        found |= of_integer(round(value * 2**bits))
    return {dress for dress in found if len(dress) >= 6 and dress.strip(b"\0")}


def secrets_of(run) -> dict[str, set[bytes]]:
    """Everything that must stay where it is, by name and in all encodings."""
    secrets = {f"value {v!r}": of_float(v) for v in (*CANARY_FLOATS, *CANARY_IDS[:3])}
    secrets |= {f"column {name}": of_text(name) for table in run.tables.values() for name in table.columns}
    secrets |= {f"label {name}": of_text(name) for name in CANARY_LABELS}
    for party, seed in run.seeds.items():
        secrets[f"seed of {party}"] = wrapped(seed) | of_integer(int.from_bytes(seed, "little"))
        secrets[f"seed of {party}"] |= of_integer(int.from_bytes(seed, "big"))
    for i, decryptor in enumerate(run.decryptors().values()):
        for prime in decryptor._owner.primes:
            secrets.setdefault(f"prime of key {i}", set()).update(of_integer(prime) | of_integer(prime - 1))
    for i, share in enumerate(run.shares):
        secrets[f"share {i}"] = of_integer(share.ravel()[i % share.size])  # one of each draw: the search takes time
    for (phase, client), weights in run.first_weights.items():
        for w in weights.ravel().tolist():
            secrets.setdefault(f"first weights of {client}, {phase}", set()).update(of_integer(w))
    for client, role in run.roles.items():
        gini = role.state.local.gini_scores
        for score in [*gini.scores.tolist(), gini.label_impurity]:
            secrets.setdefault(f"Gini scores of {client}", set()).update(wrapped(struct.pack("<d", score)))
    return secrets


def leaks(blobs: list[bytes], secrets: dict[str, set[bytes]]) -> set[str]:
    haystack = b"\0\xff\0".join(blobs)
    return {name for name, dresses in secrets.items() if any(dress in haystack for dress in dresses)}


def test_no_secret_crosses_in_any_encoding(watched):
    secrets = secrets_of(watched)
    assert len(secrets) > 20
    assert leaks([entry.blob for entry in watched.channel.transcript], secrets) == set()


def test_the_search_for_secrets_finds_every_one_that_is_planted(watched):
    blobs = [entry.blob for entry in watched.channel.transcript][:40]
    for name, dresses in secrets_of(watched).items():
        for dress in sorted(dresses)[:: max(1, len(dresses) // 8)]:
            assert name in leaks([*blobs, b"before" + dress + b"after"], {name: dresses})


def test_a_double_in_a_message_is_found():
    for value in CANARY_FLOATS:
        assert leaks([codec.encode(codec.registered()["GateCounts"](1, (value,), 1))], {"x": of_float(value)}) == {"x"}
        fixed = np.array([1, round(value * 2**36), 3])
        assert leaks([codec.encode(codec.registered()["PrepareColumns"](fixed))], {"x": of_float(value)}) == {"x"}


def test_no_plaintext_of_a_client_is_its_data(watched):
    """Even under encryption only quantised embeddings and shares travel: no canary value, at any scale."""
    scaled = {round(v * 2**bits) for v in (*CANARY_FLOATS, *CANARY_IDS) for bits in (0, 12, 14, 24, 36)}
    numbers = {v for v in scaled if abs(v) > 1000}
    for _, key, _, m in watched.decrypted(watched.channel.transcript):
        assert m not in numbers
        assert m - int(key.n) not in numbers


def test_the_logs_carry_no_secret(caplog, monkeypatch):
    with caplog.at_level(logging.DEBUG):
        run = watched_run(monkeypatch, job(), seeds=CANARY_SEEDS)
        for role in run.roles.values():
            role.answer(b"nonsense")
    run.shares = []
    assert "refused a request" in caplog.text
    assert not leaks([caplog.text.encode()], {k: v for k, v in secrets_of(run).items() if "value" not in k})


def test_reprs_of_what_parties_hold_show_no_seed_and_no_prime(watched):
    for name, role in watched.roles.items():
        keys = role.state.joined.keys
        shown = repr(role.state.local.streams) + repr(keys.encryptor.key) + repr(watched.federation._keys[name])
        assert not leaks(
            [shown.encode()], {k: v for k, v in secrets_of(watched).items() if k.startswith(("seed", "prime"))}
        )


# --- Numbers that may cross ----------------------------------------------------------------------------------------


def test_the_server_is_told_numbers_of_gates_and_nothing_more(watched):
    for entry in watched.channel.view_of_server():
        message = entry.message()
        if entry.kind == "GateCounts":
            assert message.open_means == ()
        if entry.kind == "PhaseStarted":
            assert message.width <= watched.config.gated_phase.embedding


def test_gate_values_cross_only_when_a_number_of_features_is_wished_for(monkeypatch):
    run = watched_run(monkeypatch, job(n_features=3))
    assert run.error is None
    reports = [e.message() for e in run.channel.view_of_server() if e.kind == "GateCounts"]
    assert any(report.open_means for report in reports)
    for report in reports:
        assert list(report.open_means) == sorted(report.open_means, reverse=True)  # sorted: positions are not told


def test_without_gini_no_label_crosses_in_algorithm_one(monkeypatch):
    run = watched_run(monkeypatch, job(gates=GateSettings(initialization="constant")))
    assert run.error is None
    assert not {"CountLabels", "FinishScores"} & {e.kind for e in run.channel.transcript}


def test_all_bytes_of_all_messages_are_accounted_for(watched):
    """Every bytes field is an encrypted array, residues, a public key or the run's id: nothing else can hide in it."""
    assert list(residues(watched.channel.transcript))  # raises for an unknown field
    kinds = Counter(
        "array" if array_of(blob) else "other" for e in watched.channel.transcript for _, blob in byte_fields(e)
    )
    assert kinds["array"] > 50
