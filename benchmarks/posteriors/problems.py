"""The posteriors that kernels are compared on, each with predictions that are looked at."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

import traceclass as tc
from benchmarks.modes import NUM_SEEN, two_modes
from benchmarks.posteriors.cells import OWN_DATA
from traceclass.experiments import aquifer
from traceclass.experiments import cheetah as cheetah_experiment
from traceclass.experiments.half_cheetah.settings import CheetahConfig

car, cheetah = tc.control.mountain_car, tc.control.half_cheetah
# One object, so that wider priors are known as refinements of narrower ones.
TO_BOX = tc.scale_to_box(car.LOW, car.HIGH)
# Every tenth of 50 demonstrations of the mountain car is looked at.
EVERY = 10
# States of the half cheetah whose value differences are looked at, seven of each.
CHEETAH_STATES = 4
NOISE = 0.1
# The rows of the authors' file that their programs learn from; the states looked at come after.
AUTHORS_ROWS = slice(50, 150)
# Predictions of the other problems, at most.
MOST = 30
# Nodes per side of the grid of observations of `approximation`.
NODES = 21
REGRESSION_WIDTHS = (20, 20)


class Problem(NamedTuple):
    """A posterior, and the functional whose slowest component counts."""

    posterior: tc.Posterior
    predictions: Callable[[Array], Array]


class Sources(NamedTuple):
    """Data that a user has: a file of rows, and the folder of the authors' half cheetah."""

    rows: Path | None = None
    cheetah: Path | None = None


def problem_of(name: str, sources: Sources) -> Problem:
    """A posterior by its name in `cells`."""
    if name.startswith(OWN_DATA):
        return own_data(sources.rows)
    made: dict[str, Callable[[], Problem]] = {
        "mountain-car-10": lambda: mountain_car(10),
        "mountain-car-100": lambda: mountain_car(100),
        "half-cheetah": half_cheetah,
        "half-cheetah-authors": lambda: half_cheetah(sources.cheetah),
        "groundwater-series": lambda: groundwater("kl"),
        "groundwater-network": lambda: groundwater("tcnn"),
        "approximation": approximation,
        "diabetes": diabetes,
        "linear-gaussian": linear_gaussian,
        "two-modes": bimodal,
    }
    return made[name]()


class ValueDifferences(NamedTuple):
    """z -> how much better than by action 0 the state is after each of the other actions."""

    values_of: Callable[[Array], Array]
    num_actions: int

    def __call__(self, z: Float[Array, " z"]) -> Float[Array, " differences"]:
        values = self.values_of(z).reshape(-1, self.num_actions)
        return (values[:, 1:] - values[:, :1]).ravel()


def mountain_car(width: int, saturation: float | None = None) -> Problem:
    """50 demonstrations, a network of three layers; values after every tenth of them."""
    demonstrations = car.demonstrate(jax.random.key(0))
    successors = car.successors(demonstrations.states)
    prior = tc.TraceClassNetwork(
        num_inputs=2,
        widths=(width,) * 3,
        alpha=1.5,
        weight_variance=2.0,
        bias_variance=2.0,
        inputs=TO_BOX,
    )
    likelihood = tc.ActionChoice(
        successors, demonstrations.actions, noise=NOISE, saturation=saturation
    )
    values_of = prior.at(successors[::EVERY].reshape(-1, 2))
    differences = ValueDifferences(values_of, car.NUM_ACTIONS)
    return Problem(tc.Posterior(prior, likelihood), differences)


def half_cheetah(folder: Path | None = None) -> Problem:
    """100 demonstrations of our own expert, or the authors' in `folder`; values at four states."""
    successors, actions, unseen = _own_rides() if folder is None else _authors_rides(folder)
    prior = cheetah_experiment.prior_of("tcnn-10")
    likelihood = tc.ActionChoice(jnp.asarray(successors), actions, noise=NOISE)
    values_of = prior.at(unseen.reshape(-1, cheetah.DIM))
    differences = ValueDifferences(values_of, successors.shape[1])
    return Problem(tc.Posterior(prior, likelihood), differences)


def _own_rides() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Successors and choices of the demonstrations, and successors of states of other episodes."""
    data = cheetah_experiment.data_set(0, CheetahConfig())
    unseen = data.test_successors[:: len(data.test_successors) // CHEETAH_STATES]
    return data.successors, data.demonstrations.actions, unseen[:CHEETAH_STATES]


def _authors_rides(folder: Path) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The same of the authors' file: rows of 17 numbers of a state and the number of the action."""
    rows, controls = (np.load(folder / name) for name in ("HC_data.npy", "HC_actions.npy"))
    states, actions = rows[:, :-1], rows[:, -1].astype(int)
    later = states[AUTHORS_ROWS.stop :]
    unseen = later[:: len(later) // CHEETAH_STATES][:CHEETAH_STATES]
    seen, tests = (
        cheetah.successors(part, controls, older_inertia=True)
        for part in (states[AUTHORS_ROWS], unseen)
    )
    return seen, actions[AUTHORS_ROWS], tests


def groundwater(prior_name: str) -> Problem:
    """33 hydraulic heads on 20 x 20 cells, noise 0.01; heads at 30 other points."""
    data = aquifer.survey(0, noise=0.01, num_held_out=MOST)
    posterior = aquifer.posterior_of(aquifer.prior_of(prior_name), data, noise=0.01, cells=20)
    flow = posterior.likelihood.flow
    heads = aquifer.Heads(posterior.values_of, flow, flow.interpolation(data.held_out))
    return Problem(posterior, heads)


def approximation() -> Problem:
    """A field seen at 441 nodes with noise 0.01, a network of width 100; 25 points between them."""
    points = tc.DarcyFlow(cells=NODES - 1).nodes
    noise = np.random.default_rng(0).normal(size=len(points))
    prior = aquifer.prior_of("tcnn", width=100)
    likelihood = tc.GaussianRegression(points, aquifer.truth(points) + 0.01 * noise, noise=0.01)
    between = (np.arange(5) + 0.5) / 5
    grid = np.stack(np.meshgrid(between, between), axis=-1).reshape(-1, 2)
    return Problem(tc.Posterior(prior, likelihood), prior.at(grid))


def diabetes() -> Problem:
    """scikit-learn's 442 patients, ten measurements each; predictions for 30 that are held out."""
    from sklearn.datasets import load_diabetes

    x, y = load_diabetes(return_X_y=True)
    test = np.random.default_rng(0).permutation(len(x))[:MOST]
    return regression(np.column_stack([x, y]), test)


def own_data(file: Path | None) -> Problem:
    """Rows of `NAME_data.npy`, the target last; held out is the first row of `NAME_test.npy`."""
    assert file is not None
    test = file.with_name(file.name.replace("_data.npy", "_test.npy"))
    return regression(np.load(file), np.load(test)[0])


def regression(rows: np.ndarray, test: np.ndarray) -> Problem:
    """Two layers of 20, and inferred: alpha, the variances of each layer, and the noise.

    Inputs and target are standardised by the rows that are learned from. A factor of e up or down
    from the median of a variance, and of the noise, is no surprise.
    """
    learned = np.delete(rows, test, axis=0)
    mean, sd = learned.mean(axis=0), learned.std(axis=0)
    sd = np.where(sd > 0, sd, 1.0)
    seen, unseen = (learned - mean) / sd, (rows[test[:MOST]] - mean) / sd
    network = tc.TraceClassNetwork(num_inputs=rows.shape[1] - 1, widths=REGRESSION_WIDTHS)
    by_layer: Any = [tc.LogNormal(median=2.0, sigma=1.0)] * (len(REGRESSION_WIDTHS) + 1)
    prior = tc.Hyper(
        network,
        alpha=tc.ShiftedLogNormal(low=1.0, median=1.5, sigma=0.75),
        weight_variance=by_layer,
        bias_variance=by_layer,
        noise=tc.LogNormal(median=0.3, sigma=1.0),
    )
    # The noise is inferred; the likelihood's own is only where it begins.
    likelihood = tc.GaussianRegression(seen[:, :-1], seen[:, -1], noise=0.3)
    return Problem(tc.Posterior(prior, likelihood), prior.at(unseen[:, :-1]))


def linear_gaussian() -> Problem:
    """A cosine series of 625 terms on 33 points of the unit square, noise 0.1."""
    prior = tc.CosineSeries(num_modes=25, exponent=1.1)
    x = np.random.default_rng(0).uniform(size=(33, 2))
    y = np.sin(3 * x[:, 0]) * np.cos(2 * x[:, 1])
    posterior = tc.Posterior(prior, tc.GaussianRegression(x, y, noise=NOISE))
    return Problem(posterior, prior.at(x[::4]))


def bimodal() -> Problem:
    """Two modes twelve standard deviations apart; the eight values in which they differ."""
    posterior = two_modes().posterior
    return Problem(posterior, lambda z: posterior.values_of(z)[:NUM_SEEN])
