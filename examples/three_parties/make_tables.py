"""Make the raw tables of a bank, a phone company and a web shop: `python make_tables.py FOLDER`.

::

    FOLDER/this_month/   bank.csv, phone_company.parquet, web_shop.db (SQLite): what the parties learn from
    FOLDER/next_month/   bank.csv, phone_company.parquet, web_shop.csv: new people, to be scored
    FOLDER/truth/        columns.json, outcomes.csv: which columns matter, and what became of the new people

The tables are as raw as tables are: other people and another order at every party, empty cells, dates, rare levels,
free text, a constant, a copy, numbers that only identify. Six columns decide who defaults; all others are noise.
Nobody in them exists, and they are the same whenever they are made.
"""

from __future__ import annotations

import json
import sqlite3
import sys
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

#: The columns that decide who defaults; everything else is noise.
TRUTH = {
    "bank": ["salary_band"],
    "phone_company": ["invoice_delay_days", "tariff"],
    "web_shop": ["open_instalments", "last_message", "member_since"],
}
BANDS = ("low", "middle", "high", "top")
#: Tariffs, how common they are, and how much they say about a default.
TARIFFS = {"Prepaid": (0.32, 1.6), "Flat S": (0.28, 0.2), "Flat L": (0.22, -0.9), "Business": (0.16, -1.3)}
RARE_TARIFFS = ("Student 2009", "Test line", "Staff", "Roaming Plus", "Retired")
CITIES = [f"{kind}{name}" for kind in ("North ", "South ", "New ", "") for name in ("ford", "bridge", "field", "port")]
DEVICES = ("phone", "tablet", "laptop", "watch")
WORRIED = ("please wait with the payment reminder", "cannot pay the invoice now", "asks to pay later by instalment")
CONTENT = ("thanks for the fast delivery", "asks about the size of a shirt", "happy with the new shoes")
PLAIN = ("changed the delivery address", "wants a newsletter every week", "asks for the opening hours")

Tables = dict[str, pl.DataFrame]


def this_month() -> Tables:
    """Return every party's rows to learn from."""
    people = People(np.random.default_rng(2026), first_id=100_000, at_bank=1500, elsewhere=400)
    return {"bank": people.bank(), "phone_company": people.phone_company(), "web_shop": people.web_shop()}


def next_month() -> tuple[Tables, pl.DataFrame]:
    """Return every party's rows about new people, and what became of them (which nobody knows yet)."""
    people = People(np.random.default_rng(2027), first_id=500_000, at_bank=300, elsewhere=80, later=True)
    phone, shop = people.phone_company(), people.web_shop()
    bank = people.bank()
    tables = {
        "bank": bank.drop("defaulted"),
        "phone_company": phone.select(sorted(phone.columns)),  # another order of columns: they are found by name
        "web_shop": shop.with_columns(voucher_code=pl.lit("SPRING")),  # a column that nobody has seen before
    }
    return tables, bank.select("customer_id", "defaulted")


class People:
    """People with a hidden risk, and what each party's files say about them."""

    def __init__(
        self, rng: np.random.Generator, *, first_id: int, at_bank: int, elsewhere: int, later: bool = False
    ) -> None:
        """`elsewhere`: people whom the bank does not know; `later`: new levels and new gaps have come up."""
        self.rng, self.n, self.at_bank, self.later = rng, at_bank + elsewhere, at_bank, later
        self.ids = np.array([f"C{number}" for number in first_id + rng.permutation(5 * self.n)[: self.n]])
        self.band = rng.choice(len(BANDS), self.n, p=[0.3, 0.35, 0.2, 0.15])
        self.delay = rng.gamma(2.0, 4.0, self.n)
        self.tariff = rng.choice(len(TARIFFS) + 1, self.n, p=[*(share for share, _ in TARIFFS.values()), 0.02])
        self.instalments = rng.poisson(1.5, self.n)
        self.mood = rng.choice(3, self.n, p=[0.35, 0.35, 0.3])  # worried, content, neither
        self.member_days = rng.integers(30, 3000, self.n)
        says = np.array([*(effect for _, effect in TARIFFS.values()), 0.0])
        risk = (
            1.1 * (1.2 - self.band)
            + 0.16 * (np.minimum(self.delay, 30) - 8)
            + says[self.tariff]
            + 0.75 * (self.instalments - 1.5)
            + np.array([1.6, -1.6, 0.0])[self.mood]
            - 0.9 * (self.member_days - 1500) / 850
        )
        self.defaulted = risk + 0.4 * rng.logistic(size=self.n) > 0.6

    def bank(self) -> pl.DataFrame:
        """The bank's customers, their loans, and what it knows besides."""
        rng, n = self.rng, self.n
        unknown = rng.random(n) < (0.02 if self.later else 0.0)  # a band that did not exist last month
        opened = [date(2024, 12, 31) - timedelta(days=int(days)) for days in rng.integers(0, 9000, n)]
        columns = {
            "customer_id": self.ids,
            "defaulted": np.where(self.defaulted, "yes", "no"),
            "credit_used": _with_gaps(rng, rng.beta(2.0, 2.0, n).round(4), 0.03),
            "salary_band": np.where(unknown, "unknown", np.array(BANDS)[self.band]),
            "account_opened": [day.strftime("%d.%m.%Y") for day in opened],
            "branch_code": rng.integers(10, 18, n),
            "currency": np.full(n, "EUR"),  # a constant
            **self._noise("balance", 12),
        }
        customers = np.zeros(n, bool)
        customers[rng.permutation(n)[: self.at_bank]] = True
        return pl.DataFrame(columns, strict=False).filter(customers)

    def phone_company(self) -> pl.DataFrame:
        """The phone company's subscribers, in another order; it knows nine of ten people."""
        rng, n = self.rng, self.n
        names = np.array([*TARIFFS, ""])
        rare = rng.choice(RARE_TARIFFS, n)
        if self.later:
            rare = np.where(rng.random(n) < 0.5, "Family Flat", rare)  # a tariff that did not exist last month
        tariff = np.where(self.tariff == len(TARIFFS), rare, names[self.tariff])
        delay = _with_gaps(rng, np.round(self.delay, 1), 0.08)
        columns = {
            "subscriber": self.ids,
            "invoice_delay_days": delay,
            "tariff": tariff,
            "sim_card": [f"SIM-{number:07d}" for number in rng.choice(10**7, n, replace=False)],  # only identifies
            "phone_number": 490_000_000_000 + rng.choice(10**8, n, replace=False),  # the same, and looks like a number
            "delay_days_archive": delay,  # a copy of another column
            "home_city": rng.choice([*CITIES, "Newtown"] if self.later else CITIES, n),
            **self._noise("usage", 20),
        }
        return self._some(columns, 0.92)

    def web_shop(self) -> pl.DataFrame:
        """The shop's members, in yet another order."""
        rng, n = self.rng, self.n
        today = date(2025, 1, 1)
        messages = np.array([WORRIED, CONTENT, PLAIN])[self.mood, rng.integers(0, 3, n)]
        orders = [f"{text}, order {number}" for text, number in zip(messages, rng.integers(1, 9999, n), strict=True)]
        columns = {
            "member": self.ids,
            "open_instalments": _with_gaps(rng, self.instalments, 0.02 if self.later else 0.0),
            "last_message": _with_gaps(rng, np.array(orders), 0.05),
            "member_since": [(today - timedelta(days=int(days))).isoformat() for days in self.member_days],
            "last_login": [(today - timedelta(days=int(days))).isoformat() for days in rng.integers(0, 90, n)],
            "device": rng.choice(DEVICES, n),
            **self._noise("clicks", 20),
        }
        return self._some(columns, 0.9)

    def _some(self, columns: dict[str, Any], share: float) -> pl.DataFrame:
        """Return some of the people, in an order of their own."""
        known = np.flatnonzero(self.rng.random(self.n) < share)
        return pl.DataFrame(columns, strict=False)[self.rng.permutation(known)]

    def _noise(self, stem: str, count: int) -> dict[str, list[Any]]:
        """Columns that say nothing: measurements with gaps, counts, codes."""
        rng, n = self.rng, self.n
        columns: dict[str, list[Any]] = {}
        for index in range(count):
            values = (rng.normal(50, 12, n).round(2), rng.poisson(0.4, n) * 1.0, rng.integers(0, 5, n) * 1.0)[index % 3]
            columns[f"{stem}_{index:02d}"] = _with_gaps(rng, values, 0.04 if index % 4 == 0 else 0.0)
        return columns


def _with_gaps(rng: np.random.Generator, values: NDArray[Any], share: float) -> list[Any]:
    """Leave some cells empty."""
    gaps = rng.random(len(values)) < share
    return [None if gap else value for gap, value in zip(gaps, values.tolist(), strict=True)]


def write_tables(folder: Path) -> None:
    """Write both months and the truth; nothing is overwritten."""
    for part in ("this_month", "next_month", "truth"):
        (folder / part).mkdir(parents=True)
    tables = this_month()
    tables["bank"].write_csv(folder / "this_month" / "bank.csv")
    tables["phone_company"].write_parquet(folder / "this_month" / "phone_company.parquet")
    _write_database(folder / "this_month" / "web_shop.db", "members", tables["web_shop"])
    tables, outcomes = next_month()
    tables["bank"].write_csv(folder / "next_month" / "bank.csv")
    tables["phone_company"].write_parquet(folder / "next_month" / "phone_company.parquet")
    tables["web_shop"].write_csv(folder / "next_month" / "web_shop.csv")
    outcomes.write_csv(folder / "truth" / "outcomes.csv")
    (folder / "truth" / "columns.json").write_text(json.dumps(TRUTH, indent=1) + "\n", encoding="utf-8")


def _write_database(path: Path, table: str, frame: pl.DataFrame) -> None:
    places = ", ".join("?" * frame.width)
    with sqlite3.connect(path) as connection:
        connection.execute(f"CREATE TABLE {table} ({', '.join(frame.columns)})")
        connection.executemany(f"INSERT INTO {table} VALUES ({places})", frame.rows())  # noqa: S608 (our own names)
    connection.close()


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    write_tables(Path(sys.argv[1]))
    for file in sorted(Path(sys.argv[1]).glob("*/*")):
        print(file)
