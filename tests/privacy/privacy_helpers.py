"""A masked run under full observation: every byte, what each party decrypts, and the truth that nobody holds.

`findings` runs all attacks and checks over such a run and names what it found. On the real code it finds nothing; the
mutation tests show that each entry can be found.
"""

from __future__ import annotations

import hashlib
import json
import math
import struct
from collections.abc import Iterator
from dataclasses import dataclass, field, fields
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
from gmpy2 import gcd, invert, mpz, powmod

from fedsdg.client.interactive_share import DenseShare, ElementwiseShare
from fedsdg.client.role import ClientRole
from fedsdg.client.state import ClientState
from fedsdg.config import PhaseSettings, TrainingConfig, ValidationSettings
from fedsdg.crypto import Decryptor, PublicKey
from fedsdg.data.feature_table import FeatureTable
from fedsdg.errors import FedSDGError, SlotOverflow
from fedsdg.learning.client_learner import ClientLearner
from fedsdg.learning.local_client import LocalClient
from fedsdg.learning.plain_training import PlainModel, train_plain
from fedsdg.learning.randomness import RandomStreams
from fedsdg.learning.schedule import PhasePlan
from fedsdg.learning.training_result import TrainingResult
from fedsdg.learning.two_phase_training import train
from fedsdg.messages.session import JoinRun
from fedsdg.runtime.transcript import Entry, RecordingChannel
from fedsdg.server.federation import MaskedFederation

torch.set_num_threads(1)

BITS, SIGMA = 512, 64
#: A true statement is rejected once in ten million tests.
ALPHA = 1e-7

RESIDUE_FIELDS = {("FinishScores", "sums"), ("MaskedSum", "values"), ("ShareUpdate", "update")}
OTHER_BYTES = {
    ("Joined", "public_key"),
    ("JoinRun", "server_key"),
    ("JoinRun", "run_id"),
    ("JoinRun", "row_check"),
}


# --- Statistics that can fail --------------------------------------------------------------------------------------


def ks_distance(sample: list[float] | np.ndarray) -> float:
    """Largest distance between the empirical distribution and the uniform one on [0, 1)."""
    x = np.sort(np.clip(np.asarray(sample, np.float64), 0.0, 1.0))
    n = len(x)
    return float(max(np.max(np.arange(1, n + 1) / n - x), np.max(x - np.arange(n) / n)))


def ks_limit(n: int) -> float:
    """A uniform sample of that size stays below (Dvoretzky-Kiefer-Wolfowitz), but for one case in 1 / ALPHA."""
    return math.sqrt(math.log(2 / ALPHA) / (2 * n))


def is_uniform(sample: list[float] | np.ndarray) -> bool:
    return ks_distance(sample) < ks_limit(len(sample))


def same_distribution(a: np.ndarray, b: np.ndarray) -> bool:
    """Two-sample Kolmogorov-Smirnov test."""
    both = np.concatenate([a, b])
    distance = np.max(
        np.abs(
            np.searchsorted(np.sort(a), both, side="right") / len(a)
            - np.searchsorted(np.sort(b), both, side="right") / len(b)
        )
    )
    return bool(distance < math.sqrt(math.log(2 / ALPHA) / 2) * math.sqrt((len(a) + len(b)) / (len(a) * len(b))))


def uncorrelated(a: np.ndarray, b: np.ndarray) -> bool:
    """Whether a correlation is within 5.3 standard deviations of none."""
    a, b = a - a.mean(), b - b.mean()
    return bool(abs(a @ b) < 5.3 / math.sqrt(len(a)) * np.linalg.norm(a) * np.linalg.norm(b))


# --- What is in the bytes ------------------------------------------------------------------------------------------


def array_of(blob: bytes) -> tuple[bytes, tuple[int, ...], list[int]] | None:
    """Parse the wire form of an encrypted array: key fingerprint, shape, ciphertexts. None if it is something else."""
    if blob[:4] != b"FSEA" or len(blob) < 22:
        return None
    dimensions = blob[5]
    shape = struct.unpack_from(f"<{dimensions}I", blob, 22)
    body, count = blob[22 + 4 * dimensions :], math.prod(shape)
    width = len(body) // count
    assert width * count == len(body)
    return blob[6:22], shape, [int.from_bytes(body[i : i + width], "little") for i in range(0, len(body), width)]


def byte_fields(entry: Entry) -> Iterator[tuple[str, bytes]]:
    message = entry.message()
    for f in fields(message):  # type: ignore[arg-type]
        value = getattr(message, f.name)
        if isinstance(value, bytes):
            yield f.name, value


def ciphertexts(entries: Iterator[Entry] | list[Entry]) -> Iterator[tuple[str, bytes, int]]:
    """Every ciphertext of a view: (message.field, key fingerprint, number)."""
    for entry in entries:
        for name, blob in byte_fields(entry):
            parsed = array_of(blob)
            if parsed is not None:
                for value in parsed[2]:
                    yield f"{entry.kind}.{name}", parsed[0], value


def residues(entries: Iterator[Entry] | list[Entry], width: int = BITS // 8) -> Iterator[tuple[str, int]]:
    """Every masked plaintext of a view: (message.field, number)."""
    for entry in entries:
        for name, blob in byte_fields(entry):
            if array_of(blob) is not None:
                continue
            if (entry.kind, name) in RESIDUE_FIELDS:
                for i in range(0, len(blob), width):
                    yield f"{entry.kind}.{name}", int.from_bytes(blob[i : i + width], "little")
            else:
                assert (entry.kind, name) in OTHER_BYTES, f"unknown bytes in {entry.kind}.{name}"


def nonce_part(ciphertext: int, plaintext: int, n: int) -> int:
    """r^n of a ciphertext (1 + n)^m r^n: the same for two ciphertexts only if they share their nonce."""
    return int(mpz(ciphertext) * (1 - mpz(plaintext) * n) % (mpz(n) * n))


# --- A run under observation ---------------------------------------------------------------------------------------


@dataclass
class ForwardLook:
    """A2.3 at a client: what it decrypts, without what it knows itself (G E)."""

    layout: Any
    counts: list[int]  # samples in each block
    outputs: int
    rest: list[int]  # (Dec(C1) - G E) mod n
    n: int
    G: np.ndarray


@dataclass
class Step:
    """One backward pass: what the server holds, and the truth."""

    phase: str
    client: str
    noisy: np.ndarray  # W~ before
    weights: np.ndarray  # W = W~ - E before
    Z: np.ndarray


@dataclass
class Run:
    """A masked run and all there is to know about it."""

    config: TrainingConfig
    tables: dict[str, FeatureTable]
    labels: np.ndarray
    seeds: dict[str, bytes]
    roles: dict[str, ClientRole]
    channel: RecordingChannel
    federation: MaskedFederation | None = None
    result: TrainingResult | None = None
    error: FedSDGError | None = None
    steps: list[Step] = field(default_factory=list)
    looks: list[ForwardLook] = field(default_factory=list)
    updates: list[tuple[Any, int, int, int]] = field(default_factory=list)  # (layout, slots, Dec(C2), n)
    gradients: list[tuple[str, np.ndarray]] = field(default_factory=list)  # (client, dL/dG)
    first_weights: dict[tuple[str, str], np.ndarray] = field(default_factory=dict)  # (phase, client) -> W0

    def plain(self) -> PlainModel:
        return train_plain(self.tables, self.labels, self.config, private_seeds=self.seeds)

    def decryptors(self) -> dict[bytes, Decryptor]:
        """Every key of the run, by fingerprint."""
        assert self.federation is not None
        found = [self.federation._decryptor]
        found += [role.state.joined.keys.decryptor for role in self.roles.values()]
        return {d.key.fingerprint: d for d in found}

    def decrypted(self, entries: Iterator[Entry] | list[Entry]) -> Iterator[tuple[str, PublicKey, int, int]]:
        """Every ciphertext of a view with its plaintext: (message.field, key, ciphertext, plaintext)."""
        decryptors = self.decryptors()
        for entry in entries:
            for name, blob in byte_fields(entry):
                parsed = array_of(blob)
                if parsed is None:
                    continue
                decryptor = decryptors[parsed[0]]
                plain = decryptor.decrypt(decryptor.load(blob, parsed[1]))
                for c, m in zip(parsed[2], plain, strict=True):
                    yield f"{entry.kind}.{name}", decryptor.key, c, int(m)


class WatchedFederation(MaskedFederation):
    """The server, with somebody who looks over its shoulder and over the clients'."""

    run: Run

    def start_phase(self, plan, clients):
        widths = super().start_phase(plan, clients)
        for name in clients:
            share = self.run.roles[name].state.share.share
            self.run.first_weights[plan.name, name] = self.weights[name].noisy - share
        return widths

    def forward(self, rows, step, purpose):
        Z = super().forward(rows, step, purpose)
        if purpose == "training":
            for name, weights in self.weights.items():
                noisy, share = weights.noisy.copy(), self.run.roles[name].state.share.share
                self.run.steps.append(Step(self._phase, name, noisy, noisy - share, Z[name]))
        return Z


def spy(monkeypatch, run: Run) -> None:
    """Note what clients decrypt, without changing what they do."""
    for kind in (DenseShare, ElementwiseShare):
        original_remove, original_update, original_gradient = kind.remove, kind.update, kind.gradient

        def remove(self, product, tau, original=original_remove):
            plan, n = self.plan, int(self.key.n)
            shape = array_of(product)[1]
            values = self.keys.decryptor.decrypt(self.keys.decryptor.load(product, shape))
            outputs = shape[1]
            rest = []
            for i in range(shape[0]):
                for o in range(outputs):
                    if isinstance(self, DenseShare):
                        GE = sum(p * e for p, e in zip(self._packed[i], self.share[:, o].tolist(), strict=True))
                    else:
                        GE = self._packed[i][o] * self.share[o]
                    rest.append(int((values[i * outputs + o] - GE) % n))
            counts = [rows.stop - rows.start for rows in plan.forward_blocks]
            run.looks.append(ForwardLook(plan.forward, counts, outputs, rest, n, self._batch.copy()))
            return original(self, product, tau)

        def update(self, blob, original=original_update):
            parsed = array_of(blob)
            if parsed is not None and parsed[0] == self.key.fingerprint:
                plan = self.plan
                values = self.keys.decryptor.decrypt(self.keys.decryptor.load(blob, parsed[1]))
                each = len(values) // len(plan.update_blocks)
                for i, value in enumerate(values):
                    columns = plan.update_blocks[i // each]
                    count = columns.stop - columns.start
                    run.updates.append((plan.update, count, int(value), int(self.key.n)))
            return original(self, blob)

        def gradient(self, blob, original=original_gradient):
            dG = original(self, blob)
            name = next(c for c, r in run.roles.items() if r.state.shares.get(r.state.phase) is self)
            run.gradients.append((name, dG))
            return dG

        monkeypatch.setattr(kind, "remove", remove)
        monkeypatch.setattr(kind, "update", update)
        monkeypatch.setattr(kind, "gradient", gradient)


def job(interactive: str = "dense", **changes) -> TrainingConfig:
    sizes = {"hidden": (8,), "embedding": 4, "outputs": 4, "batch_size": 20, "top_hidden": (8,)}
    return TrainingConfig(
        **{
            "interactive": interactive,
            "gated_phase": PhaseSettings(steps=20, **sizes),
            "compact_phase": PhaseSettings(steps=14, **sizes),
            "validation": ValidationSettings(every=10),
            "seed": 20240817,
            **changes,
        }
    )


def party_tables(n_rows: int = 80) -> tuple[dict[str, FeatureTable], np.ndarray]:
    stream = np.random.default_rng(11)
    X = stream.standard_normal((n_rows, 8))
    labels = np.where(X[:, 0] + X[:, 5] > 0, "granted", "denied")
    return {"bank": FeatureTable.of(X[:, :4]), "shop": FeatureTable.of(X[:, 4:])}, labels


def watched_run(
    monkeypatch,
    config: TrainingConfig | None = None,
    tables: dict[str, FeatureTable] | None = None,
    labels: np.ndarray | None = None,
    seeds: dict[str, bytes] | None = None,
) -> Run:
    """Run a job under observation. An error of the run is kept, not raised."""
    config = config or job()
    if tables is None or labels is None:
        tables, labels = party_tables()
    seeds = seeds or {name: f"private seed of {name}".encode().ljust(32, b"~") for name in (*tables, "server")}
    roles = {
        name: ClientRole(ClientState(LocalClient(name, table, seeds[name]), minimum_key_bits=256, allow_test_keys=True))
        for name, table in tables.items()
    }
    run = Run(config, tables, labels, seeds, roles, RecordingChannel(roles))
    spy(monkeypatch, run)
    try:
        run.federation = WatchedFederation(
            run.channel,
            list(tables),
            config,
            key_bits=BITS,
            sigma=SIGMA,
            n_rows=len(labels),
            allow_test_keys=True,
        )
        run.federation.run = run
        run.result = train(run.federation, labels, config, seeds["server"])
    except FedSDGError as error:
        run.error = error
    return run


# --- Attacks and checks --------------------------------------------------------------------------------------------


def share_bits(run: Run) -> int:
    """What the design asks for, whatever the code under test does."""
    return run.config.fixed_point.weight_bits + SIGMA


def place_in_share(run: Run, noisy: np.ndarray) -> np.ndarray:
    """Where noisy weights lie in the range of the share: uniform in [0, 1) if the share hides them."""
    bits = share_bits(run)
    offset = (2 << bits) if run.config.interactive == "elementwise" else 0
    return np.array([(int(w) - offset + (1 << bits)) / (2 << bits) for w in noisy.ravel()])


def public_seeds(invitation: JoinRun) -> list[bytes]:
    """Whatever everybody knows, made into a seed in every way that a programmer might."""
    joint = json.loads(invitation.settings)["seed"]
    texts = [str(joint).encode(), invitation.settings.encode(), invitation.run_id, invitation.server_key, b"0", b""]
    plain = [
        joint.to_bytes(32, "little"),
        joint.to_bytes(32, "big"),
        joint.to_bytes(16, "little"),
        bytes(32),
        bytes(16),
    ]
    hashed = [hashlib.sha256(text).digest() for text in texts]
    padded = [text[:32].ljust(32, b"\0") for text in texts]
    return [seed for seed in (*plain, *hashed, *padded) if len(seed) >= 16]


def recomputed_first_weights(run: Run, phase: str, client: str) -> list[np.ndarray]:
    """W0 as somebody outside the client would draw it from public data."""
    assert run.result is not None
    invitation = next(e.message() for e in run.channel.view_of_client(client) if e.kind == "JoinRun")
    truth = run.first_weights[phase, client]
    columns = sum(table.n_columns for table in run.tables.values())
    plan = PhasePlan(phase, run.config, len(run.tables), columns, len(run.result.train_rows), 1)  # type: ignore[arg-type]
    drawn = []
    for seed in public_seeds(invitation):
        for path in ((), ("client", client), ("server",)):
            for streams in (RandomStreams(seed, path), RandomStreams(seed, path).derive(phase)):
                outsider = SimpleNamespace(_streams=streams, width=truth.shape[0], plan=plan)
                drawn.append(ORIGINAL_INITIAL_WEIGHTS(outsider))
    return drawn


ORIGINAL_INITIAL_WEIGHTS = ClientLearner.initial_weights


def readable(layout: Any, rows: list[int], count: int, n: int) -> bool:
    """Whether these plaintexts unpack into slots: they do not unless a mask is missing."""
    try:
        layout.unpack_rows(rows, count, n)
    except SlotOverflow:
        return False
    return True


def gcd_of_columns(values: np.ndarray) -> list[int]:
    out = []
    for column in values.T.tolist():
        g = mpz(0)
        for v in column:
            g = gcd(g, mpz(v))
        out.append(int(g))
    return out


def findings(run: Run) -> set[str]:
    """Run every attack; return the names of those that succeed."""
    found: set[str] = set()
    if run.error is not None:
        return {"the result is not exact"}
    assert run.result is not None
    plain = run.plain().result
    if run.result.losses != plain.losses or run.result.scores != plain.scores:
        found.add("the result is not exact")

    noisy = np.concatenate([place_in_share(run, s.noisy) for s in run.steps])
    weights = np.concatenate([s.weights.ravel() for s in run.steps]).astype(float)
    if not is_uniform(noisy):
        found.add("W~ does not hide W")
    if not uncorrelated(noisy, weights):
        found.add("W~ does not hide W")
    first = np.concatenate([place_in_share(run, s.noisy) for s in run.steps[: len(run.tables)]])
    if not is_uniform(first) or np.min(np.abs(first - 0.5)) < 2.0**-35:  # a uniform share is never that close to 0
        found.add("the first W~ does not hide W0")
    before, after = [], []
    for client in run.tables:
        chain = [place_in_share(run, s.noisy) for s in run.steps if s.client == client]
        for a, b in zip(chain, chain[1:], strict=False):
            if a.shape == b.shape:
                before.append(a)
                after.append(b)
    if not uncorrelated(np.concatenate(before), np.concatenate(after)):
        found.add("W~ of one step tells about the next")
    for (phase, client), truth in run.first_weights.items():
        if any(np.array_equal(w, truth) for w in recomputed_first_weights(run, phase, client)):
            found.add("W0 follows from public data")

    found |= _masks(run)
    found |= _greatest_common_divisors(run)
    found |= _nonces(run)
    return found


def _masks(run: Run) -> set[str]:
    found = set()
    tops: list[float] = []
    for look in run.looks:
        tops += [value / look.n for value in look.rest]
        for i, count in enumerate(look.counts):
            if readable(look.layout, look.rest[i * look.outputs : (i + 1) * look.outputs], count, look.n):
                found.add("a client reads G W from C1")
    if not is_uniform(tops):
        found.add("C1 is not uniform")
    if run.updates and not is_uniform([value / n for _, _, value, n in run.updates]):
        found.add("C2 is not uniform")
    if any(readable(layout, [value], count, n) for layout, count, value, n in run.updates):
        found.add("a client reads G^T D from C2")
    return found


def _greatest_common_divisors(run: Run) -> set[str]:
    """Exact integer products give their factors away; a dither 20 bits below the unit takes that away."""
    found = set()
    if run.config.interactive != "elementwise":
        return found
    for step in run.steps[: len(run.tables)]:
        if any(g == abs(int(w)) for g, w in zip(gcd_of_columns(step.Z), step.weights, strict=True)):
            found.add("the server reads w as a gcd of Z")
    for (name, dG), step in zip(run.gradients, run.steps, strict=True):
        assert name == step.client
        if any(g % abs(int(w)) == 0 for g, w in zip(gcd_of_columns(dG), step.weights, strict=True) if g):
            found.add("a client reads w as a gcd of dL/dG")
    return found


def _nonces(run: Run) -> set[str]:
    """Nonces of all ciphertexts of the run, and whether a result's nonce is the product of its inputs' nonces."""
    found = set()
    seen: set[tuple[bytes, int]] = set()
    indicators: set[int] = set()
    for where, key, c, m in run.decrypted(run.channel.transcript):
        nonce = nonce_part(c, m, int(key.n))
        if where == "CountLabels.indicators" and c in indicators:
            continue  # encrypted once, sent to every client
        if where == "CountLabels.indicators":
            indicators.add(c)
        if nonce == 1 or (key.fingerprint, nonce) in seen:
            found.add("a nonce is missing or repeats")
        seen.add((key.fingerprint, nonce))
    if forward_nonce_is_explained(run):
        found.add("C1 is not re-randomised")
    return found


def forward_nonce_is_explained(run: Run) -> bool:
    """The client's test of a guess of W~: the nonces of [[G]], which it chose, raised to W~ and multiplied."""
    client = next(iter(run.tables))
    entries = [e for e in run.channel.transcript if e.client == client]
    at = next(i for i, e in enumerate(entries) if e.kind == "EncryptedEmbedding")
    pairs = [
        [
            (c, m)
            for where, _, c, m in run.decrypted([entry])
            if where in ("EncryptedEmbedding.by_column", "RemoveShare.product")
        ]
        for entry in entries[at : at + 2]
    ]
    n = int(run.roles[client].state.joined.keys.encryptor.key.n)
    inputs, results = ([nonce_part(c, m, n) for c, m in part] for part in pairs)
    step = next(s for s in run.steps if s.client == client)
    if run.config.interactive == "elementwise":
        guess = powmod(inputs[0], int(step.noisy[0]), n * n)
    else:
        guess = mpz(1)
        for base, w in zip(inputs, step.noisy[:, 0].tolist(), strict=False):
            guess = guess * (powmod(base, w, n * n) if w >= 0 else invert(powmod(base, -w, n * n), n * n)) % (n * n)
    return int(guess) == results[0]
