"""What a run logs, at its most talkative, holds nothing that is anybody's: searched for in every dress."""

from __future__ import annotations

import base64
import contextlib
import io
import logging
import re
import struct
from dataclasses import dataclass, field
from functools import partial

import numpy as np
import pytest
from privacy_helpers import ciphertexts

from fedsdg import api
from fedsdg.cli.logs import log_nowhere, log_to_stderr
from fedsdg.client import role as client_role
from fedsdg.config import PhaseSettings, TrainingConfig, ValidationSettings
from fedsdg.crypto import PrivateKey
from fedsdg.data.feature_table import FeatureTable
from fedsdg.errors import RunStopped
from fedsdg.job import RunSettings
from fedsdg.messages.alignment import BlindIds
from fedsdg.runtime.transcript import RecordingChannel
from fedsdg.simulation import PartyTables, simulate

ROWS = 70
IDS = tuple(f"canary-person-{7919 * row + 100003}" for row in range(ROWS))
LABELS = ("canary-ill-zq", "canary-well-zq")
NUMBERS = (98765.4321098765, -31337.271828182845, 2718281.828459045, 0.12345678901234567)
CATEGORIES = ("canary-widow-zq", "canary-single-zq", "canary-married-zq")
TEXTS = tuple(f"canaryword{'abcdefg'[i % 7]} sufferszq fromzq" for i in range(7))
COLUMNS = ("canary_salary_zq", "canary_state_zq", "canary_notes_zq", "canary_age_zq", "canary_debt_zq")
SEEDS = {name: f"canary private seed of {name}".encode().ljust(32, b"#") for name in ("bank", "shop", "server")}
LABEL_KEY = b"canary lasting label key zq".ljust(32, b"!")
SETTINGS = RunSettings(
    label_epsilon=3.0,
    checkpoint_every=2,
    training=TrainingConfig(
        gated_phase=PhaseSettings(steps=6, batch_size=32),
        compact_phase=PhaseSettings(steps=4, batch_size=32),
        validation=ValidationSettings(every=3),
    ),
)


def tables() -> PartyTables:
    """Two clients with numbers, categories and texts; their rows lie in other orders than the labels."""
    stream = np.random.default_rng(3)
    bank = np.column_stack([stream.normal(size=ROWS), stream.integers(0, 3, ROWS), stream.integers(0, 7, ROWS)]).astype(
        float
    )
    shop = stream.normal(size=(ROWS, 2))
    labels = np.where(bank[:, 0] + shop[:, 1] > 0, *LABELS)
    bank[:4, 0] = shop[-4:, 0] = NUMBERS
    orders = {"bank": np.roll(np.arange(ROWS), 5), "shop": stream.permutation(ROWS)}
    levels = {COLUMNS[1]: CATEGORIES, COLUMNS[2]: TEXTS}
    whole = {
        "bank": FeatureTable(COLUMNS[:3], bank, ("number", "category", "text"), levels),
        "shop": FeatureTable.of(shop, COLUMNS[3:]),
    }
    return PartyTables(
        labels,
        {name: table.take(orders[name]) for name, table in whole.items()},
        ids=IDS,
        label_key=LABEL_KEY,
        client_ids={name: tuple(IDS[row] for row in orders[name]) for name in whole},
    )


@dataclass
class Logged:
    """Everything that a run, its resumption, a refusal and a prediction said, and what they must not have said."""

    text: str = ""
    run_log: str = ""
    keys: list[PrivateKey] = field(default_factory=list)
    channels: list[RecordingChannel] = field(default_factory=list)
    simulations: list = field(default_factory=list)


def talk(folder, patch: pytest.MonkeyPatch) -> Logged:
    """Run, stop, resume, refuse and predict at DEBUG, with small keys."""
    logged, data = Logged(), tables()
    generate = PrivateKey.generate

    def noted_key(*arguments, **options):
        logged.keys.append(generate(*arguments, **options))
        return logged.keys[-1]

    def noted_channel(roles):
        logged.channels.append(RecordingChannel(roles))
        return logged.channels[-1]

    def noted_run(*arguments, **options):
        small = partial(simulate, key_bits=512, allow_test_keys=True, channel_type=noted_channel)
        logged.simulations.append(small(*arguments, **options))
        return logged.simulations[-1]

    patch.setattr(PrivateKey, "generate", noted_key)
    patch.setattr(api, "simulate", noted_run)
    seen = []
    with contextlib.redirect_stderr(io.StringIO()) as screen:
        log_to_stderr("debug")
        with pytest.raises(RunStopped):
            api.run_tables(
                data, SETTINGS, out=folder / "run", private_seeds=SEEDS, watch=seen.append, stop=lambda: len(seen) > 5
            )
        api.resume(folder / "run", data=data)
        finished = logged.simulations[-1]
        for role in finished.channel.roles.values():
            role.answer(b"nonsense")
        finished.predict({name: client.table for name, client in finished.clients.items()})
        log_nowhere()
    logged.run_log = (folder / "run" / "run.log").read_text(encoding="utf-8")
    logged.text = screen.getvalue() + logged.run_log
    return logged


def of_text(text: str) -> set[str]:
    raw = text.encode()
    return {text, raw.hex(), str(int.from_bytes(raw, "big")), base64.b64encode(raw).decode().rstrip("=")[:-1]}


def of_bytes(raw: bytes) -> set[str]:
    numbers = (int.from_bytes(raw, "big"), int.from_bytes(raw, "little"))
    return {raw.hex(), repr(raw)[2:-1], base64.b64encode(raw).decode().rstrip("=")[:-1], *map(str, numbers)}


def of_float(value: float) -> set[str]:
    single = struct.pack("<f", value).hex()
    doubles = {struct.pack(order, value).hex() for order in ("<d", ">d")}
    return {repr(value), f"{value:.6g}", f"{value:.4f}", value.hex(), *doubles, single}


def of_large(number: int) -> set[str]:
    """A large number, whole or cut short after its first digits, in decimal and hex, from either end."""
    width = (number.bit_length() + 7) // 8
    return {str(number)[:24], f"{number:x}"[:24], number.to_bytes(width, "little").hex()[:24]}


def of_gate(value: float) -> set[str]:
    """Enough digits that no score or loss is taken for it."""
    return {repr(value)[:11]} if len(repr(value)) >= 11 else set()


def canaries(logged: Logged) -> dict[str, set[str]]:
    """Everything private, in every dress."""
    finished = logged.simulations[-1]
    gates = [
        float(gate)
        for client in finished.clients.values()
        for values in (client.starting_gates, client.final_gates)
        for gate in values
    ]
    shares = [
        abs(int(number))
        for role in finished.channel.roles.values()
        for share in role.state.shares.values()
        for number in np.asarray(share.share).ravel()
    ]
    sent = [value for channel in logged.channels for _, _, value in ciphertexts(channel.transcript)]
    return {
        "id": set().union(*map(of_text, IDS)),
        "label": set().union(*map(of_text, LABELS)),
        "cell": set().union(*map(of_text, (*CATEGORIES, *TEXTS))) | {text.split()[0] for text in TEXTS},
        "number": set().union(*map(of_float, NUMBERS)),
        "column": set().union(*map(of_text, COLUMNS)),
        "seed": set().union(*map(of_bytes, SEEDS.values())),
        "label key": of_bytes(LABEL_KEY),
        "key": set().union(*(of_large(int(n)) for key in logged.keys for n in (key.p, key.q, key.public_key.n))),
        "ciphertext": set().union(*map(of_large, sent)),
        "share": set().union(*(of_large(number) for number in shares if number > 10**12)),
        "gate": set().union(*map(of_gate, gates)),
    }


def found(text: str, private: dict[str, set[str]]) -> set[str]:
    return {name for name, dresses in private.items() if any(dress in text for dress in dresses)}


@pytest.fixture(scope="module")
def logged(tmp_path_factory) -> Logged:
    with pytest.MonkeyPatch.context() as patch:
        return talk(tmp_path_factory.mktemp("logs"), patch)


def test_the_most_talkative_log_of_a_run_carries_nothing_private(logged):
    private = canaries(logged)
    assert all(private.values())
    assert found(logged.text, private) == set()


def test_no_long_number_is_logged_whatever_it_is(logged):
    """A key, a seed, a ciphertext, a mask or a digest, in decimal or hex, would be one."""
    assert re.findall(r"[0-9a-fA-F]{20,}", logged.text) == []


def test_the_log_was_at_its_most_talkative(logged):
    """Otherwise the search would prove nothing: every message, the refusal and both parts of the run are there."""
    messages = sum(len(channel.transcript) for channel in logged.channels)
    assert len(re.findall(r"DEBUG fedsdg.server: \w+ (?:to|from) client", logged.text)) >= messages
    assert logged.text.count("refused a request: MalformedMessage") >= 2
    for line in ("aligned: 70 ids in common", "resumed from the checkpoint", "the run 'run' is complete"):
        assert line in logged.run_log
    assert "DEBUG" not in logged.run_log


def test_the_search_finds_every_canary_that_is_planted(logged):
    for name, dresses in canaries(logged).items():
        for dress in sorted(dresses)[:: max(1, len(dresses) // 10)]:
            assert name in found(f"INFO before {dress} after", {name: dresses})


CARELESS = {
    "id": lambda state: ("compares %s", state.ids[3]),
    "seed": lambda state: ("streams %s", state.local.streams.seed),
    "key": lambda state: ("key %x", state.joined.keys.encryptor.key.n),
    "cell": lambda state: ("levels %r", state.local.table.levels),
    "column": lambda state: ("columns %s", state.local.table.columns),
    "number": lambda state: ("range %.6g", state.local.table.values.max()),
}


def test_careless_lines_in_the_code_would_be_found(tmp_path, monkeypatch):
    handler = client_role.HANDLERS[BlindIds]

    def careless(state, request):
        for line in CARELESS.values():
            logging.getLogger("fedsdg.client").debug(*line(state))
        return handler(state, request)

    monkeypatch.setitem(client_role.HANDLERS, BlindIds, careless)
    logged = talk(tmp_path, monkeypatch)
    assert found(logged.text, canaries(logged)) == set(CARELESS)
