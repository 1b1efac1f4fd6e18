"""Several models of the same data side by side: evidence, held-out data, cross-validation."""

from __future__ import annotations

import dataclasses
import os
import warnings
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array
from scipy.special import logsumexp

from traceclass.errors import UserTypeError, UserValueError
from traceclass.likelihoods.base import gives_each
from traceclass.model_choice.evidence import Evidence
from traceclass.model_choice.plot import draw_scores
from traceclass.model_choice.tempering import LARGEST_REJECTION, Tempering
from traceclass.posterior import Posterior
from traceclass.validation import shortened

if TYPE_CHECKING:
    import pandas as pd

# At most this many draws are looked at, spread evenly: pointwise log-probabilities are kept in
# memory.
_MOST_DRAWS = 4_000
# Pareto k above which an observation is too influential for importance sampling to leave it out
# (Vehtari, Gelman & Gabry 2017).
LARGEST_PARETO_K = 0.7
# The scores of a model and the titles of their panels in a drawing.
_TITLES = {
    "log_evidence": "log-evidence",
    "held_out": "held-out log-score\nper observation",
    "elpd_loo": "leave-one-out\nlog-score",
}


class ComparedRun(Protocol):
    """What `compare` reads of a run; a `Run` has all of it."""

    @property
    def posterior(self) -> Posterior | None: ...

    @property
    def positions(self) -> np.ndarray | None: ...

    @property
    def is_tempered(self) -> bool: ...

    @property
    def tempering(self) -> Tempering: ...

    @property
    def evidence(self) -> Evidence: ...


class Score(NamedTuple):
    """An estimate with its standard error; NaN where it could not be made."""

    value: float
    error: float


_UNKNOWN = Score(float("nan"), float("nan"))


@dataclasses.dataclass(frozen=True)
class Model:
    """What is known of one model: see `compare`."""

    name: str
    log_evidence: Score = _UNKNOWN
    held_out: Score = _UNKNOWN
    elpd_loo: Score = _UNKNOWN
    num_influential: int = 0
    notes: tuple[str, ...] = ()


@dataclasses.dataclass(frozen=True)
class Comparison:
    """Models, the best first; printing it shows the table. See `compare`."""

    models: tuple[Model, ...]

    @property
    def table(self) -> pd.DataFrame:
        """One row per model: scores, their errors, and the probability among these models.

        `probability` is the probability of the model given the data, if all models were equally
        likely before and the evidence of all is known.
        """
        # Imported when a table is made: it takes as long as the whole library.
        import pandas as pd

        log_evidences = np.array([model.log_evidence.value for model in self.models])
        rows = {
            model.name: {
                "log_evidence": model.log_evidence.value,
                "evidence_error": model.log_evidence.error,
                "probability": probability,
                "held_out": model.held_out.value,
                "held_out_error": model.held_out.error,
                "elpd_loo": model.elpd_loo.value,
                "elpd_loo_error": model.elpd_loo.error,
                "influential": model.num_influential,
            }
            for model, probability in zip(
                self.models, np.exp(log_evidences - logsumexp(log_evidences)), strict=True
            )
        }
        return pd.DataFrame.from_dict(rows, orient="index")

    def __str__(self) -> str:
        width = max(5, *(len(model.name) for model in self.models))
        lines = [f"{'model':{width}}  {'log-evidence':>18}  {'held out':>15}  {'LOO':>18}"]
        lines += [
            f"{model.name:{width}}  {_words(model.log_evidence, 2):>18}  "
            f"{_words(model.held_out, 4):>15}  {_words(model.elpd_loo, 2):>18}"
            for model in self.models
        ]
        lines += [f"note: {model.name}: {note}" for model in self.models for note in model.notes]
        return "\n".join(lines)

    def plot(self, path: str | os.PathLike[str]) -> None:
        """Draw the scores that are known, with two standard errors, to a PNG file.

        Parameters
        ----------
        path : path
            The file; its folder is made if it is not there.
        """
        scores = {
            title: np.array([getattr(model, score) for model in self.models])
            for score, title in _TITLES.items()
        }
        known = {title: array for title, array in scores.items() if np.isfinite(array[:, 0]).any()}
        if not known:
            raise UserValueError("there is nothing to draw: no score of any model is known.")
        draw_scores([model.name for model in self.models], known, path)


def _words(score: Score, digits: int) -> str:
    if not np.isfinite(score.value):
        return "-"
    return f"{score.value:.{digits}f} +- {score.error:.{digits}f}"


def compare(runs: Mapping[str, ComparedRun], *, held_out: Any = None) -> Comparison:
    r"""Compare models of the same data by what their runs know, the best first.

    Three scores are computed where they can be:

    - the log-evidence, log p(y), of runs with `tc.tempered` (`run.evidence`);
    - the held-out score: the mean over observations y* of log (1/S) sum_s p(y* | z_s), with the
      standard error of that mean over observations;
    - LOO: the expected log predictive density of leave-one-out cross-validation by Pareto-smoothed
      importance sampling (ArviZ's), where the likelihood has `log_prob_each`. Observations with a
      Pareto k above 0.7 are counted as `influential`, and make it unreliable.

    The models are ordered by evidence if all have one, else by the held-out score, else by LOO.
    Evidence and the other two answer different questions: how probable the model made the data
    beforehand, and how well it predicts after.

    Parameters
    ----------
    runs : mapping from names to runs
        Runs of the same data. That is not checked, and evidence and LOO mean nothing otherwise.
        The held-out score and LOO need the run's posterior and stored positions.
    held_out : likelihood, or mapping from names to likelihoods, optional
        A likelihood of other data, e.g. `tc.GaussianRegression(x_test, y_test, noise=...)`, or one
        for each name. A noise level that the prior infers takes the place of the likelihood's own.

    Returns
    -------
    Comparison
        Printing it shows the table; `.table` is a DataFrame and `.plot(path)` a figure.
    """
    if not isinstance(runs, Mapping):
        raise UserTypeError(
            f"runs must map names to runs, got {shortened(runs)}. Use e.g. "
            'tc.compare({"network": run, "series": other}).'
        )
    if not runs:
        raise UserValueError("compare needs at least one run, got none.")
    for name, run in runs.items():
        if not hasattr(run, "is_tempered"):
            raise UserTypeError(f"runs[{name!r}] must be a run, got {shortened(run)}.")
    models = [_model(name, run, _held_out_of(held_out, name)) for name, run in runs.items()]
    for score in ("log_evidence", "held_out", "elpd_loo"):
        values = [getattr(model, score).value for model in models]
        if np.isfinite(values).all():
            order = np.argsort(values, kind="stable")[::-1]
            return Comparison(tuple(models[i] for i in order))
    return Comparison(tuple(models))


def _held_out_of(held_out: Any, name: str) -> Any:
    if not isinstance(held_out, Mapping):
        return held_out
    if name not in held_out:
        raise UserValueError(
            f"held_out has no data for {name!r}; it has {', '.join(map(repr, held_out))}."
        )
    return held_out[name]


def _model(name: str, run: ComparedRun, held_out: Any) -> Model:
    notes = []
    evidence = _UNKNOWN
    if run.is_tempered:
        found = run.evidence
        evidence = Score(found.log_evidence, found.standard_error)
        if run.tempering.rejections.max() > LARGEST_REJECTION:
            notes.append("its temperatures lie too far apart for the evidence; use more of them.")
    else:
        notes.append("no evidence, because it was sampled without tc.tempered.")
    posterior, positions = run.posterior, run.positions
    if posterior is None or positions is None:
        what = "posterior (pass it to open_run)" if posterior is None else "stored positions"
        notes.append(f"no scores but the evidence, because the run is without its {what}.")
        return Model(name, evidence, notes=tuple(notes))
    every = -(-positions.shape[0] * positions.shape[1] // _MOST_DRAWS)
    few = jnp.asarray(positions[:, ::every])
    predicted = _UNKNOWN if held_out is None else _predicted(posterior, held_out, few)
    loo, num_influential = _UNKNOWN, 0
    if gives_each(posterior.likelihood):
        loo, num_influential = _leave_one_out(posterior, few)
        if not np.isfinite(loo.value):
            notes.append("no LOO, because single draws decide about some observations.")
        elif num_influential:
            notes.append(f"LOO has {num_influential} observations with Pareto k above 0.7.")
    else:
        notes.append("no LOO, because the likelihood has no log_prob_each.")
    return Model(name, evidence, predicted, loo, num_influential, tuple(notes))


def _predicted(posterior: Posterior, held_out: Any, positions: Array) -> Score:
    if not gives_each(held_out):
        raise UserTypeError(
            "held_out must be a likelihood with log_prob_each(values), such as "
            f"tc.GaussianRegression(x_test, y_test, noise=...); got {type(held_out).__name__}."
        )
    fresh = Posterior(posterior.prior, held_out)
    each = np.asarray(_each(fresh, positions.reshape(-1, positions.shape[-1])), dtype=np.float64)
    by_observation = logsumexp(each, axis=0) - np.log(len(each))
    count = by_observation.size
    error = by_observation.std(ddof=1) / np.sqrt(count) if count > 1 else np.nan
    return Score(float(by_observation.mean()), float(error))


def _leave_one_out(posterior: Posterior, positions: Array) -> tuple[Score, int]:
    found = elpd_of(posterior, positions)
    influential = int((np.asarray(found.pareto_k) > LARGEST_PARETO_K).sum())
    return Score(float(found.elpd), float(found.se)), influential


def elpd_of(posterior: Posterior, positions: Array) -> Any:
    """ArviZ's leave-one-out score, observation by observation, of positions (chains, draws, z)."""
    import arviz_base
    from arviz_stats.loo import loo

    flat = positions.reshape(-1, positions.shape[-1])
    each = log_prob_of_each(posterior, flat).reshape(*positions.shape[:2], -1)
    with warnings.catch_warnings():
        # ArviZ warns of influential observations, which are counted, and of more chains than draws.
        warnings.simplefilter("ignore")
        tree = arviz_base.from_dict({"posterior": {"y": each}, "log_likelihood": {"y": each}})
        return loo(tree, pointwise=True)


def log_prob_of_each(posterior: Posterior, positions: Array) -> np.ndarray:
    """Log-probabilities of all observations at each position, in double precision."""
    return np.asarray(_each(posterior, positions), dtype=np.float64)


@eqx.filter_jit
def _each(posterior: Posterior, positions: Array) -> Array:
    """Log-probabilities of all observations at each position, (draws, observations)."""
    return jax.lax.map(posterior.log_likelihood_each, positions, batch_size=32)
