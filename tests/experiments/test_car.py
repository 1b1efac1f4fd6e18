"""What the mountain-car experiments ask of a posterior, against other ways to compute it."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.stats import spearmanr

from traceclass.control import mountain_car as car
from traceclass.experiments.car import (
    TEST_STATES,
    action_log_probabilities,
    choices,
    held_out,
    keys_of,
    prior_of,
    rank_correlation,
    value_differences,
)
from traceclass.experiments.experiment import check_table
from traceclass.experiments.mountain_car.settings import MountainCarConfig
from traceclass.scores import standard_error


def test_priors_have_the_papers_sizes():
    small = {name: prior_of(name).num_coordinates for name in ("tcnn", "kl", "bnn")}
    assert small == {"tcnn": 261, "kl": 224, "bnn": 261}
    large = [
        prior_of(name, widths=(100, 100, 100), max_frequency=70).num_coordinates
        for name in ("tcnn", "kl", "bnn")
    ]
    assert large == [20_601, 19_880, 20_601]


def test_value_differences_are_zero_at_the_experts_action():
    prior = prior_of("tcnn")
    states = np.float32(TEST_STATES)
    z = prior.sample(jax.random.key(0))
    differences = np.asarray(jax.jit(lambda z: value_differences(prior)(z))(z))
    expert = np.asarray(jax.jit(car.expert)(states))
    assert expert.tolist() == [2, 2, 0, 0, 0]
    np.testing.assert_array_equal(differences[np.arange(5), expert], 0.0)
    after = jax.jit(lambda z, action: prior.evaluate(z, car.step(states[:1], action))[0])
    left, right = (float(after(z, np.array([action]))) for action in (0, 2))
    assert differences[0, 0] == pytest.approx(left - right, abs=1e-5)


def test_rank_correlation_is_spearmans_and_sees_only_the_order():
    prior = prior_of("kl")
    states = np.asarray(car.demonstrate(jax.random.key(1)).states)
    reference = np.sin(5 * states[:, 0]) + states[:, 1]

    @jax.jit
    def correlation(reference):
        z = prior.sample(jax.random.key(2))
        return prior.evaluate(z, states), rank_correlation(prior, jnp.asarray(states), reference)(z)

    values, ours = map(np.asarray, correlation(reference))
    assert ours == pytest.approx(spearmanr(values, reference).statistic, abs=1e-5)
    assert correlation(np.exp(3 * reference))[1] == pytest.approx(float(ours))
    assert correlation(values**3)[1] == pytest.approx(1.0)


@pytest.mark.long
def test_action_probabilities_are_those_of_the_likelihood():
    prior = prior_of("bnn")
    tests = held_out(0, 7)
    z = prior.sample(jax.random.key(3))
    each = np.asarray(action_log_probabilities(prior, tests.states, noise=0.1)(z))
    np.testing.assert_allclose(np.exp(each).sum(axis=1), 1.0, atol=1e-5)
    likelihood = choices(tests, noise=0.1)
    taken = np.asarray(likelihood.log_prob_each(jax.jit(prior.at(likelihood.points))(z)))
    np.testing.assert_allclose(
        each[np.arange(7), np.asarray(tests.actions)], taken, rtol=1e-4, atol=1e-5
    )


def test_held_out_drives_are_none_of_the_data():
    seen = {tuple(s) for s in np.asarray(car.demonstrate(keys_of(0).data).states).tolist()}
    other = {tuple(s) for s in np.asarray(held_out(0, 200).states).tolist()}
    assert not seen & other


def test_tables_with_a_cell_twice_or_a_seed_too_many_are_refused():
    check_table(MountainCarConfig(seed=2**32 - 3), priors=("tcnn", "kl"))
    with pytest.raises(ValueError, match=r"at most 2\*\*32, got 4294967294 \+ 3"):
        check_table(MountainCarConfig(seed=2**32 - 2))
    with pytest.raises(ValueError, match="priors must differ from each other"):
        check_table(MountainCarConfig(), priors=("kl", "kl"))


def test_standard_error_of_a_mean():
    assert standard_error([1.0]) is None
    assert standard_error([1.0, 3.0]) == pytest.approx(1.0)
    assert standard_error([1.0, -np.inf]) is None
