"""References that are found in warm-up, one for each chain."""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from linear import linear_gaussian
from small import posterior as small_posterior
from small import sampled
from stopping import stopped_in_warm_up

import traceclass as tc
from traceclass.kernels.base import Kernel
from traceclass.sampling.adaptation.chainwise import ChainwiseAdaptation
from traceclass.sampling.adaptation.fitted_reference import fitted
from traceclass.sampling.adaptation.left_behind import beside_others, left_behind
from traceclass.sampling.adaptation.windows import WINDOW, Seen

ADAPTED = tc.hmc.using(reference="adapt")


def draws_and_gradients(mean, covariance, num_draws, num_idle, seed=0):
    """Draws of a Gaussian posterior with `num_idle` coordinates of which the data say nothing."""
    rng = np.random.default_rng(seed)
    x = rng.multivariate_normal(mean, covariance, size=num_draws)
    gradients = -(x - mean) @ np.linalg.inv(covariance) + x
    idle = rng.normal(size=(num_draws, num_idle))
    return np.hstack([x, idle]), np.hstack([gradients, np.zeros_like(idle)])


def covariance_of(fit) -> np.ndarray:
    v, s = fit.vectors, fit.scale
    inner = np.eye(len(s)) + v * (1 / (1 + fit.eigenvalues) - 1) @ v.T
    return s[:, None] * inner * s


def test_a_gaussian_posterior_is_found_from_few_draws():
    """A Gaussian's score is linear, so as many draws as unknowns determine it."""
    _, mean, covariance = linear_gaussian(noise=0.05)
    x, gradients = draws_and_gradients(mean, covariance, num_draws=40, num_idle=0)
    fit = fitted(x, gradients, rank=6)
    found = covariance_of(fit)
    # Directions within a factor of two after scaling are left alone on purpose.
    relative = np.linalg.eigvals(np.linalg.solve(covariance, found)).real
    assert relative.min() > 0.45
    assert relative.max() < 2.2
    distance = np.sqrt((fit.mean - mean) @ np.linalg.solve(covariance, fit.mean - mean))
    assert distance < 1.0


def test_scales_of_independent_coordinates_are_exact():
    """a_i = -x_i / s_i^2, so var(x_i) / var(a_i) is s_i^4, whatever the draws are."""
    sds = np.array([0.01, 0.1, 0.5, 1.0, 2.0])
    x, gradients = draws_and_gradients(np.ones(5), np.diag(sds**2), num_draws=200, num_idle=0)
    np.testing.assert_allclose(fitted(x, gradients, rank=3).scale, sds, rtol=1e-9)


def test_it_is_the_prior_where_the_data_say_nothing():
    """Exactly, however few draws: so it stays equivalent to the prior as coordinates are added."""
    _, mean, covariance = linear_gaussian(noise=0.05)
    for num_idle in (20, 2_000):
        x, gradients = draws_and_gradients(mean, covariance, num_draws=50, num_idle=num_idle)
        fit = fitted(x, gradients, rank=6)
        np.testing.assert_allclose(fit.scale[6:], 1.0, rtol=1e-12)
        away = covariance_of(fit)[6:, 6:] - np.eye(num_idle)
        # What is left is chance in the few directions of draws, not in every coordinate.
        assert np.linalg.norm(away) < 6.0
        assert np.linalg.norm(fit.mean[6:]) < 3.0


def test_a_chain_that_stood_still_keeps_the_prior():
    fit = fitted(np.ones((10, 4)), np.zeros((10, 4)), rank=3)
    np.testing.assert_array_equal(fit.scale, 1.0)
    np.testing.assert_array_equal(fit.eigenvalues, 0.0)
    assert np.isfinite(fit.mean).all()


@pytest.mark.parametrize("seed", range(3))
def test_scores_that_are_huge_in_one_direction_have_a_fit(seed):
    """Rounding of their covariance makes its smallest eigenvalues negative."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(30, 8))
    gradients = 1e12 * np.outer(rng.normal(size=30), rng.normal(size=8))
    for part in fitted(x, gradients, rank=6):
        assert np.isfinite(part).all()


def test_chains_are_tuned_apart_and_the_posterior_is_the_closed_form():
    """Moments of 6 coordinates within 5 standard errors, by ESS; a false alarm in 10^5."""
    posterior, mean, covariance = linear_gaussian(noise=0.02)
    run = tc.sample(posterior, ADAPTED, num_warmup=600, num_samples=1_000, progress=False)
    assert run.acceptance_rate > 0.7
    sizes = run.chain_tunings[0]["step_size"]
    assert len(sizes) == 4
    assert run.step_size == pytest.approx(np.median(sizes))
    # By the prior alone the step would be of the order of the noise.
    assert min(sizes) > 0.3
    x = run.positions
    ess = np.array([run_ess(x[..., i]) for i in range(x.shape[-1])])
    errors = np.sqrt(np.diag(covariance) / ess)
    assert (np.abs(x.mean(axis=(0, 1)) - mean) < 5 * errors).all()
    spread = x.var(axis=(0, 1)) / np.diag(covariance)
    assert (np.abs(spread - 1) < 5 * np.sqrt(2 / ess)).all()


def run_ess(draws: np.ndarray) -> float:
    from traceclass.sampling.diagnostics import worst_of

    return worst_of(draws)[0]


def gone_through(adaptation, num_warmup, positions, rate=0.8):
    """The tunings of so many steps, which end at positions(tuning, steps) of all chains."""
    tunings = []
    done = 0
    while done < num_warmup:
        tuning, steps = adaptation.window(done)
        assert 0 < steps <= WINDOW
        x = positions(tuning, steps)
        rates = np.full((len(x), 1), rate)
        seen = Seen(rates[0], np.array([steps]), rates, x[:, -1], (x, -np.square(x)))
        tunings.append((done, tuning))
        done += steps
        adaptation.update(done, seen, 0)
    assert done == num_warmup
    return tunings


@pytest.mark.parametrize(
    ("num_warmup", "num_fits", "competing"), [(400, 160, 1), (2_000, 1_000, 4)]
)
def test_references_are_frozen_before_draws_count(num_warmup, num_fits, competing):
    """After the last fit four compete, if there is time for it, and in the end one is left."""
    posterior, _, _ = linear_gaussian()
    adaptation = ChainwiseAdaptation(tc.hmc, num_warmup, posterior, num_chains=2)
    rng = np.random.default_rng(0)
    tunings = gone_through(adaptation, num_warmup, lambda _, steps: rng.normal(size=(2, steps, 6)))

    def scale_of(tuning):
        return tuning["reference"].scale.tobytes() if "reference" in tuning else "none"

    assert len({scale_of(tuning) for done, tuning in tunings if done < num_fits}) > 1
    after = [scale_of(tuning) for done, tuning in tunings if done >= num_fits]
    assert len(set(after) - {"none"}) == competing
    assert after[-2] == after[-1] == scale_of(adaptation.settled())
    assert adaptation.moved_by is not None


def chains_that_forget(own, prior):
    """Positions as of chains that keep these shares of themselves from step to step."""
    rng, at = np.random.default_rng(1), np.random.default_rng(2).normal(size=(4, 6))

    def positions(tuning, steps):
        nonlocal at
        is_own = tuning["reference"].scale.std() > 0 if "reference" in tuning else False
        kept = own if is_own else prior
        rows = []
        for _ in range(steps):
            at = kept * at + np.sqrt(1 - kept**2) * rng.normal(size=at.shape)
            rows.append(at)
        return np.stack(rows, axis=1).astype(np.float32)

    return positions


@pytest.mark.parametrize(("prior_keeps", "is_beaten"), [(0.999, True), (0.6, False)])
def test_the_prior_stays_unless_a_reference_is_far_better(prior_keeps, is_beaten):
    posterior, _, _ = linear_gaussian()
    adaptation = ChainwiseAdaptation(tc.hmc, 2_000, posterior, num_chains=4)
    gone_through(adaptation, 2_000, chains_that_forget(own=0.3, prior=prior_keeps))
    assert ("reference" in adaptation.settled()) == is_beaten


def test_a_move_that_is_tried_now_and_then_keeps_references_of_its_chains():
    """A mixture tries it too seldom for the step sizes of a contest."""
    kernel = tc.mixture(ADAPTED, tc.node_swap)
    run = sampled(kernel=kernel, num_warmup=1_400, num_samples=10)
    assert run.moved_by == ["a reference of each chain", None]
    assert "moved by a reference of each chain" in str(run.summary())


def test_chains_that_begin_again_in_the_contest_take_all_with_them():
    posterior, _, _ = linear_gaussian()
    adaptation = ChainwiseAdaptation(tc.hmc, 2_000, posterior, num_chains=2)
    rng = np.random.default_rng(0)
    gone_through(adaptation, 1_400, lambda _, steps: rng.normal(size=(2, steps, 6)))
    adaptation.go_on_from(np.array([1, 1]))
    for name, array in adaptation.memory().items():
        if array.ndim > 1 and array.shape[0] == 2 and "kicks" not in name and array.size:
            ours, theirs = (array[:, c] for c in (0, 1)) if name == "draws" else array
            np.testing.assert_array_equal(ours, theirs, err_msg=name)


def test_where_the_data_say_little_the_kernel_goes_on_without_a_reference(tmp_path, monkeypatch):
    """And it is resumed so."""
    frozen, settled = [], ChainwiseAdaptation.settled

    def recording(adaptation):
        frozen.append(settled(adaptation))
        return frozen[-1]

    monkeypatch.setattr(ChainwiseAdaptation, "settled", recording)
    settings = {"kernel": ADAPTED, "target": small_posterior(noise=3.0), "num_warmup": 1_400}
    whole = sampled(**settings)
    sampled(tmp_path / "run", num_samples=10, **settings)
    assert sampled(tmp_path / "run", resume=True, **settings).sha256() == whole.sha256()
    assert all(set(tuning) == {"step_size", "num_kicks"} for tuning in frozen)
    assert len(frozen) == 3
    assert whole.moved_by == ["the prior"]


def test_it_is_traced_once():
    """A new reference is a new array, not a new program."""
    traces = []

    def counting(posterior, step_size, num_kicks):
        algorithm = tc.hmc.build(posterior, step_size, num_kicks)

        def step(key, state):
            traces.append("step")
            return algorithm.step(key, state)

        return algorithm._replace(step=step)

    counted = Kernel(counting, tc.hmc.rule, thin=1, kicks=tc.hmc.kicks).using(reference="adapt")
    posterior, _, _ = linear_gaussian()
    settings = {"num_warmup": 400, "num_samples": 10, "num_chains": 2, "progress": False}
    tc.sample(posterior, counted, **settings)
    assert traces == ["step"]
    other = eqx.tree_at(lambda p: p.likelihood.observations, posterior, np.zeros(8, np.float32))
    tc.sample(other, counted, seed=1, **settings)
    assert traces == ["step"]


def test_a_run_is_stored_resumed_and_opened(tmp_path):
    """Stopped in warm-up or between draws, it goes on to the same draws bit for bit."""
    kernel = tc.cycle(ADAPTED, tc.node_swap)
    whole = sampled(kernel=kernel)
    stored = sampled(tmp_path / "run", kernel=kernel, num_samples=50)
    more = sampled(tmp_path / "run", kernel=kernel, resume=True)
    assert more.sha256() == whole.sha256()
    opened = tc.open_run(tmp_path / "run", small_posterior())
    assert opened.chain_tunings == whole.chain_tunings
    assert opened.sha256() == whole.sha256()
    np.testing.assert_array_equal(stored.draws["ends"], whole.draws["ends"][:, :50])


@pytest.mark.parametrize("stop", [60, 500, pytest.param(160, marks=pytest.mark.long)])
def test_a_run_that_is_stopped_in_warm_up_is_resumed(stop, tmp_path, monkeypatch):
    """Right after a fit, while states are still computed at another temperature, or in a trial."""
    settings = {"kernel": ADAPTED, "target": small_posterior(noise=0.001), "num_warmup": 800}
    settings |= {"num_samples": 10, "chunk_size": None}
    whole = sampled(**settings)
    stopped_in_warm_up(monkeypatch, stop, tmp_path / "run", **settings)
    resumed = sampled(tmp_path / "run", resume=True, **settings)
    assert resumed.sha256() == whole.sha256()


def test_another_trajectory_beside_it_cuts_its_windows_short():
    """Trials of the second one end at any step; the first one still fits and settles."""
    run = sampled(kernel=tc.cycle(ADAPTED, tc.hmc), num_samples=10)
    assert run.moves == ["hmc_1", "hmc_2"]
    assert len(run.chain_tunings[0]["step_size"]) == 2
    assert run.chain_tunings[1] == {}


def test_draws_that_are_of_no_use_leave_a_reference_as_it_is():
    """NaN among gradients, and a chain that stood still."""
    posterior, _, _ = linear_gaussian()
    adaptation = ChainwiseAdaptation(tc.hmc, 400, posterior, num_chains=2)
    before = adaptation.settled()["reference"]
    x = np.random.default_rng(0).normal(size=(2, WINDOW, 6))
    x[1] = 1.0
    gradients = np.full_like(x, np.nan)
    gradients[1] = 1e6
    rates = np.full((2, 1), 0.5)
    for window in range(4):
        adaptation.window(window * WINDOW)
        seen = Seen(rates[0], np.array([WINDOW]), rates, x[:, -1], (x, gradients))
        adaptation.update((window + 1) * WINDOW, seen, 0)
    after = adaptation.settled()["reference"]
    np.testing.assert_array_equal(after.mean, before.mean)
    np.testing.assert_array_equal(after.scale, before.scale)


def test_kernels_without_gradients_find_one_too_and_say_when_they_cannot():
    posterior, _, _ = linear_gaussian(noise=0.05)
    pcn = tc.pcn.using(reference="adapt")
    run = tc.sample(posterior, pcn, num_warmup=2_000, num_samples=50, progress=False)
    plain = tc.sample(posterior, tc.pcn, num_warmup=2_000, num_samples=50, progress=False)
    assert run.step_size > 3 * plain.step_size

    def called_back(values):
        shape = jax.ShapeDtypeStruct((), values.dtype)
        return jax.pure_callback(
            lambda v: -np.sum(np.asarray(v) ** 2), shape, values, vmap_method="sequential"
        )

    blind = tc.Posterior(posterior.prior, tc.Likelihood(np.zeros((1, 1)), called_back))
    with pytest.raises(tc.UserError, match="needs the gradient"):
        tc.sample(blind, pcn, num_warmup=400, num_samples=10, progress=False)


def test_outside_of_sampling_there_is_no_reference_to_be_found():
    posterior, _, _ = linear_gaussian()
    with pytest.raises(tc.UserError, match="needs the warm-up"):
        ADAPTED(posterior, 0.1)
    with pytest.raises(tc.UserError, match="needs the warm-up"):
        tc.smc_kernel(ADAPTED)
    with pytest.raises(tc.UserError, match="finds no reference"):
        tc.elliptical_slice.using(reference="adapt")


def test_a_run_by_the_prior_is_another_run(tmp_path):
    sampled(tmp_path / "run", kernel=ADAPTED, num_samples=10)
    with pytest.raises(tc.StoreError, match="reference adapt there, none here"):
        sampled(tmp_path / "run", kernel=tc.hmc, num_samples=10, resume=True)


@pytest.mark.parametrize(
    ("kernel", "settings", "words"),
    [
        (ADAPTED, {"step_size": 0.1}, "needs step_size"),
        (ADAPTED, {"num_warmup": 100}, "num_warmup >= 400"),
    ],
)
def test_what_it_needs_is_said(kernel, settings, words):
    posterior, _, _ = linear_gaussian()
    with pytest.raises(tc.UserError, match=words):
        tc.sample(posterior, kernel, progress=False, **settings)


def test_tempering_needs_a_reference_that_is_there():
    with pytest.raises(tc.UserError, match="does not find references"):
        tc.tempered(tc.cycle(ADAPTED, tc.node_swap))


def test_a_word_that_is_no_reference_is_refused():
    with pytest.raises(tc.UserError, match="adapt"):
        tc.hmc.using(reference="fit")


def on_a_ledge(z):
    """A Gaussian around 2 for the first coordinate, and beyond -3 a plateau far below it."""
    return jnp.where(z[0] < -3, -500.0, -0.5 * ((z[0] - 2) / 0.1) ** 2 + 3e-3 * z[0])


@pytest.mark.parametrize("kernel", [ADAPTED, tc.hmc], ids=["adapted", "hmc"])
def test_a_chain_left_behind_begins_again_beside_another(kernel, tmp_path):
    """It is told, and the draws are the posterior's for all chains; a resumed run repeats it."""
    prior = tc.Series(lambda x: jnp.ones((len(x), 1)), [16.0], num_inputs=1)
    target = tc.Posterior(prior, tc.Likelihood(np.zeros((1, 1)), on_a_ledge))
    settings = {
        "kernel": kernel,
        "target": target,
        "initial_positions": np.array([[0.4], [0.5], [-1.2], [0.6]]),
        "num_chains": 4,
        "record": None,
        "moments": None,
        "chunk_size": None,
    }
    run = sampled(**settings)
    assert [restart["chain"] for restart in run.restarts] == [2]
    assert run.restarts[0]["beside"] in (0, 1, 3)
    assert (run.positions > 0).all()
    assert any("chain 2 was left behind" in text for text in run.summary().warnings)
    stored = sampled(tmp_path / "run", num_samples=10, **settings)
    assert stored.restarts == run.restarts
    assert sampled(tmp_path / "run", resume=True, **settings).sha256() == run.sha256()
    assert tc.open_run(tmp_path / "run").restarts == run.restarts


def test_only_what_is_far_below_is_left_behind():
    rng = np.random.default_rng(0)
    levels = 1000 + 10 * rng.normal(size=(8, 20)) + 20 * rng.normal(size=(8, 1))
    assert left_behind(levels).size == 0
    levels[5] -= 400
    np.testing.assert_array_equal(left_behind(levels), [5])
    # Two modes that hold about as many chains, or few chains: nobody is behind.
    halves = np.repeat([0.0, -300.0], 4)[:, None] + rng.normal(size=(8, 20))
    assert left_behind(halves).size == 0
    assert left_behind(halves[[0, 7]]).size == 0
    # A narrow posterior: a mode that is a little lower may have its share.
    levels = 0.1 * rng.normal(size=(8, 20))
    levels[2] -= 40
    assert left_behind(levels).size == 0
    origins = beside_others(np.array([1, 3]), 5, (0, 100))
    np.testing.assert_array_equal(origins[[0, 2, 4]], [0, 2, 4])
    assert set(origins[[1, 3]]) <= {0, 2, 4}
