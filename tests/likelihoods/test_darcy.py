"""The forward map of groundwater flow against exact solutions, other codes and its own limits."""

from __future__ import annotations

from functools import partial

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.sparse
import scipy.sparse.linalg
from as_shipped import OPTIONS
from mpmath import mp, mpf

import traceclass as tc
from traceclass.likelihoods.conductances import Network, outflow, solve

# Compiled as a whole, as in a run: operation by operation, every grid compiles dozens of programs.
head_of = eqx.filter_jit(tc.DarcyFlow.head)
outflow_of = eqx.filter_jit(tc.DarcyFlow.outflow)


@partial(jax.jit, static_argnames="shape")
def network_of(key, shape, spread=1.0):
    keys = jax.random.split(key, 3)
    rows, columns = shape
    shapes = ((rows - 1, columns), (rows, columns - 1), shape)
    first, second, ground = (
        jnp.exp(spread * jax.random.normal(k, s)) for k, s in zip(keys, shapes, strict=True)
    )
    return Network(first, second, ground)


def matrix_of(network, shape):
    """The matrix itself, a column for each unit vector."""
    unit_vectors = np.eye(shape[0] * shape[1], dtype=network.ground.dtype).reshape(-1, *shape)
    columns = jax.jit(jax.vmap(outflow, in_axes=(None, 0)))(network, unit_vectors)
    return np.asarray(columns, dtype=np.float64).reshape(len(columns), -1).T


LATER = [pytest.param(shape, marks=pytest.mark.long) for shape in [(1, 1), (2, 2), (7, 8)]]
SHAPES = [(1, 4), (3, 2), (4, 4), *LATER]


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_the_elimination_solves_the_equations(shape, x64):
    network = network_of(jax.random.key(1), shape)
    b = jax.random.normal(jax.random.key(2), shape)
    matrix = matrix_of(network, shape)
    np.testing.assert_allclose(matrix, matrix.T, atol=1e-13)
    expected = np.linalg.solve(matrix, np.asarray(b).ravel()).reshape(shape)
    np.testing.assert_allclose(solve(network, b), expected, rtol=1e-10)


def test_forward_and_reverse_derivatives_agree_with_differences(x64):
    shape = (5, 4)
    network = network_of(jax.random.key(1), shape)
    tangent = network_of(jax.random.key(3), shape)
    b, db, weights = (jax.random.normal(jax.random.key(n), shape) for n in (4, 5, 6))

    @jax.jit
    def at(t):
        moved = jax.tree.map(lambda w, dw: w + t * dw, network, tangent)
        return jnp.vdot(weights, solve(moved, b + t * db))

    step = 1e-5
    expected = float((at(step) - at(-step)) / (2 * step))
    forward = jax.jit(lambda t: jax.jvp(at, (t,), (1.0,))[1])
    reverse = jax.jit(jax.grad(at))
    assert forward(0.0) == pytest.approx(expected, rel=1e-8)
    assert reverse(0.0) == pytest.approx(expected, rel=1e-8)
    second = float((reverse(step) - reverse(-step)) / (2 * step))
    assert jax.jit(jax.grad(jax.grad(at)))(0.0) == pytest.approx(second, rel=1e-6)


def exact_solve(network, b):
    """The same equations in 120 digits."""
    shape = b.shape
    with mp.workdps(120):
        first, second, ground, rhs = (
            np.vectorize(mpf)(np.asarray(a, float)) for a in (*network, b)
        )
        size = shape[0] * shape[1]
        matrix = mp.zeros(size, size)
        number = np.arange(size).reshape(shape)
        pairs = [
            (number[:-1].ravel(), number[1:].ravel(), first.ravel()),
            (number[:, :-1].ravel(), number[:, 1:].ravel(), second.ravel()),
        ]
        for i in range(size):
            matrix[i, i] = ground.ravel()[i]
        for heads, tails, conductances in pairs:
            for i, j, w in zip(heads.tolist(), tails.tolist(), conductances, strict=True):
                matrix[i, i] += w
                matrix[j, j] += w
                matrix[i, j] -= w
                matrix[j, i] -= w
        solution = mp.lu_solve(matrix, mp.matrix(rhs.ravel().tolist()))
        return np.array([float(x) for x in solution]).reshape(shape)


def test_single_precision_keeps_its_digits_at_a_contrast_of_1e26():
    """Nothing is subtracted, so every head has small relative error, whatever the conductances."""
    shape = (5, 5)
    w = np.exp(np.random.default_rng(0).uniform(-30.0, 30.0, (3, 5, 5))).astype(np.float32)
    ground = w[2] * (np.arange(5) == 0)  # one side alone is held
    network = Network(w[0, 1:], w[1, :, 1:], ground)
    b = np.float32(0.7) * ground
    b[3, 3] = 1e-3
    heads = jax.jit(solve, compiler_options=OPTIONS)(network, b)
    assert heads.dtype == jnp.float32
    exact = exact_solve(network, b)
    np.testing.assert_allclose(heads, exact, rtol=1e-5)
    # What an ordinary factorisation in single precision makes of it.
    matrix = matrix_of(network, shape).astype(np.float32)
    ordinary = np.linalg.solve(matrix, np.asarray(b).ravel()).reshape(shape)
    assert np.abs(ordinary / exact - 1).max() > 0.1


def test_extreme_permeabilities_are_finite_and_between_the_boundary_values():
    flow = tc.DarcyFlow(cells=7)
    field = np.random.default_rng(3).uniform(-30.0, 30.0, 8 * 8).astype(np.float32)

    @jax.jit
    def heads_and_gradient(u):
        heads, back = jax.vjp(flow.head, u)
        return heads, back(2 * heads)[0]

    for u in (field, np.sign(field) * 30, np.full_like(field, 30), np.full_like(field, -30)):
        heads, gradient = map(np.asarray, heads_and_gradient(u))
        assert np.isfinite(gradient).all()
        assert heads.min() >= 0.0
        assert heads.max() <= 1.0 + 1e-6  # the maximum principle


def test_a_contrast_beyond_single_precision_is_not_silent():
    flow = tc.DarcyFlow(cells=4)
    island = np.zeros(25, dtype=np.float32)
    island[12] = -400.0
    assert not np.isfinite(head_of(flow, jnp.asarray(island))).all()
    likelihood = tc.GroundwaterFlow([0.0], [[0, 0]], noise=0.1, cells=4)
    assert not np.isfinite(jax.jit(likelihood.log_prob)(island))  # kernels reject and count it


def test_the_matrix_is_symmetric_positive_definite(x64):
    flow = tc.DarcyFlow(cells=(4, 5), boundary=tc.FlowBoundary(head={"left": 0.0}))
    u = 3 * jax.random.normal(jax.random.key(0), (30,))

    def heads_of_source(f):
        # Heads are linear in the source: the solution operator is the inverse of the matrix.
        sourced = tc.DarcyFlow(
            cells=(4, 5), boundary=tc.FlowBoundary(head={"left": 0.0}), source=lambda _: f
        )
        return np.asarray(head_of(sourced, u))[1:].ravel()

    unknown = np.arange(30).reshape(5, 6)[1:].ravel()
    inverse = np.stack([heads_of_source(np.eye(30)[i]) for i in unknown], axis=1)
    areas = np.outer(np.r_[0.5, 1, 1, 1, 0.5], np.r_[0.5, 1, 1, 1, 1, 0.5]).ravel()[unknown]
    inverse = inverse / areas
    np.testing.assert_allclose(inverse, inverse.T, rtol=1e-10)
    assert np.linalg.eigvalsh(inverse).min() > 0
    assert flow.shape == (5, 6)


# -- exact solutions ---------------------------------------------------------------------------


@pytest.mark.parametrize("cells", [(2, 2), (4, 7)], ids=str)
def test_constant_permeability_gives_the_straight_line(cells):
    flow = tc.DarcyFlow(cells=cells, boundary=tc.FlowBoundary(head={"left": 1.0, "right": 3.0}))
    heads = head_of(flow, jnp.full(flow.shape[0] * flow.shape[1], 2.0))
    expected = np.linspace(1.0, 3.0, cells[0] + 1)[:, None] * np.ones(cells[1] + 1)
    np.testing.assert_allclose(heads, expected, rtol=1e-5)
    # Darcy's law: exp(2) times the slope 2 comes in on the right.
    assert outflow_of(flow, jnp.full(heads.size, 2.0))["left"] == pytest.approx(
        2 * np.exp(2.0), rel=1e-5
    )


def test_the_paper_boundary_at_constant_permeability_is_antisymmetric():
    heads = np.asarray(head_of(tc.DarcyFlow(cells=10), jnp.zeros(121)))
    x = np.linspace(0, 1, 11)
    np.testing.assert_allclose(heads[:, 0], x, atol=1e-6)
    np.testing.assert_allclose(heads[:, -1], 1 - x, atol=1e-6)
    np.testing.assert_allclose(heads + heads[::-1], 1.0, atol=1e-6)  # x1 -> 1 - x1
    np.testing.assert_allclose(heads + heads[:, ::-1], 1.0, atol=1e-6)  # x2 -> 1 - x2


def test_layers_across_the_flow_are_exact():
    """Layers in series: the head falls in proportion to the resistance passed."""
    permeability = np.exp(np.array([0.0, 0.0, 3.0, 3.0, -2.0, -2.0, -2.0, 1.0, 1.0]))
    flow = tc.DarcyFlow(cells=8, boundary=tc.FlowBoundary(head={"left": 0.0, "right": 1.0}))
    heads = head_of(flow, jnp.log(jnp.repeat(jnp.asarray(permeability), 9)))
    # Interfaces lie midway between nodes: half a cell of each.
    resistance = np.r_[0, np.cumsum(0.5 / permeability[:-1] + 0.5 / permeability[1:])]
    expected = (resistance / resistance[-1])[:, None] * np.ones(9)
    np.testing.assert_allclose(heads, expected, atol=2e-6)


def test_layers_along_the_flow_are_exact():
    """Layers in parallel: a straight line in each, and fluxes in proportion."""
    layers = jnp.array([0.0, 2.0, -1.0, 4.0, 1.0])
    flow = tc.DarcyFlow(cells=4, boundary=tc.FlowBoundary(head={"left": 0.0, "right": 1.0}))
    u = jnp.tile(layers, 5)
    expected = np.linspace(0, 1, 5)[:, None] * np.ones(5)
    np.testing.assert_allclose(head_of(flow, u), expected, atol=1e-6)
    widths = np.array([0.5, 1, 1, 1, 0.5]) / 4
    total = float(np.sum(widths * np.exp(np.asarray(layers))))
    assert outflow_of(flow, u)["left"] == pytest.approx(total, rel=1e-5)


# -- a manufactured solution -------------------------------------------------------------------


def manufactured(boundary_kind):
    """p and u of sines, and the source -div(exp(u) grad p) that makes p the solution."""

    def u(x):
        return 0.7 * jnp.sin(2 * x[0] + 1) * jnp.cos(3 * x[1])

    def p(x):
        return jnp.sin(1.3 * x[0] + 0.2) * jnp.exp(0.5 * x[1]) + x[0] * x[1]

    def flux(x):
        return jnp.exp(u(x)) * jax.grad(p)(x)

    def source(points):
        return jax.jit(jax.vmap(lambda x: -jnp.trace(jax.jacfwd(flux)(x))))(points)

    def on(function, side):
        def along(t):
            ends = {"left": 0.0, "right": 1.5, "bottom": 0.0, "top": 1.0}
            fixed = np.full_like(t, ends[side])
            both = (fixed, t) if side in ("left", "right") else (t, fixed)
            return jax.jit(jax.vmap(function))(np.stack(both, axis=1))

        return along

    outward = {"left": (0, -1.0), "right": (0, 1.0), "bottom": (1, -1.0), "top": (1, 1.0)}
    head = {side: on(p, side) for side in boundary_kind}
    through = {
        side: on(lambda x, a=axis, s=sign: s * flux(x)[a], side)
        for side, (axis, sign) in outward.items()
        if side not in boundary_kind
    }
    return u, p, source, tc.FlowBoundary(head=head, flux=through)


@pytest.mark.parametrize(
    "sides",
    [
        ("right", "top"),
        pytest.param(("left", "right", "bottom", "top"), marks=pytest.mark.long),
        pytest.param(("bottom", "top"), marks=pytest.mark.long),
        pytest.param(("left",), marks=pytest.mark.long),
    ],
    ids=str,
)
def test_the_order_of_convergence_is_two(sides, x64):
    u, p, source, boundary = manufactured(sides)
    errors = []
    for n in (4, 8, 16):
        flow = tc.DarcyFlow(
            cells=(n, n + 1), boundary=boundary, source=source, low=(0, 0), high=(1.5, 1)
        )
        heads = np.asarray(head_of(flow, jax.jit(jax.vmap(u))(flow.nodes)))
        errors.append(np.abs(heads.ravel() - jax.jit(jax.vmap(p))(flow.nodes)).max())
    # An order is that of fine grids; from four cells to eight it may still be on its way to two.
    first, last = np.log2(np.array(errors[:-1]) / errors[1:])
    assert 1.8 < last < 2.3, (errors, first, last)
    assert 1.5 < first < 2.5, (errors, first, last)
    assert errors[-1] < 1e-2


# -- other codes -------------------------------------------------------------------------------


@jax.jit
def truth(points):
    """The paper's u*, up to 10 x 10 modes."""
    prior = tc.CosineSeries(num_modes=10)
    half = np.arange(1, 11) - 0.5
    signs = np.sin(half[:, None] ** 2 + half**2)
    return prior.evaluate(jnp.asarray(signs.ravel()), points)


def finite_elements(n):
    """Heads at the nodes of n x n cells by scikit-fem, bilinear elements."""
    import skfem

    axis = np.linspace(0, 1, n + 1)
    mesh = skfem.MeshQuad.init_tensor(axis, axis)
    basis = skfem.Basis(mesh, skfem.ElementQuad1(), intorder=4)

    @skfem.BilinearForm
    def flow(p, q, w):
        points = np.asarray(w.x).reshape(2, -1).T
        k = np.exp(np.asarray(truth(jnp.asarray(points)))).reshape(w.x.shape[1:])
        return k * (p.grad[0] * q.grad[0] + p.grad[1] * q.grad[1])

    matrix = flow.assemble(basis)
    x, y = mesh.p
    heads = np.where(y < 0.5, x, 1 - x)
    held = np.flatnonzero((y == 0) | (y == 1))
    heads = skfem.solve(*skfem.condense(matrix, x=heads, D=held))
    order = np.lexsort((np.round(y, 9), np.round(x, 9)))  # x1 slowest, x2 fastest
    return heads[order].reshape(n + 1, n + 1)


@pytest.mark.long
def test_heads_of_the_truth_agree_with_scikit_fem(x64):
    """Two codes of second order converge to each other at second order."""
    differences = []
    for n in (10, 20, 40):
        flow = tc.DarcyFlow(cells=n)
        ours = np.asarray(head_of(flow, truth(flow.nodes)))
        differences.append(np.abs(ours - finite_elements(n))[:: n // 10, :: n // 10].max())
    assert differences[2] < 0.01  # below the noise of the data, on the grid of the truth
    assert differences[2] < 0.4 * differences[1] < 0.16 * differences[0] * 1.2, differences


def plain_heads(u, n):
    """The same finite volumes assembled by SciPy, face by face."""
    k = np.exp(np.asarray(u, dtype=np.float64)).reshape(n + 1, n + 1)
    number = np.arange(k.size).reshape(k.shape)
    rows, columns, entries = [], [], []
    for a, b, half in (
        ((slice(None, -1), slice(None)), (slice(1, None), slice(None)), 1),
        ((slice(None), slice(None, -1)), (slice(None), slice(1, None)), 0),
    ):
        w = 2 * k[a] * k[b] / (k[a] + k[b])
        share = np.r_[0.5, np.ones(n - 1), 0.5]
        w = w * (share if half == 1 else share[:, None])
        for i, j, sign in ((a, a, 1), (b, b, 1), (a, b, -1), (b, a, -1)):
            rows.append(number[i].ravel())
            columns.append(number[j].ravel())
            entries.append(sign * w.ravel())
    matrix = scipy.sparse.csr_matrix(
        (np.concatenate(entries), (np.concatenate(rows), np.concatenate(columns)))
    )
    x = np.linspace(0, 1, n + 1)
    heads = np.zeros(k.shape)
    heads[:, 0], heads[:, -1] = x, 1 - x
    free = number[:, 1:-1].ravel()
    rhs = -(matrix @ heads.ravel())[free]
    heads.ravel()[free] += scipy.sparse.linalg.spsolve(matrix[free][:, free].tocsc(), rhs)
    return heads


@pytest.mark.parametrize("n", [3, 10])
def test_heads_agree_with_a_plain_sparse_solver_in_both_precisions(n):
    u = jax.random.normal(jax.random.key(n), ((n + 1) ** 2,)) * 2
    expected = plain_heads(u, n)
    single = head_of(tc.DarcyFlow(cells=n), u)
    assert single.dtype == jnp.float32
    np.testing.assert_allclose(single, expected, atol=3e-6)
    with jax.enable_x64(True):
        double = head_of(tc.DarcyFlow(cells=n), jnp.asarray(np.asarray(u), dtype=float))
        assert double.dtype == jnp.float64
        np.testing.assert_allclose(double, expected, atol=1e-13)


# -- what is conserved -------------------------------------------------------------------------


def test_what_flows_in_flows_out(x64):
    flow = tc.DarcyFlow(cells=(15, 12))
    out = outflow_of(flow, 2 * jax.random.normal(jax.random.key(0), (16 * 13,)))
    assert set(out) == {"bottom", "top"}
    assert abs(out["bottom"] + out["top"]) < 1e-12 * abs(out["top"])


def test_sources_and_fluxes_leave_through_the_held_side(x64):
    boundary = tc.FlowBoundary(head={"left": 0.0}, flux={"top": 3.0, "right": lambda y: y})
    flow = tc.DarcyFlow(cells=(9, 14), boundary=boundary, source=2.0)
    u = jax.random.normal(jax.random.key(0), (150,)) + 100.0  # and the scale of u does no harm
    assert outflow_of(flow, u)["left"] == pytest.approx(2.0 + 3.0 + 0.5, rel=1e-10)


def test_flow_through_a_held_box_is_darcys_law_at_every_side(x64):
    """p = x1 on all four sides: 1 comes in on the right and leaves on the left."""
    boundary = tc.FlowBoundary(
        head={"left": 0.0, "right": 1.0, "bottom": lambda x: x, "top": lambda x: x}
    )
    out = outflow_of(tc.DarcyFlow(cells=(4, 6), boundary=boundary), jnp.zeros(35))
    for side, expected in {"left": 1.0, "right": -1.0, "bottom": 0.0, "top": 0.0}.items():
        assert float(out[side]) == pytest.approx(expected, abs=1e-12), side
    u = jax.random.normal(jax.random.key(1), (35,))
    sourced = tc.DarcyFlow(cells=(4, 6), boundary=boundary, source=3.0)
    assert float(sum(outflow_of(sourced, u).values())) == pytest.approx(3.0, rel=1e-10)


@pytest.mark.long
def test_chains_are_solved_as_one_by_one():
    flow = tc.DarcyFlow(cells=6)
    u = jax.random.normal(jax.random.key(0), (5, 49))
    together = jax.jit(jax.vmap(flow.head))(u)
    for one, field in zip(together, u, strict=True):
        np.testing.assert_allclose(one, head_of(flow, field), atol=1e-6)


# -- what users get wrong ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: tc.DarcyFlow(cells=1), "cells must be at least 2, got 1"),
        (lambda: tc.DarcyFlow(cells=(4, 1)), "cells must be at least 2, got 1"),
        (lambda: tc.DarcyFlow(cells=(4, 4, 4)), "one for each of two dimensions"),
        (lambda: tc.DarcyFlow(cells=4, low=(1, 0), high=(0, 1)), "low < high"),
        (lambda: tc.FlowBoundary(head={"left": 0.0}, flux={"left": 1.0}), "'left' has both"),
        (lambda: tc.FlowBoundary(head={}), "no side has a head"),
        (
            lambda: tc.DarcyFlow(cells=20, low=(5e5, 5e6), high=(5e5 + 10, 5e6 + 10)),
            "Measure from a corner",
        ),
        (
            lambda: tc.DarcyFlow(cells=4, boundary=tc.FlowBoundary(head={"left": 1e39})),
            "'left' must be finite",
        ),
        (lambda: tc.FlowBoundary(head={"west": 0.0}), "left, right, bottom, top"),
        (
            lambda: tc.DarcyFlow(cells=4, boundary=tc.FlowBoundary(head={"left": [1.0, 2.0]})),
            "one per node; got shape",
        ),
        (
            lambda: tc.DarcyFlow(cells=4, boundary=tc.FlowBoundary(head={"left": np.nan})),
            "'left' must be finite",
        ),
        (lambda: tc.DarcyFlow(cells=4, source=lambda x: x), "map points"),
        (lambda: tc.DarcyFlow(cells=4).interpolation([[0.5, 1.5]]), "outside the domain"),
        (lambda: tc.DarcyFlow(cells=4).head(jnp.zeros(24)), "must have shape"),
    ],
)
def test_mistakes_are_named(make, words):
    with pytest.raises(ValueError, match=words.replace("(", r"\(")):
        make()


def test_a_head_without_its_side_is_named():
    with pytest.raises(TypeError, match="must say which side"):
        tc.FlowBoundary(head=1.0)
