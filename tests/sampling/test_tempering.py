"""Tempered runs through `tc.sample`: schedule, evidence, store and what they say of themselves."""

from __future__ import annotations

import numpy as np
import pytest
from by_night import by_night
from linear import linear_gaussian
from small import posterior as small_posterior

import traceclass as tc
from benchmarks.modes import two_modes
from traceclass.model_choice.evidence import stepping_stones, thermodynamic_integral
from traceclass.model_choice.tempering import Tempering
from traceclass.sampling.adaptation.temperatures import TemperedAdaptation, _round_ends, equalised
from traceclass.sampling.adaptation.windows import Seen

pytestmark = pytest.mark.xdist_group("tempering")


def seen(rates: np.ndarray, tried: np.ndarray) -> Seen:
    """What a window has shown, pooled over chains: all that temperatures are found by."""
    return Seen(rates, tried, rates[None], None, None)


def test_equal_refusals_from_a_known_barrier():
    """Lambda(t) = 3 t^(1/3): refusals of any schedule are its differences, and t = (k/n)^3."""
    wanted = np.linspace(1, 0, 13) ** 3
    t = np.array([*np.geomspace(1, 1e-3, 12), 0.0])
    for _ in range(6):
        t = equalised(t, -np.diff(3 * t ** (1 / 3)))
    assert t[0] == 1
    assert t[-1] == 0
    refused = -np.diff(3 * t ** (1 / 3))
    assert np.ptp(refused) < 0.02 * refused.mean()
    assert np.allclose(t, wanted, rtol=0.06)


def test_a_barrier_all_at_the_prior_is_found_in_rounds():
    """Lambda(t) = min(1, t / 1e-9) + t: half of it lies below the first schedule's hottest t."""

    def barrier(t):
        return np.minimum(1, t / 1e-9) + t

    t = np.array([*np.geomspace(1, 1e-3, 8), 0.0])
    for _ in range(12):
        t = equalised(t, -np.diff(barrier(t)))
    assert -np.diff(barrier(t)).max() < 0.45


def adapted(kernel: tc.Kernel, acceptance, num_warmup: int, tries=None) -> list[dict]:
    """What warm-up finds where a move of size s is accepted at the rate `acceptance(s, window)`."""
    adaptation = TemperedAdaptation(kernel.ladder, num_warmup, sizes_are_given=False)
    tuning = list(kernel.tuning(kernel.first_step_size))
    for window in range(num_warmup // 20):
        tuning, _ = adaptation.window(20 * window, tuning)
        tried = np.array([20.0 if tries is None else tries[n](window) for n in range(len(tuning))])
        rates = [
            acceptance(move["step_size"], window) if "step_size" in move else 0.5 for move in tuning
        ]
        adaptation.update(20 * (window + 1), seen(np.where(tried > 0, rates, 0.0), tried))
    return adaptation.settled(tuning)


def test_steps_recover_from_a_slow_start():
    """Nothing is accepted in the first ten windows; then 0.8 at a step of 0.01."""

    def acceptance(size, window):
        return 0.0 if window < 10 else np.exp(-size * -np.log(0.8) / 0.01)

    found = adapted(tc.tempered(tc.hmc, num_temperatures=3), acceptance, 600)
    assert 0.005 < found[0]["step_size"] < 0.02


def test_a_move_that_is_seldom_tried_keeps_its_step():
    """One window in two tries the second move at all: the others say nothing about it."""

    def acceptance(size, _):
        return np.exp(-size * -np.log(0.5) / 0.1)

    kernel = tc.tempered(tc.mixture(tc.pcn, tc.hmc), num_temperatures=2)
    seldom = [lambda _: 20.0, lambda window: 6.0 * (window % 2), lambda _: 10.0]
    found = adapted(kernel, acceptance, 2_000, seldom)
    # 0.8 is reached at 0.032 by HMC, 0.234 at 0.21 by pCN.
    assert found[1]["step_size"] == pytest.approx(0.0322, rel=0.2)
    assert found[0]["step_size"] == pytest.approx(0.2095, rel=0.1)


def test_the_hottest_temperature_stays_a_number():
    """Prior draws with impossible data are refused at any t: the schedule must not run to zero."""
    t = np.array([*np.geomspace(1, 1e-3, 5), 0.0])
    for _ in range(60):
        t = equalised(t, np.ones(5))
    assert (np.diff(t) < 0).all()
    assert np.float32(t[-2]) > 0
    assert np.isfinite(1 / np.float32(t[-2]))


def test_rounds_end_within_their_share_of_warm_up():
    ends = sorted(_round_ends(2_000))
    assert len(ends) >= 6
    assert ends[-1] <= 1_400
    assert all(end % 20 == 0 for end in ends)
    assert len(_round_ends(400)) >= 3


def gaussian_levels(num_draws: int, t: np.ndarray, seed: int) -> tuple[np.ndarray, float]:
    """l at each t of the model y = z + e in 3 dimensions, drawn exactly, and log p(y)."""
    rng = np.random.default_rng(seed)
    y, noise = np.array([0.5, -1.0, 2.0]), 0.5
    precision = 1 + t[:, None] / noise**2
    mean = t[:, None] * y / noise**2 / precision
    z = mean + rng.normal(size=(4, num_draws, len(t), 3)) / np.sqrt(precision)
    levels = -0.5 * np.sum(((y - z) / noise) ** 2 + np.log(2 * np.pi * noise**2), axis=-1)
    variance = 1 + noise**2
    exact = -0.5 * np.sum(y**2 / variance + np.log(2 * np.pi * variance))
    return levels, float(exact)


def test_both_evidences_and_their_errors_from_exact_draws():
    """Over 200 repeats: unbiased within 5 errors of the mean, and spread as the errors say."""
    t = np.array([1.0, 0.6, 0.35, 0.2, 0.1, 0.05, 0.02, 0.0])
    found = []
    for seed in range(200):
        levels, exact = gaussian_levels(250, t, seed)
        found.append([*stepping_stones(t, levels), *thermodynamic_integral(t, levels)])
    stones, stones_error, thermo, thermo_error = np.array(found).T
    for estimates, errors in ((stones, stones_error), (thermo, thermo_error)):
        assert abs(estimates.mean() - exact) < 5 * estimates.std() / np.sqrt(200) + 0.1 * errors[0]
        # The largest of three estimates of the same error is above it by a quarter, not twice it.
        assert 0.9 < errors.mean() / estimates.std() < 1.9


@pytest.mark.parametrize("t", [(1.0, 0.0), (1.0, 0.05, 0.0)])
def test_an_evidence_without_overlap_has_a_large_error(t):
    """20 dimensions, noise 0.1, exact draws: far too low, and said to be."""
    rng = np.random.default_rng(0)
    t, y, noise = np.array(t), np.full(20, 0.7), 0.1
    precision = 1 + t[:, None] / noise**2
    mean = t[:, None] * y / noise**2 / precision
    z = mean + rng.normal(size=(4, 500, len(t), 20)) / np.sqrt(precision)
    levels = -0.5 * np.sum(((y - z) / noise) ** 2 + np.log(2 * np.pi * noise**2), axis=-1)
    exact = -0.5 * np.sum(y**2 / (1 + noise**2) + np.log(2 * np.pi * (1 + noise**2)))
    value, error = stepping_stones(t, levels)
    assert value < exact - 5
    assert exact - value < 3 * error


def test_impossible_draws_of_the_prior_count_as_zero_likelihood():
    t = np.array([1.0, 0.3, 0.0])
    levels, exact = gaussian_levels(4_000, t, 0)
    levels = np.concatenate([levels, levels], axis=1)
    levels[:, 4_000:, -1] = -np.inf
    value, error = stepping_stones(t, levels)
    # Half of the prior's draws make the data impossible: the ratio of the first stone halves.
    assert abs(value - (exact - np.log(2))) < 4 * error + 0.02
    assert np.isnan(thermodynamic_integral(t, levels)).all()


@pytest.fixture(scope="module")
def bimodal():
    problem = two_modes()
    run = tc.sample(
        problem.posterior,
        tc.tempered(tc.hmc.using(num_kicks=4), num_temperatures=8),
        num_warmup=1_000,
        num_samples=6_000,
        record={"axis": problem.axis},
        progress=False,
    )
    return problem, run


def test_two_modes_get_their_weights_and_their_evidence(bimodal):
    """Modes 12 standard deviations apart, against quadrature; false alarm about 1e-3 each."""
    problem, run = bimodal
    assert problem.distance > 12
    above = (run.draws["axis"] > 0).astype(float)
    by_part = above.reshape(4 * 5, -1).mean(axis=1)
    error = by_part.std(ddof=1) / np.sqrt(by_part.size)
    assert error < 0.03
    assert abs(above.mean() - problem.probability) < 3.5 * error
    evidence = run.evidence
    assert evidence.standard_error < 0.1
    assert abs(evidence.log_evidence - problem.log_evidence) < 3 * evidence.standard_error
    assert run.summary().table["r_hat"].max() < 1.02


def test_round_trips_of_every_replica(bimodal):
    """Twenty in a run that takes seconds; and nearly as many as theory allows."""
    _, run = bimodal
    tempering = run.tempering
    assert tempering.round_trips.shape == (4, 8)
    assert tempering.round_trips.min() >= 20
    assert 0.3 < tempering.round_trip_rate / tempering.ideal_round_trip_rate < 1.05
    # Refusals are equal, up to their own noise.
    assert np.ptp(tempering.rejections) < 0.1
    assert tempering.barrier == pytest.approx(tempering.rejections.sum())
    assert "communication barrier" in str(tempering)
    assert str(tempering).count("\n") == 2 + 8


@pytest.mark.parametrize(
    "kernel", by_night([tc.hmc, tc.pcn], long=[tc.hmc]), ids=lambda kernel: kernel.name
)
def test_plain_kernels_stay_in_the_mode_where_they_begin(kernel):
    """The control: what tempering is for. All chains begin in the smaller mode and never leave."""
    problem = two_modes()
    run = tc.sample(
        problem.posterior,
        kernel,
        num_warmup=600,
        num_samples=400,
        initial_positions=np.tile(problem.start, (4, 1)),
        record={"axis": problem.axis},
        progress=False,
    )
    assert (run.draws["axis"] < 0).all()


def test_a_summary_shows_the_temperatures_and_not_every_move(bimodal):
    _, run = bimodal
    text = str(run.summary())
    assert "communication barrier" in text
    assert "swap_3" not in text
    assert "round trips between prior and posterior, too few" not in text


@pytest.mark.long
def test_replicas_that_do_not_travel_are_a_warning():
    """Two temperatures far apart: hardly a swap, and a word about it."""
    problem = two_modes()
    run = tc.sample(
        problem.posterior, tc.tempered(tc.pcn, schedule=(1, 0)), step_size=0.1, num_warmup=0,
        num_samples=20, initial_positions=np.tile(problem.start, (4, 1)), progress=False,
    )  # fmt: skip
    assert any("too few for the evidence" in text for text in run.summary().warnings)


def test_the_schedule_rests_before_warm_up_ends():
    """The last rounds tune step sizes for a schedule that moves no more, and draws keep it."""
    num_warmup = 2_200
    adaptation = TemperedAdaptation(
        tc.tempered(tc.pcn, num_temperatures=4).ladder, num_warmup, sizes_are_given=False
    )
    tuning = list(tc.tempered(tc.pcn, num_temperatures=4).tuning(0.3))
    schedules = []
    for window in range(num_warmup // 20):
        tuning, _ = adaptation.window(20 * window, tuning)
        # Refusals that differ from round to round: a schedule that may move does.
        rates = np.array([0.3] * 3 + [0.9, 0.5, 0.1 + 0.2 * (window % 3)])
        adaptation.update(20 * (window + 1), seen(rates, np.full(6, 20.0)))
        schedules.append(adaptation.memory()["schedule"].tolist())
    moved_at = [k for k in range(1, len(schedules)) if schedules[k] != schedules[k - 1]]
    assert len(moved_at) >= 3
    assert 20 * (moved_at[-1] + 1) <= 0.7 * num_warmup
    assert all(max(_round_ends(n)) <= 0.7 * n for n in range(400, 10_000, 100))
    settled = [move["inverse_temperature"] for move in adaptation.settled(tuning)[3:]]
    assert settled == schedules[-1][1:]


def test_round_trips_of_warm_up_do_not_count():
    """They were made with other schedules: only what is added while draws are made."""
    run = tempered_small()
    counted = run.recorded["tempering/round_trips"]
    assert counted[:, 0].sum() > 0  # there were some before
    assert np.array_equal(run.tempering.round_trips, counted[:, -1] - counted[:, 0])
    assert run.tempering.round_trips.sum() < counted[:, -1].sum()


def test_schedule_and_sizes_are_frozen_after_warm_up(bimodal):
    _, run = bimodal
    tempering = run.tempering
    t = tempering.inverse_temperatures
    assert t[0] == 1
    assert t[-1] == 0
    assert (np.diff(t) < 0).all()
    assert len(run.moves) == 14
    assert run.moves[0] == "hmc_1"
    assert run.moves[-1] == "swap_7"
    # Hotter replicas take longer steps.
    assert tempering.step_sizes[0] < tempering.step_sizes[-2]
    assert abs(run.acceptance_rate - 0.8) < 0.1


def tempered_small(store=None, **changes) -> tc.Run:
    arguments = {
        "num_chains": 2, "num_warmup": 400, "num_samples": 60, "thin": 2, "chunk_size": 20,
        "store": store, "progress": False,
    }  # fmt: skip
    kernel = tc.tempered(tc.pcn, num_temperatures=4)
    return tc.sample(small_posterior(), kernel, **(arguments | changes))


def test_a_stored_run_is_resumed_to_the_same_draws(tmp_path, monkeypatch):
    """Stopped in warm-up and again between draws; round trips and schedule go on too."""
    whole = tempered_small()
    stops = iter([7, 22])

    class StopError(Exception):
        pass

    from traceclass.sampling.session import Session

    look = Session.look

    def stopping(session, *, cut):
        look(session, cut=cut)
        stopping.count += 1
        if stopping.count == stopping.at:
            raise StopError

    stopping.count = 0
    monkeypatch.setattr(Session, "look", stopping)
    for at in stops:
        stopping.at = at
        with pytest.raises(StopError):
            tempered_small(tmp_path / "run", resume=(at > 7))
    stopping.at = -1
    resumed = tempered_small(tmp_path / "run", resume=True)
    assert resumed.sha256() == whole.sha256()
    assert np.array_equal(resumed.last_positions, whole.positions[:, -1])
    opened = tc.open_run(tmp_path / "run")
    assert opened.evidence == whole.evidence
    assert np.array_equal(opened.last_positions, whole.last_positions)
    assert np.array_equal(opened.tempering.round_trips, whole.tempering.round_trips)
    # What is kept of all temperatures is not among what was asked for.
    assert set(opened.draws) == {"log_likelihood"}
    with pytest.raises(tc.StoreError, match="schedule adapt there"):
        tc.sample(
            small_posterior(), tc.tempered(tc.pcn, schedule=(1, 0.3, 0.1, 0)), num_chains=2,
            num_warmup=400, num_samples=60, thin=2, store=tmp_path / "run", resume=True,
            progress=False,
        )  # fmt: skip
    with pytest.raises(tc.StoreError, match="kernel"):
        tc.sample(
            small_posterior(), tc.tempered(tc.pcn, num_temperatures=5), num_chains=2,
            num_warmup=400, num_samples=60, thin=2, store=tmp_path / "run", resume=True,
            progress=False,
        )  # fmt: skip


def test_tempering_is_traced_once_for_warm_up_and_draws():
    """One compilation for all windows, schedules and chunks, and none for a second run."""
    traces = []

    def inner(posterior, step_size):
        algorithm = tc.pcn(posterior, step_size)

        def step(key, state):
            traces.append(1)
            return algorithm.step(key, state)

        return algorithm._replace(step=step)

    kernel = tc.tempered(inner, num_temperatures=3)
    target = small_posterior()
    settings = {"step_size": 0.3, "num_chains": 2, "num_warmup": 400, "progress": False}
    tc.sample(target, kernel, num_samples=5, chunk_size=5, **settings)
    once = len(traces)
    assert once > 0
    tc.sample(target, kernel, num_samples=40, chunk_size=5, seed=1, **settings)
    assert len(traces) == once


def test_a_run_without_tempering_has_no_evidence():
    posterior, _, _ = linear_gaussian()
    run = tc.sample(posterior, tc.pcn, step_size=0.4, num_warmup=0, num_samples=5, progress=False)
    with pytest.raises(ValueError, match=r"made by pcn without tempering.*tc\.tempered"):
        _ = run.evidence
    with pytest.raises(ValueError, match="without tempering"):
        _ = run.tempering


@pytest.mark.long
def test_a_schedule_needs_a_warm_up_to_be_found():
    posterior, _, _ = linear_gaussian()
    with pytest.raises(ValueError, match="tempered needs num_warmup >= 400, got 100"):
        tc.sample(posterior, tc.tempered(tc.pcn), step_size=0.1, num_warmup=100)
    run = tc.sample(
        posterior, tc.tempered(tc.pcn, schedule=(1, 0.1, 0)), step_size=0.1, num_warmup=0,
        num_samples=8, progress=False,
    )  # fmt: skip
    assert run.tempering.inverse_temperatures.tolist() == [1, 0.1, 0]


def test_barrier_and_ideal_rate_by_hand():
    tempering = Tempering(
        np.array([1.0, 0.5, 0.0]), np.array([0.5, 0.5]), *(np.zeros(3),) * 2,
        np.zeros((2, 11, 3)), np.zeros((2, 11, 3)), np.array([[1, 0, 2], [1, 1, 1]]), 10,
    )  # fmt: skip
    assert tempering.barrier == 1
    assert tempering.suggested_temperatures == 3
    assert tempering.ideal_round_trip_rate == pytest.approx(1 / 6)
    assert tempering.round_trip_rate == pytest.approx(0.3)
