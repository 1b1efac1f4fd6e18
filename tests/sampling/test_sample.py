"""tc.sample: reproducible, compiled once, adapted, recorded, and honest about failures."""

from __future__ import annotations

import blackjax
import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from linear import cosine_prior, flat, linear_gaussian

import traceclass as tc
from traceclass.kernels.base import Kernel
from traceclass.sampling.functionals import chain_bytes
from traceclass.sampling.until import worst_of

QUICK = {"num_chains": 4, "num_warmup": 100, "num_samples": 24, "thin": 3, "progress": False}


def quick(**changes) -> tc.Run:
    posterior, _, _ = linear_gaussian()
    settings = QUICK | {"step_size": 0.3, "seed": 1}
    return tc.sample(posterior, tc.pcn, **(settings | changes))


@pytest.mark.parametrize("step_size", [0.3, "adapt"])
def test_draws_do_not_depend_on_chunks(step_size):
    whole = quick(step_size=step_size, num_warmup=410)
    for chunk_size in (1, 5, 24):
        run = quick(step_size=step_size, num_warmup=410, chunk_size=chunk_size)
        np.testing.assert_array_equal(run.positions, whole.positions)
        np.testing.assert_array_equal(run.acceptance, whole.acceptance)
        np.testing.assert_array_equal(run.draws["log_likelihood"], whole.draws["log_likelihood"])


def test_draws_do_not_depend_on_the_room_of_the_program(monkeypatch):
    """Short runs share a program with more room than they need; here it has as much as a chunk."""
    whole = quick()
    monkeypatch.setattr("traceclass.sampling.sampler._SHORT", 1)
    np.testing.assert_array_equal(quick(chunk_size=5).positions, whole.positions)


def test_same_seed_same_draws_other_seed_other_draws():
    np.testing.assert_array_equal(quick().positions, quick().positions)
    assert not np.array_equal(quick().positions, quick(seed=2).positions)


def test_the_seeds_own_key_is_left_to_the_user():
    """Whoever splits key(seed) for data does not get the keys that the chains start from."""
    prior = cosine_prior()
    starts = quick(num_warmup=0, num_samples=1, thin=1, step_size=1e-6).positions[:, 0]
    for key in (jax.random.key(1), *jax.random.split(jax.random.key(1), 4)):
        for chain, start in enumerate(starts):
            draw = prior.sample(jax.random.fold_in(jax.random.fold_in(key, chain), 0))
            assert float(jnp.max(jnp.abs(draw - start))) > 1e-3


def test_chains_are_spread_over_devices_and_differ():
    assert len(jax.devices()) == 2
    run = quick()
    assert run.num_devices == 2
    assert quick(num_chains=3).num_devices == 1
    assert len({chain.tobytes() for chain in run.positions}) == 4


def test_chains_that_begin_together_go_apart():
    """Each has keys of its own, not only a start of its own."""
    run = quick(initial_positions=np.zeros((4, 6)))
    assert len({chain.tobytes() for chain in run.positions}) == 4


def test_thinning_keeps_every_third_state():
    """Keys follow the global step, so the thinned run is a subset of the full one."""
    every = quick(thin=1, num_samples=72)
    np.testing.assert_array_equal(every.positions[:, 2::3], quick(thin=3).positions)


def test_the_program_is_traced_once():
    """Warm-up windows, adaptation, chunks of several sizes: one trace of the kernel's step."""
    traces = []

    def counting(posterior, step_size):
        algorithm = tc.pcn.build(posterior, step_size)

        def step(key, state):
            traces.append("step")
            return algorithm.step(key, state)

        return algorithm._replace(step=step)

    counted = Kernel(counting, tc.pcn.rule)
    posterior, _, _ = linear_gaussian()
    settings = QUICK | {"num_warmup": 405, "num_samples": 37}
    tc.sample(posterior, counted, step_size="adapt", **settings)
    assert traces == ["step"]
    other_data = eqx.tree_at(lambda p: p.likelihood.observations, posterior, jnp.zeros(8))
    tc.sample(other_data, counted, step_size="adapt", seed=5, **settings)
    assert traces == ["step"]
    shorter = settings | {"num_samples": 20, "chunk_size": 7}
    tc.sample(posterior, counted, step_size="adapt", **shorter)
    assert traces == ["step"]


@pytest.mark.parametrize("width", [10, pytest.param(60, marks=pytest.mark.long)])
def test_adaptation_meets_its_target(width):
    x = np.linspace(-1, 1, 20)[:, None]
    prior = tc.TraceClassNetwork(num_inputs=1, widths=(width, width))
    posterior = tc.Posterior(prior, tc.GaussianRegression(x, np.sin(3 * x[:, 0]), noise=0.5))
    run = tc.sample(
        posterior, tc.pcn, num_chains=4, num_warmup=4000, num_samples=200, thin=20, progress=False
    )
    assert run.acceptance_rate == pytest.approx(tc.pcn.rule.target, abs=0.05)
    assert 0 < run.step_size < 1


def test_adaptation_of_a_flat_likelihood_stops_at_the_largest_step():
    run = tc.sample(flat(cosine_prior()), tc.pcn, **(QUICK | {"num_warmup": 2000}))
    assert run.step_size == 1.0
    assert not any("not settled" in warning for warning in run.summary().warnings)


def test_recorded_functionals_and_moments_are_those_of_the_positions():
    def square(z):
        return z**2

    def first(z):
        return z[0]

    run = quick(record={"first": first}, moments={"square": square, "first": first})
    np.testing.assert_array_equal(run.draws["first"], run.positions[..., 0])
    mean, sd = run.moments("square")
    flat = run.flat_positions().astype(float) ** 2
    np.testing.assert_allclose(mean, flat.mean(axis=0), rtol=1e-4)
    np.testing.assert_allclose(sd, flat.std(axis=0, ddof=1), rtol=1e-4)
    assert run.moments("first")[0].shape == ()
    with pytest.raises(KeyError, match="known: first, square"):
        run.moments("cube")


@pytest.mark.long
def test_modules_and_their_methods_are_functionals():
    posterior, _, _ = linear_gaussian()
    x = jnp.array([[0.5], [1.0]])
    values_of = posterior.prior.at(x)
    run = tc.sample(
        posterior, tc.pcn, step_size=0.3, record={"v": values_of, "up": lambda z: z[0] > 0},
        moments={"v": values_of, "l": posterior.log_likelihood}, **QUICK,
    )  # fmt: skip
    np.testing.assert_allclose(run.moments("v")[0], run.draws["v"].mean(axis=(0, 1)), rtol=1e-4)
    np.testing.assert_allclose(run.moments("l")[0], run.draws["log_likelihood"].mean(), rtol=1e-4)
    np.testing.assert_array_equal(run.draws["up"], run.positions[..., 0] > 0)
    assert "up" in run.summary().table.index


def test_the_progress_shows_the_acceptance_of_all_draws(monkeypatch):
    shown = []

    class Collect:
        wants_ess = True

        def show(self, status):
            shown.append(status)

        def close(self):
            shown.append(None)

    monkeypatch.setattr("traceclass.sampling.sampler.make_progress", lambda _: Collect())
    run = quick(num_samples=200)
    assert shown[-1] is None
    assert shown[-2].acceptance_rate == pytest.approx(run.acceptance_rate, rel=1e-4)
    assert shown[-2].steps_done == shown[-2].steps_total == 600
    assert shown[0].phase == "warm-up"


def test_compilation_is_not_counted_as_sampling():
    """A kernel seen for the first time: seconds to compile, milliseconds to run."""
    posterior, _, _ = linear_gaussian()
    fresh = Kernel(lambda posterior, step_size: tc.pcn.build(posterior, step_size), tc.pcn.rule)
    run = tc.sample(posterior, fresh, step_size=0.3, **QUICK)
    assert run.compile_seconds > 3 * run.sampling_seconds


@pytest.mark.long
def test_a_short_adaptation_is_warned_of():
    """Frozen before the chains arrive, the step size misses its target, and the run says so."""
    x = np.linspace(-1, 1, 20)[:, None]
    prior = tc.TraceClassNetwork(num_inputs=1, widths=(10, 10))
    posterior = tc.Posterior(prior, tc.GaussianRegression(x, np.sin(3 * x[:, 0]), noise=0.02))
    run = tc.sample(posterior, tc.pcn, **(QUICK | {"num_warmup": 400, "num_samples": 100}))
    missed = abs(run.acceptance_rate - 0.234) > 0.1
    assert ("Use a longer warm-up" in str(run.summary())) == missed


def test_a_tempered_posterior_is_sampled_as_it_is():
    posterior, _, _ = linear_gaussian()
    run = tc.sample(posterior.tempered(0.0), tc.pcn, step_size=0.9, **QUICK)
    assert run.acceptance_rate == 1.0
    assert (run.draws["log_likelihood"] == 0).all()
    z = jnp.ones(posterior.prior.num_coordinates)
    twice = posterior.tempered(0.5).tempered(0.5).log_likelihood(z)
    np.testing.assert_allclose(twice, 0.25 * posterior.log_likelihood(z), rtol=1e-6)


def test_a_chain_that_one_move_moves_is_not_stuck():
    """Steps far too large are all rejected; elliptical slice sampling moves nevertheless."""
    posterior, _, _ = linear_gaussian()
    run = tc.sample(
        posterior, tc.cycle(tc.random_walk, tc.elliptical_slice), step_size=10.0, **QUICK
    )
    assert run.num_accepted.sum() == 0
    assert run.summary().stuck_chains == ()
    assert np.isfinite(run.summary().table["r_hat"]).all()


def test_groups_must_divide_the_chains():
    np.testing.assert_allclose(
        quick(group_size=1).positions, quick(group_size=2).positions, atol=1e-3
    )
    with pytest.raises(ValueError, match=r"group_size must divide num_chains \(4\), got 3"):
        quick(group_size=3)


def test_until_is_reached_and_bounded():
    reached = quick(until=tc.Until(ess=60, max_samples=2000), num_samples=10)
    assert reached.stopped_by == "until"
    assert 10 < reached.num_samples < 2000
    levels = reached.draws["log_likelihood"]
    assert worst_of(levels)[0] >= 60
    assert worst_of(levels[:, : int(reached.num_samples / 1.1) - 1])[0] < 60
    bounded = quick(until=tc.Until(ess=1e6, max_samples=15), num_samples=10)
    assert (bounded.stopped_by, bounded.num_samples) == ("max_samples", 15)
    hurried = quick(until=tc.Until(rhat=1.0001, max_time=1e-3), num_samples=10)
    assert hurried.stopped_by == "max_time"
    with pytest.raises(ValueError, match="'ends', which is not recorded"):
        quick(until=tc.Until(ess=10, of=("ends",)))
    with pytest.raises(ValueError, match="needs ess or rhat"):
        tc.Until()


def test_projected_bytes_are_those_a_run_keeps():
    posterior, _, _ = linear_gaussian()
    for every in (0, 1, 5):
        run = quick(store_positions=every or False, num_samples=24)
        real = sum(array.nbytes for array in run.recorded.values())
        assert 4 * chain_bytes(posterior, tc.pcn, {}, {}).kept(24, every) == real


def test_projected_bytes_are_those_a_tempered_run_keeps():
    posterior, _, _ = linear_gaussian()
    kernel = tc.tempered(tc.pcn, schedule=(1, 0.1, 0))
    run = tc.sample(posterior, kernel, step_size=0.3, num_warmup=0, num_samples=24, progress=False)
    real = sum(array.nbytes for array in run.recorded.values())
    assert 4 * chain_bytes(posterior, kernel, {}, {}).kept(24, 1) == real


def test_too_few_draws_are_warned_of():
    assert "too few for ESS" in str(quick(num_samples=3).summary())


def test_blackjax_mclmc_runs_in_our_driver():
    """It draws its momentum at the start and never rejects."""
    posterior, _, _ = linear_gaussian()
    run = tc.sample(
        posterior, lambda p, s: blackjax.mclmc(p.logdensity, 1.0, s), step_size=0.05, **QUICK
    )
    assert np.isfinite(run.draws["log_likelihood"]).all()
    assert run.acceptance_rate == 1.0


def test_without_positions_the_rest_stays():
    run = quick(store_positions=False)
    assert run.positions is None
    np.testing.assert_array_equal(run.draws["log_likelihood"], quick().draws["log_likelihood"])
    with pytest.raises(ValueError, match="kept no positions"):
        run.predict(np.zeros((1, 1)))


def test_initial_positions_are_where_chains_start():
    start = np.full((4, 6), 0.25)
    run = quick(initial_positions=start, num_warmup=0, num_samples=1, thin=1, step_size=1e-6)
    np.testing.assert_allclose(run.positions[:, 0], start, atol=1e-4)


def test_double_precision_where_asked(x64):
    run = quick()
    assert run.positions.dtype == np.float64
    assert run.draws["log_likelihood"].dtype == np.float64


@pytest.mark.long
def test_blackjax_nuts_runs_in_our_driver():
    """BlackJAX's kernel, our chunks: the closed-form mean within 5 standard errors of chains."""
    posterior, mean, _ = linear_gaussian()

    def nuts(posterior, step_size):
        return blackjax.nuts(posterior.logdensity, step_size, jnp.ones(6))

    run = tc.sample(
        posterior, nuts, step_size=0.1, num_chains=40, num_warmup=50, num_samples=40, thin=2,
        progress=False,
    )  # fmt: skip
    by_chain = run.positions.mean(axis=1)
    error = by_chain.std(axis=0, ddof=1) / np.sqrt(40)
    assert (np.abs(by_chain.mean(axis=0) - mean) < 5 * error).all()
    levels = jax.vmap(jax.vmap(posterior.log_likelihood))(jnp.asarray(run.positions))
    np.testing.assert_allclose(run.draws["log_likelihood"], levels, atol=1e-5)


def test_nonfinite_likelihood_is_rejected_and_counted():
    """NaN on half of the space: no draw lies there, and the count is reported."""
    posterior = tc.Posterior(
        cosine_prior(),
        tc.Likelihood(np.zeros((1, 1)), lambda v: jnp.where(v[0] > 0, 0.0, jnp.nan)),
    )
    run = tc.sample(posterior, tc.pcn, step_size=0.7, **QUICK)
    values = jax.vmap(posterior.values_of)(jnp.asarray(run.flat_positions()))
    assert float(values.min()) > 0
    assert run.num_nonfinite.sum() > 0
    assert "NaN or infinite at" in str(run.summary())


def test_a_hopeless_start_ends_in_one_clear_sentence():
    posterior = tc.Posterior(
        cosine_prior(), tc.Likelihood(np.zeros((1, 1)), lambda v: v[0] * jnp.nan)
    )
    with pytest.raises(ValueError, match=r"chain 0 cannot start.*nan at 100 prior draws in a row"):
        tc.sample(posterior, tc.pcn, step_size=0.5, **QUICK)
    with pytest.raises(ValueError, match="at its initial position"):
        tc.sample(posterior, tc.pcn, step_size=0.5, initial_positions=np.zeros((4, 6)), **QUICK)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"num_chains": 0}, "num_chains must be at least 1, got 0"),
        ({"num_samples": 0}, "num_samples must be at least 1"),
        ({"thin": 0}, "thin must be at least 1"),
        ({"num_warmup": -1}, "num_warmup must be at least 0"),
        ({"seed": -1}, "seed must be at least 0"),
        ({"chunk_size": -1}, "chunk_size must be at least 1"),
        ({"step_size": 2.0}, r"pcn needs a step size in \(0, 1\], got 2.0"),
        ({"step_size": "fast"}, "a number or \"adapt\", got 'fast'"),
        ({"step_size": "adapt", "num_warmup": 5}, "needs num_warmup >= 400, got 5"),
        ({"record": {"position": lambda z: z}}, "'position' is kept for the run itself"),
        ({"record": {"draw": lambda z: z}}, "'draw' is kept for the run itself"),
        ({"seed": 2**32}, "seed must be below 2"),
        ({"thin": 2**32}, "too long"),
        ({"initial_positions": np.zeros((3, 6))}, r"\(4, 6\), got \(3, 6\)"),
        ({"moments": {"huge": lambda _: jnp.zeros((10**6, 10**6))}}, "more than half of this"),
        ({"num_samples": 10**9}, "GiB .* more than half of this machine's memory"),
    ],
)
def test_bad_arguments_are_explained(changes, words):
    with pytest.raises(ValueError, match=words):
        quick(**changes)


def test_a_foreign_kernel_needs_a_step_size():
    posterior, _, _ = linear_gaussian()
    with pytest.raises(ValueError, match="needs a kernel of traceclass"):
        tc.sample(posterior, lambda p, s: tc.pcn(p, s), **QUICK)


def test_functionals_return_one_array():
    with pytest.raises(TypeError, match="'pair' must return one array"):
        quick(record={"pair": lambda z: (z, z)})
