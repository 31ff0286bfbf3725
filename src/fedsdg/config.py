"""Every setting of a run, its default and its limits: the only place in the package that knows a default.

::

    TrainingConfig
    ├── gated_phase      PhaseSettings     phase 1: gates and weights together, small embeddings
    ├── compact_phase    PhaseSettings     phase 2: a fresh model on the selected columns only
    ├── gates            GateSettings      how gates start, move and close
    ├── penalty          PenaltySettings   how hard features and embedding dimensions are pushed out
    ├── validation       ValidationSettings
    ├── binning          BinningSettings   the bins of the Gini score
    └── fixed_point      FixedPointSettings

The models are frozen. A wrong value raises :class:`~fedsdg.errors.ConfigError` with the setting's name; two
settings that contradict each other do too. ``TrainingConfig()`` is the recipe for encrypted runs (small
embeddings, two phases), :func:`wide_config` is for runs in the clear, and :func:`paper_config` holds the settings
that the paper prints.
"""

from __future__ import annotations

from typing import Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from fedsdg.errors import ConfigError

Task = Literal["auto", "binary", "multiclass", "regression"]
Interactive = Literal["dense", "elementwise"]
Activation = Literal["tanh", "relu", "identity"]

CROWDED_ROWS_PER_INPUT = 25
"""With fewer training rows per input than this, a model needs all the dropout it is allowed on its embedding."""
THRONGED_ROWS_PER_INPUT = 5
"""With fewer than this, all that it is allowed on its inputs, too."""

INT64_MAGNITUDE_BITS = 63
"""Every slot is carried in an int64, so no slot may reach 2**63 in magnitude."""


def log2_ceil(count: int) -> int:
    """Return the number of bits by which a sum of ``count`` terms can be wider than one term."""
    return max(0, (count - 1).bit_length())


class Settings(BaseModel):
    """Base of all settings: frozen, no unknown names, and errors that name the setting."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    def __init__(self, **values: Any) -> None:
        try:
            super().__init__(**values)
        except ValidationError as error:
            reasons = "; ".join(
                f"{'.'.join(str(part) for part in item['loc']) or 'settings'}: {item['msg']}"
                for item in error.errors(include_url=False, include_input=False)
            )
            raise ConfigError(f"{type(self).__name__} cannot be used: {reasons}") from None


class FixedPointSettings(Settings):
    """Widths of the integers that the interactive layer computes with.

    Reals become integers by ``round(x * 2**fraction_bits)``. Weights live on the scale of their own update
    (``embedding_fraction_bits + step_fraction_bits``), so nothing is ever truncated. Rounding costs no
    accuracy; clipping does, so the ranges are generous.
    """

    embedding_fraction_bits: int = Field(default=12, ge=4, le=20)
    gradient_fraction_bits: int = Field(default=14, ge=4, le=20)
    step_fraction_bits: int = Field(default=24, ge=8, le=32)
    embedding_range_bits: int = Field(default=4, ge=0, le=8)
    """Embeddings are clipped to |g| < 2**embedding_range_bits."""
    gradient_range_bits: int = Field(default=2, ge=0, le=8)
    """Per-sample gradients are clipped to |delta| < 2**gradient_range_bits."""
    weight_range_bits: int = Field(default=4, ge=1, le=8)
    """Interactive weights must stay below 2**weight_range_bits; leaving that range is an error."""
    dither_bits_below_unit: int = Field(default=20, ge=8, le=30)

    @property
    def weight_fraction_bits(self) -> int:
        """f_W: one weight unit is 2**f_W."""
        return self.embedding_fraction_bits + self.step_fraction_bits

    @property
    def embedding_bits(self) -> int:
        """b_G: |G| < 2**b_G."""
        return self.embedding_fraction_bits + self.embedding_range_bits

    @property
    def gradient_bits(self) -> int:
        """b_d: |D| < 2**b_d."""
        return self.gradient_fraction_bits + self.gradient_range_bits

    @property
    def weight_bits(self) -> int:
        """b_W: |W| < 2**b_W."""
        return self.weight_fraction_bits + self.weight_range_bits

    @property
    def forward_fraction_bits(self) -> int:
        """Fraction bits of Z = G W."""
        return self.embedding_fraction_bits + self.weight_fraction_bits

    @property
    def backward_fraction_bits(self) -> int:
        """Fraction bits of dL/dG = D W^T."""
        return self.gradient_fraction_bits + self.weight_fraction_bits

    @property
    def forward_dither_bits(self) -> int:
        """|tau| < 2**this, far below one unit of Z."""
        return self.forward_fraction_bits - self.dither_bits_below_unit

    @property
    def backward_dither_bits(self) -> int:
        """|tau2| < 2**this, far below one unit of dL/dG."""
        return self.backward_fraction_bits - self.dither_bits_below_unit

    def forward_slot_bits(self, terms: int) -> int:
        """s_A: width of a slot of Z that sums ``terms`` products (the embedding width; 1 element-wise)."""
        return self.embedding_bits + self.weight_bits + log2_ceil(terms) + 2

    def backward_slot_bits(self, terms: int) -> int:
        """s_E: width of a slot of dL/dG that sums ``terms`` products (the outputs; 1 element-wise)."""
        return self.gradient_bits + self.weight_bits + log2_ceil(terms) + 2

    def require_capacity(self, embedding: int, outputs: int) -> None:
        """Refuse sizes whose slots could not hold their worst case."""
        widest = max(self.forward_slot_bits(embedding), self.backward_slot_bits(outputs)) - 2
        if widest > INT64_MAGNITUDE_BITS:
            raise ConfigError(
                f"fixed_point: embedding {embedding} with {outputs} outputs needs {widest} bits per value "
                f"and {INT64_MAGNITUDE_BITS} are available; use a smaller embedding, fewer outputs, or lower "
                "fixed_point.weight_range_bits or the fraction bits"
            )


class PhaseSettings(Settings):
    """Sizes and rates of one training phase.

    A client's bottom model is ``columns -> hidden -> embedding``, the interactive layer ``embedding ->
    outputs`` and the server's top model ``outputs -> top_hidden -> task``. Encrypted work is steps x
    embedding x outputs, so these two are small; the top model runs in the clear at the server, so it may be
    generous.
    """

    hidden: tuple[int, ...] = (64,)
    embedding: int = Field(default=8, ge=1, le=4096)
    embedding_activation: Activation = "tanh"
    outputs: int = Field(default=4, ge=1, le=4096)
    top_hidden: tuple[int, ...] = (64, 64)
    steps: int = Field(default=250, ge=1)
    batch_size: int = Field(default=128, ge=1)
    learning_rate: float = Field(default=0.012, gt=0)
    """Adam, for the bottom models and the top model."""
    weight_decay: float = Field(default=0.0, ge=0)
    interactive_learning_rate: float = Field(default=0.3, gt=0)
    """Plain SGD: the update of a secret-shared weight must be linear in the gradient."""
    input_noise: float = Field(default=0.0, ge=0)
    """Standard deviation of Gaussian noise on the prepared columns while training."""
    schedule: Literal["constant", "cosine"] = "constant"
    embedding_dropout: float = Field(default=0.0, ge=0, lt=1)
    """Largest share of embedding values set to zero while training: see `dropout_for`."""
    input_dropout: float = Field(default=0.0, ge=0, lt=1)
    """Largest share of prepared inputs set to zero while training: see `input_dropout_for`."""

    def dropout_for(self, inputs: int, rows: int) -> float:
        """Return the dropout of a client with so many inputs and training rows.

        Few inputs cannot be learned by heart, and then dropout only disturbs; from one input to 25 rows on, all of it
        is needed. Each client reckons with its own inputs, so nobody has to be told.
        """
        return self.embedding_dropout * min(1.0, CROWDED_ROWS_PER_INPUT * inputs / rows)

    def input_dropout_for(self, inputs: int, rows: int) -> float:
        """Return the share of inputs that a client leaves out of a row: all of it from one input to 5 rows on.

        A model that may not rely on any single word learns to use them all; one with a dozen columns needs each.
        """
        return self.input_dropout * min(1.0, THRONGED_ROWS_PER_INPUT * inputs / rows)

    @model_validator(mode="after")
    def _hidden_sizes_are_positive(self) -> Self:
        if any(size < 1 for size in (*self.hidden, *self.top_hidden)):
            raise ValueError("hidden and top_hidden sizes must be at least 1")
        return self


class GateSettings(Settings):
    """How the stochastic gates start, move and close.

    Gates move by plain SGD: under Adam, once the loss is near zero, every gate is driven down at full speed.
    The rate of the input gates grows with the number of columns because the penalty is averaged over them.
    """

    sigma: float = Field(default=0.5, gt=0)
    noise: Literal["sample", "batch"] = "sample"
    initialization: Literal["gini", "constant", "inverse_gini"] = "gini"
    constant_start: float = 0.5
    gini_floor: float = 0.2
    gini_span: float = Field(default=0.6, ge=0)
    gini_full_z: float = Field(default=6.0, gt=0)
    """A column whose Gini score is this many null deviations from chance starts with the widest gate."""
    input_rate: float = Field(default=0.006, gt=0)
    """Multiplied by the total number of columns and sqrt(reference_steps / steps)."""
    rows_for_full_evidence: float = Field(default=0.5, ge=0)
    """Training rows per column from which on the loss counts fully in the gates; 0: always."""
    embedding_rate: float = Field(default=3.0, gt=0)
    """Multiplied by sqrt(reference_steps / steps)."""
    scale_rates: bool = True
    reference_steps: int = Field(default=600, ge=1)
    embedding_gates: bool = True
    embedding_start: float | Literal["gini"] = 0.5
    """Mean of the embedding gates at the start; ``gini``: between 0.5 and 1, the nearer to 1 the more of the client's
    own columns tell something (ADR 21)."""
    narrowest_embedding: int = Field(default=8, ge=1)
    """The compact phase is as wide as the fewest open embedding gates on the path, but not below this width: there,
    accuracy suffers."""
    drop_probability: float = Field(default=0.01, gt=0, lt=0.5)
    """An embedding dimension open with less than this probability for a whole epoch is dropped for good."""

    def starting_alike(self) -> Self:
        """Return these settings without a Gini start, and without what leans on its order: the loss counts fully."""
        return self.model_copy(update={"initialization": "constant", "rows_for_full_evidence": 0.0})


class PenaltySettings(Settings):
    """How hard the gates are pushed shut.

    ``strength="auto"`` raises the penalty from ``ramp_start`` to ``ramp_end`` over the gated phase and lets
    validation choose the point on the way. A number fixes the end of the ramp, and the gates at the end are
    the answer.
    """

    strength: Literal["auto"] | float = "auto"
    ramp_start: float = Field(default=1.0, gt=0)
    ramp_end: float = Field(default=5.0, gt=0)
    reduction: Literal["mean", "sum"] = "mean"
    """``mean``: divided by the total number of columns. The paper writes ``sum``."""
    embedding_strength: float = Field(default=0.0005, ge=0)
    """Per embedding gate; never averaged over clients, or many clients would keep everything open."""

    @model_validator(mode="after")
    def _strength_is_positive(self) -> Self:
        if self.strength != "auto" and self.strength < 0:
            raise ValueError('strength must be "auto" or a number of at least 0')
        return self


SelectionRule = Literal["plausible", "one_standard_error", "best", "last"]


class ValidationSettings(Settings):
    """The rows kept for choosing, and how often they are looked at."""

    fraction: float = Field(default=0.15, gt=0, lt=0.9)
    every: int = Field(default=10, ge=1)
    """Steps between two validation passes of the gated phase (the compact phase has one, at its end)."""
    patience: int | None = Field(default=3, ge=1)
    """The gated phase ends early after this many passes below the best score minus one standard error."""
    rule: SelectionRule = "plausible"
    """Which pass decides: the middle of all numbers of columns that the rows find plausible (ADR 18), the sparsest
    within one standard error of the lowest loss, the one with the best score, or the last."""
    plenty: float = Field(default=0.15, gt=0, le=1)
    """For ``plausible``: the share of all columns that is enough where the rows leave the number open."""
    plenty_at_least: int = Field(default=0, ge=0)
    """Fewer columns than this are never called plenty, however few there are in all."""
    below_plenty: float = Field(default=0.0, ge=0, le=32)
    """The power by which smaller shares than `plenty` count less; 0: every ratio up to `plenty` counts alike."""
    beyond_plenty: float = Field(default=2.0, ge=0, le=32)
    """The power by which larger shares than `plenty` count less."""


class BinningSettings(Settings):
    """The bins of the Gini score."""

    bins: int = Field(default=10, ge=2, le=256)
    minimum_size: int = Field(default=10, ge=1)
    """Smaller bins are merged with a neighbour: a small bin says much about few people."""
    sparse_share: float = Field(default=0.8, gt=0, le=1)
    """A column with at least this share of zeros is binned by presence and absence."""
    target_bins: int = Field(default=5, ge=2, le=256)
    """Regression targets are cut into this many classes for the Gini score."""


COMPACT_PHASE = PhaseSettings(
    outputs=8, top_hidden=(128, 128), steps=600, weight_decay=0.01, input_noise=0.15, schedule="cosine"
)


class TrainingConfig(Settings):
    """A whole run: initialise gates, train gated, choose features, retrain compactly, keep the better."""

    task: Task = "auto"
    model: Literal["mlp", "linear"] = "mlp"
    interactive: Interactive = "dense"
    n_features: int | None = Field(default=None, ge=1)
    """Select exactly this many features over all clients; ``None`` lets penalty and validation decide."""
    mc_samples: int = Field(default=1, ge=1, le=16)
    """Gate draws per row and step. Two are a little steadier, at twice the cost."""
    seed: int = Field(default=0, ge=0, lt=2**64)
    """The joint public seed. It orders the batches and nothing else."""
    retrain: bool = True
    """Train a fresh compact model on the selected columns."""
    final_rows: Literal["training", "all"] = "training"
    """``training``: validation rows compare the compact model with the gated one, and the better is kept. ``all``: they
    have done their work once the columns are chosen, so the compact model learns from them, too, and is kept."""
    gated_phase: PhaseSettings = PhaseSettings()
    compact_phase: PhaseSettings = COMPACT_PHASE
    gates: GateSettings = GateSettings()
    penalty: PenaltySettings = PenaltySettings()
    validation: ValidationSettings = ValidationSettings()
    binning: BinningSettings = BinningSettings()
    fixed_point: FixedPointSettings = FixedPointSettings()

    @field_validator("penalty", mode="before")
    @classmethod
    def _a_bare_strength_is_a_penalty(cls, value: Any) -> Any:
        """Accept ``penalty="auto"`` and ``penalty=3.0`` for the settings that differ only in strength."""
        bare = value == "auto" or (isinstance(value, int | float) and not isinstance(value, bool))
        return PenaltySettings(strength=value) if bare else value

    @field_validator("compact_phase", mode="before")
    @classmethod
    def _what_is_not_said_keeps_its_default(cls, value: Any) -> Any:
        return {**COMPACT_PHASE.model_dump(), **value} if isinstance(value, dict) else value

    @model_validator(mode="after")
    def _slots_hold_their_worst_case(self) -> Self:
        for phase in (self.gated_phase, self.compact_phase):
            if self.interactive == "dense":
                self.fixed_point.require_capacity(phase.embedding, phase.outputs)
            else:
                self.fixed_point.require_capacity(1, 1)
        return self

    def with_changes(self, **changes: Any) -> TrainingConfig:
        """Return a copy with some settings replaced, validated again as a whole."""
        return TrainingConfig(**{**{name: getattr(self, name) for name in type(self).model_fields}, **changes})


def wide_config(**changes: Any) -> TrainingConfig:
    """Return the recipe that is made for accuracy on all kinds of data: embeddings of 32, 16 interactive outputs.

    Two gate draws per row steady the selection. The last model has one wide layer per client, regularised by columns
    per row, and learns from the validation rows, too. Encrypted, a step costs 8 (last phase) to 64 times the default's.
    """
    values: dict[str, Any] = {
        "mc_samples": 2,
        "final_rows": "all",
        "gated_phase": PhaseSettings(embedding=32, outputs=16, steps=300, learning_rate=0.006),
        "compact_phase": COMPACT_PHASE.model_copy(
            update={
                "hidden": (),
                "embedding": 32,
                "embedding_activation": "relu",
                "outputs": 16,
                "embedding_dropout": 0.5,
                "input_dropout": 0.5,
            }
        ),
        "gates": GateSettings(narrowest_embedding=32, embedding_start="gini"),
        "penalty": PenaltySettings(embedding_strength=0.001),
        # Closing gates costs accuracy that the weights win back later: the path is walked to its end. Where the rows
        # leave the number open, each column given up costs accuracy, and somewhat under a seventh stay (ADR 21).
        "validation": ValidationSettings(patience=None, plenty_at_least=30, below_plenty=2.0, beyond_plenty=12.0),
    }
    return TrainingConfig(**{**values, **changes})


def paper_config(**changes: Any) -> TrainingConfig:
    """Return the settings that the paper prints, where they can be executed.

    Clients ``columns -> 100 -> 100``, interactive layer 100 -> 50, head 50 -> task, rate 0.03, batch 128,
    penalty 0.1 summed over the gates, gates proportional to 1/Gini, no second phase. Adam cannot update a
    secret-shared weight, so the interactive layer and the gates use plain SGD at the same rate. These
    settings are for comparison: on genuine MADELON no feature survives them.
    """
    phase = PhaseSettings(
        hidden=(100,),
        embedding=100,
        embedding_activation="relu",
        outputs=50,
        top_hidden=(),
        steps=1000,
        learning_rate=0.03,
        interactive_learning_rate=0.03,
    )
    values: dict[str, Any] = {
        "gated_phase": phase,
        "compact_phase": phase,
        "retrain": False,
        "gates": GateSettings(
            noise="batch",
            initialization="inverse_gini",
            input_rate=0.03,
            rows_for_full_evidence=0,
            embedding_rate=0.03,
            scale_rates=False,
        ),
        "penalty": PenaltySettings(strength=0.1, ramp_start=0.1, reduction="sum", embedding_strength=0.1),
        "validation": ValidationSettings(patience=None),
    }
    return TrainingConfig(**{**values, **changes})
