"""One mistake each, in the source itself: what to write in place of what, and who should see it.

Every mutant is a line that a tired person could have written. `tests` are those that are run on
it, quick ones of `make test`; one of them has to fail.
"""

from __future__ import annotations

from typing import NamedTuple


class Mutant(NamedTuple):
    """`new` in place of `old`, which stands in `file` once; `only` are words of tests' names."""

    file: str
    old: str
    new: str
    tests: tuple[str, ...]
    only: str = ""

    def __str__(self) -> str:
        return f"{self.file}: {' '.join(self.new.split())[:60]}"


KERNELS = ("kernels/test_kernels.py",)
PCN = ("kernels/test_pcn.py",)
REVERSIBLE = ("statistical/test_reversibility.py",)
INVARIANT = ("statistical/test_invariance.py",)
TEMPERED = ("kernels/test_tempered.py",)
TEMPERING = ("sampling/test_tempering.py",)
NETWORK = ("priors/test_network.py", "priors/test_refine.py", "test_theory.py")
SERIES = ("priors/test_series.py",)
CHOICE = ("likelihoods/test_choice_probability.py",)
ACTIONS = ("likelihoods/test_action_choice.py",)
DARCY = ("likelihoods/test_darcy.py",)
STORE = ("sampling/test_store.py",)
SAMPLE = ("sampling/test_sample.py",)
SIDE_BY_SIDE = ("sampling/test_side_by_side.py",)
RUN = ("sampling/test_run.py", "sampling/test_sample.py")
SCORES = ("test_scores.py",)

MUTANTS = [
    # -- kernels -------------------------------------------------------------------------------
    Mutant(
        "kernels/pcn.py",
        "jnp.sqrt(1 - beta**2) * state",
        "(1 - beta) * state",
        PCN,
        "closed_form or beta_one",
    ),
    Mutant(
        "kernels/pcn.py",
        "proposal.log_likelihood - state.log_likelihood\n",
        "state.log_likelihood - proposal.log_likelihood\n",
        PCN,
        "closed_form",
    ),
    Mutant(
        "kernels/pcnl.py",
        "delta / 4 * across + delta",
        "delta / 4 * across - delta",
        REVERSIBLE,
        "pcnl",
    ),
    Mutant(
        "kernels/pcnl.py",
        "rho(state, proposal, delta) - rho(proposal, state, delta)",
        "rho(proposal, state, delta) - rho(state, proposal, delta)",
        REVERSIBLE + INVARIANT,
        "pcnl",
    ),
    Mutant(
        "kernels/pcnl.py", "2 * delta * g + jnp", "delta * g + jnp", INVARIANT, "pcnl and not fault"
    ),
    Mutant("kernels/mala.py", "0.125 * s**2", "0.25 * s**2", REVERSIBLE + INVARIANT, "mala"),
    Mutant("kernels/random_walk.py", "+ 0.5 * s**2 * jnp.vdot(xi, xi)", "", KERNELS, "controls"),
    Mutant(
        "kernels/hmc.py", "+ 0.5 * h**2 * jnp.vdot(g, g)", "", KERNELS + INVARIANT, "energy or hmc"
    ),
    Mutant(
        "kernels/hmc.py",
        "number < num_kicks - 1, epsilon",
        "number < num_kicks, epsilon",
        REVERSIBLE + INVARIANT,
        "hmc",
    ),
    Mutant(
        "kernels/hmc.py",
        "jax.random.uniform(key_jitter",
        "jax.random.uniform(key_momentum",
        KERNELS,
        "jitter",
    ),
    Mutant(
        "kernels/hmc.py",
        "work - (end.log_likelihood - state.log_likelihood)",
        "work - 0.95 * (end.log_likelihood - state.log_likelihood)",
        REVERSIBLE,
        "hmc",
    ),
    Mutant(
        "kernels/metropolis.py",
        "| jnp.isnan(log_ratio)",
        "",
        KERNELS + PCN + TEMPERED,
        "not_a_number",
    ),
    Mutant(
        "kernels/metropolis.py",
        "~jnp.isfinite(proposal.log_likelihood)",
        "jnp.isnan(proposal.log_likelihood)",
        PCN,
        "failing",
    ),
    Mutant(
        "kernels/metropolis.py",
        "jnp.exp(jnp.minimum(log_ratio, 0.0))\n    return",
        "jnp.exp(log_ratio)\n    return",
        KERNELS + SAMPLE,
        "pcn or accepted",
    ),
    Mutant(
        "kernels/nodes.py",
        "(r2 - 1) * jnp.vdot(b, b)",
        "(r2 - 1) * jnp.vdot(a, a)",
        REVERSIBLE,
        "swap",
    ),
    Mutant(
        "kernels/nodes.py",
        "(1 - 1 / alpha) ** (i - 1.0)",
        "(1 / alpha) ** (i - 1.0)",
        KERNELS,
        "law",
    ),
    Mutant(
        "kernels/nodes.py",
        "one_based / (one_based + 1)",
        "(one_based + 1) / one_based",
        REVERSIBLE,
        "swap",
    ),
    Mutant(
        "kernels/node_swap.py",
        "_exchange(state.gradient, pair, 1 / pair.ratio",
        "_exchange(state.gradient, pair, pair.ratio",
        KERNELS,
        "cached",
    ),
    Mutant(
        "kernels/reference.py",
        "-jnp.vdot(self.mean, z) + 0.5",
        "0.5",
        INVARIANT,
        "reference and not fault",
    ),
    Mutant(
        "kernels/reference.py",
        "reference.left(inner)._replace(position=position)",
        "inner._replace(position=position)",
        ("test_laplace_approximation.py",),
    ),
    Mutant("kernels/replicas.py", "(t[:-1] - t[1:]) * (log", "(t[1:] - t[:-1]) * (log", TEMPERED),
    Mutant("kernels/replicas.py", "gaps % 2 == state.num_exchanges % 2", "gaps % 2 == 0", TEMPERED),
    Mutant(
        "kernels/replicas.py",
        "last_end[at_prior] == _AT_POSTERIOR",
        "last_end[at_prior] == _AT_PRIOR",
        TEMPERED,
    ),
    Mutant(
        "kernels/mixture.py",
        "jnp.log(jnp.asarray(weights, dtype=float))",
        "jnp.asarray(weights, dtype=float)",
        KERNELS,
        "mixture_picks",
    ),
    # -- priors --------------------------------------------------------------------------------
    Mutant(
        "priors/network.py",
        "columns = np.ones(into) if depth == 0 else decay_in",
        "columns = decay_in",
        NETWORK,
    ),
    Mutant(
        "priors/network.py",
        "** (-alpha / 2)\n            decay_in",
        "** -alpha\n            decay_in",
        NETWORK,
    ),
    Mutant(
        "priors/network.py",
        "tails = [float(zeta(self.alpha, n + 1)) for n in widths]",
        "tails = [float(zeta(self.alpha, max(n, 1))) for n in widths]",
        NETWORK,
    ),
    Mutant("priors/network.py", "biases * sd_biases", "biases", NETWORK),
    Mutant("priors/fourier.py", "2 * jnp.pi * jnp.arange", "jnp.pi * jnp.arange", SERIES),
    Mutant(
        "priors/fourier.py",
        '(-hyperparameters.get("alpha", self.alpha) / 4)',
        '(-hyperparameters.get("alpha", self.alpha) / 2)',
        SERIES,
    ),
    Mutant(
        "priors/series.py",
        "basis * jnp.sqrt(jnp.asarray(self.eigenvalues))",
        "basis * jnp.asarray(self.eigenvalues)",
        SERIES + PCN,
    ),
    Mutant(
        "priors/tails.py", "math.sqrt((self.df - 2) / self.df) * z", "z", ("priors/test_tails.py",)
    ),
    Mutant(
        "priors/hyperpriors.py",
        "return self.median * jnp.exp(self.sigma * h)",
        "return self.median * jnp.exp(h)",
        ("priors/test_hyper.py",),
    ),
    Mutant(
        "priors/inputs.py",
        "scaled = 2 * self.to_unit_cube(points) - 1",
        "scaled = self.to_unit_cube(points)",
        (*NETWORK, "priors/test_hyper.py"),
    ),
    Mutant(
        "priors/base.py",
        "return new.at[self._places_in(finer)].set(z)",
        "return new.at[: z.size].set(z)",
        ("priors/test_refine.py",),
    ),
    # -- likelihoods ---------------------------------------------------------------------------
    Mutant(
        "likelihoods/regression.py",
        "- residuals.size * _log_constant(noise)",
        "",
        ("likelihoods/test_regression.py", "model_choice/test_comparison.py"),
    ),
    Mutant(
        "likelihoods/regression.py",
        "-0.5 * jnp.sum(residuals**2)",
        "-jnp.sum(residuals**2)",
        ("likelihoods/test_regression.py", *PCN),
    ),
    Mutant(
        "likelihoods/choice_probability.py",
        "height = jnp.sum(jnp.log(at_mode.factor)",
        "height = jnp.sum(at_mode.factor",
        CHOICE,
    ),
    Mutant("likelihoods/choice_probability.py", "gradient / c\n", "gradient\n", CHOICE),
    Mutant(
        "likelihoods/choice_probability.py",
        "- 0.5 * mode**2\n",
        "- mode**2\n",
        CHOICE,
        "closed_form",
    ),
    Mutant("likelihoods/action_choice.py", "label + (label < chosen)", "label", ACTIONS),
    Mutant(
        "likelihoods/action_choice.py",
        "(saturated[0] - saturated[1:]) / noise",
        "(saturated[0] - saturated[1:]) * noise",
        ACTIONS,
    ),
    Mutant("likelihoods/conductances.py", "inverse_a + y @ x.T", "inverse_a", DARCY),
    Mutant("likelihoods/conductances.py", "d * (inverse @ (g + e))", "d * (inverse @ g)", DARCY),
    Mutant(
        "likelihoods/darcy.py",
        "return 2 * jnp.exp(-jnp.logaddexp(-u, -v))",
        "return jnp.exp((u + v) / 2)",
        DARCY,
    ),
    Mutant(
        "posterior.py",
        "log_likelihood if t is None else t * log_likelihood",
        "log_likelihood",
        ("test_posterior.py",),
    ),
    # -- sampling ------------------------------------------------------------------------------
    Mutant(
        "sampling/chunk.py",
        "first = schedule.first_step + draw * schedule.steps_per_draw",
        "first = schedule.first_step + draw",
        SAMPLE,
    ),
    Mutant(
        "sampling/chunk.py",
        "chain_key = jax.random.fold_in(key, chain.number)",
        "chain_key = key",
        SAMPLE,
    ),
    Mutant(
        "sampling/moments.py",
        "(value - moments.mean) * (value - mean)",
        "(value - mean) * (value - mean)",
        ("sampling/test_moments.py", *SAMPLE),
    ),
    Mutant(
        "sampling/moments.py",
        "m2.sum(axis=0) + between, 0.0",
        "m2.sum(axis=0), 0.0",
        ("sampling/test_moments.py", *SAMPLE),
    ),
    Mutant(
        "sampling/session.py",
        "num_warmup + done * self.settings.thin",
        "num_warmup + done",
        SAMPLE,
        "chunks or thinning or seed",
    ),
    Mutant(
        "sampling/adaptation/left_behind.py",
        "middle - means > max",
        "means - middle > max",
        ("sampling/test_references.py",),
        "left_behind",
    ),
    Mutant(
        "sampling/start.py",
        "number // chains_per_start",
        "number",
        ("sampling/test_verdict.py",),
        "begin_together",
    ),
    Mutant(
        "sampling/verdict.py",
        "np.repeat(np.arange(num_starts), len(draws) // num_starts)",
        "np.arange(len(draws)) % num_starts",
        ("sampling/test_verdict.py",),
        "short_chains",
    ),
    Mutant(
        "kernels/centred.py",
        "log_r - 0.5 * jnp.expm1(2 * log_r) * z**2",
        "-0.5 * jnp.expm1(2 * log_r) * z**2",
        ("kernels/test_centred.py",),
        "ratio",
    ),
    Mutant(
        "kernels/centred.py",
        "log_r = jnp.where(self.held, log_r, 0.0)",
        "log_r = jnp.where(self.held, log_r, log_r)",
        ("kernels/test_centred.py",),
        "corner",
    ),
    Mutant(
        "sampling/devices.py",
        "min(k for k in range(wanted, num_groups + 1) if num_groups % k == 0)",
        "num_groups",
        SIDE_BY_SIDE,
        "as_few",
    ),
    Mutant(
        "sampling/side_by_side.py",
        'any("callback" in name for name in _primitives(traced))',
        "False",
        SIDE_BY_SIDE,
        "calls_back",
    ),
    Mutant(
        "sampling/side_by_side.py",
        "with carried(settings):",
        "with carried({}):",
        SIDE_BY_SIDE,
        "settings",
    ),
    Mutant(
        "sampling/side_by_side.py",
        "pool.map(partial(with_settings, function), arguments)",
        "map(partial(with_settings, function), arguments)",
        SIDE_BY_SIDE,
        "same_time",
    ),
    Mutant(
        "sampling/session.py",
        "self.adaptation.remember(learnt_in(arrays))",
        "pass",
        STORE,
        "stopped",
    ),
    Mutant(
        "sampling/adaptation/step_size.py",
        "pooled, self._tried, phase = memory",
        "pooled, _, phase = memory",
        ("sampling/test_adaptation.py",),
    ),
    Mutant(
        "sampling/adaptation/temperatures.py",
        "while (end + length) * WINDOW <= _SHARE_OF_ROUNDS * num_warmup:",
        "while (end + length) * WINDOW <= num_warmup:",
        TEMPERING,
    ),
    Mutant(
        "sampling/diagnostics.py",
        "    if (np.ptp(flat, axis=1) == 0).any():\n        return 0.0, math.inf\n",
        "",
        ("sampling/test_until.py",),
    ),
    Mutant(
        "sampling/verdict.py",
        "if worst.rhat <= largest:",
        "if worst.rhat <= 2 * largest:",
        ("sampling/test_verdict.py",),
    ),
    Mutant(
        "sampling/verdict.py",
        "if np.ptp(chain) else 1.0",
        "if np.ptp(chain) else np.inf",
        ("sampling/test_verdict.py",),
    ),
    Mutant(
        "kernels/reference.py",
        "(1 - self.scale) * (1 + self.scale) / self.scale**2",
        "(1 - self.scale) * (1 + self.scale) / self.scale",
        ("kernels/test_reference.py",),
    ),
    Mutant(
        "sampling/adaptation/fitted_reference.py",
        "ratio**0.25",
        "ratio**0.5",
        ("sampling/test_references.py",),
        "scales",
    ),
    Mutant(
        "sampling/adaptation/fitted_reference.py",
        "mean = mean_x + s *",
        "mean = mean_x - s *",
        ("sampling/test_references.py",),
        "gaussian_posterior",
    ),
    Mutant(
        "sampling/adaptation/fitted_reference.py",
        "np.maximum(w, 1 / e) / e",
        "np.maximum(w, 1e-9) / e",
        ("sampling/test_curvature.py",),
        "hardly_moved",
    ),
    Mutant(
        "sampling/adaptation/fitted_reference.py",
        "variances ** (1 - 1 / each) / each",
        "variances / each",
        ("sampling/test_curvature.py",),
        "say_nothing",
    ),
    Mutant(
        "sampling/adaptation/curvature.py",
        "-jax.hessian(level)",
        "jax.hessian(level)",
        ("sampling/test_curvature.py",),
        "linear_in_its_coordinates",
    ),
    Mutant(
        "sampling/adaptation/by_need.py",
        "quarter_turn(step_size) > MOST_KICKS",
        "quarter_turn(step_size) > 2 * MOST_KICKS",
        ("sampling/test_by_need.py",),
        "thousand_kicks",
    ),
    Mutant(
        "sampling/adaptation/by_need.py",
        "self._chainwise.update(done - self._began[0], seen, number)",
        "self._chainwise.update(done, seen, number)",
        ("sampling/test_by_need.py",),
        "frozen",
    ),
    Mutant(
        "kernels/reference_trajectory.py",
        "h * with_b(v) + 0.5 * h**2",
        "h * with_b(v) + h**2",
        ("kernels/test_reference.py",),
        "a_trajectory",
    ),
    Mutant(
        "sampling/adaptation/contest.py",
        "np.minimum(change / (2 * variance), 1.0)",
        "change / (2 * variance)",
        ("sampling/test_contest.py",),
    ),
    Mutant(
        "sampling/adaptation/chainwise.py",
        "cost / _GAIN if",
        "cost if",
        ("sampling/test_references.py",),
        "prior_stays",
    ),
    Mutant(
        "sampling/adaptation/chainwise.py",
        "if done <= self._fits_end:",
        "if True:",
        ("sampling/test_references.py",),
        "frozen",
    ),
    Mutant(
        "model_choice/stacking.py",
        "np.maximum(weights, 0.0)",
        "np.ones_like(weights)",
        ("model_choice/test_stacking.py",),
    ),
    Mutant(
        "sampling/until.py",
        "not rhat <= self.rhat",
        "not rhat <= 2 * self.rhat",
        ("sampling/test_until.py",),
    ),
    Mutant(
        "sampling/identity.py",
        "arrays.update(_bytes(np.asarray(constant)))",
        "pass",
        STORE,
        "posterior",
    ),
    Mutant(
        "sampling/files.py",
        "if checksum.hexdigest() != header.sha256:",
        "if False:",
        ("sampling/test_files.py",),
    ),
    Mutant(
        "sampling/store.py",
        "manifest.words, posterior)\n    if unlike:",
        "manifest.words, posterior)\n    if False:",
        STORE,
        "posterior",
    ),
    Mutant(
        "sampling/new_file.py",
        "os.link(temporary, path)",
        "temporary.replace(path)",
        ("experiments/test_integrity.py",),
        "two_at_once",
    ),
    Mutant("arrays.py", "if masked.any():", "if False:", ("test_arrays.py",)),
    # -- model choice --------------------------------------------------------------------------
    Mutant(
        "model_choice/evidence.py",
        "errors = [series.std(ddof=1) / np.sqrt(size)]",
        "errors = [0.0]",
        ("model_choice/test_evidence_error.py",),
    ),
    Mutant(
        "model_choice/evidence.py",
        "for parts in (1, _PARTS):",
        "for parts in (_PARTS,):",
        ("model_choice/test_evidence_error.py",),
    ),
    Mutant("model_choice/tempering.py", "trips[:, -1] - trips[:, 0]", "trips[:, -1]", TEMPERING),
    # -- control, scores and reports -----------------------------------------------------------
    Mutant(
        "control/mountain_car.py",
        "jnp.cos(3 * x)",
        "jnp.sin(3 * x)",
        ("control/test_mountain_car.py",),
    ),
    Mutant(
        "control/mountain_car.py",
        "part[every - 1 :: every]",
        "part[::every]",
        ("control/test_mountain_car.py",),
    ),
    Mutant(
        "control/policies.py",
        "values + self.noise * jax",
        "values + jax",
        ("control/test_policies.py",),
    ),
    Mutant("scores.py", "(1 - level) / 2, (1 + level) / 2", "1 - level, level", SCORES),
    Mutant(
        "scores.py",
        "return np.abs(ordered - values).mean(axis=0) - weights @ ordered",
        "return np.abs(ordered - values).mean(axis=0) + weights @ ordered",
        SCORES,
    ),
    Mutant(
        "experiments/mountain_car/report.py",
        'failures("argmax")._replace(title="argmax")',
        'failures("thompson")._replace(title="argmax")',
        ("report/test_mountain_car.py",),
    ),
    Mutant(
        "report/tables.py",
        'text if row["is_converged"] else f"[{text}]"',
        "text",
        ("report/test_tables.py",),
    ),
    Mutant(
        "run_directory/checksums.py",
        '== sums[name] else "it is not as it was written"',
        "== sums[name] else None",
        ("experiments/test_integrity.py",),
    ),
]
