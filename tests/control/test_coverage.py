"""Figures of coverage on states whose answer is known."""

from __future__ import annotations

import numpy as np
import pytest

from traceclass.control.coverage import coverage

LOW, HIGH = (-2.0, -2.0, -2.0), (2.0, 2.0, 2.0)


def test_states_on_a_line_have_one_dimension_and_in_a_ball_three():
    generator = np.random.default_rng(0)
    line = np.outer(generator.standard_normal(500), [1.0, 2.0, -1.0])
    ball = generator.standard_normal((5_000, 3))
    actions = np.zeros(len(line), int)
    assert coverage(line, actions, ball, LOW, HIGH)["dimensions"] == pytest.approx(1, abs=1e-6)
    dimensions = coverage(ball, np.zeros(len(ball), int), ball, LOW, HIGH)["dimensions"]
    assert dimensions == pytest.approx(3, abs=0.02)


def test_states_that_were_seen_have_no_gap_and_others_their_distance():
    ball = np.random.default_rng(0).standard_normal((200, 3))
    actions = np.zeros(200, int)
    assert coverage(ball, actions, ball, LOW, HIGH)["gap"] == 0
    # Half a unit in the scaled box is one in the state, and these lie far from each other.
    apart = np.array([[0.0, 0.0, 0.0], [0.0, 9.0, 0.0], [0.0, 0.0, 9.0]])
    moved = coverage(apart, actions[:3], apart + np.array([1.0, 0.0, 0.0]), LOW, HIGH)
    assert moved["gap"] == pytest.approx(0.5)
    assert 0 < moved["relative_gap"] < 0.2


def test_two_of_the_others_are_compared_at_random():
    """Two episodes of one circle: states half a list apart are the same, and tell nothing."""
    angle = np.linspace(0, 2 * np.pi, 400, endpoint=False)
    circle = np.stack([np.cos(angle), np.sin(angle), 0 * angle], axis=1)
    others = np.concatenate([circle, circle])
    figures = coverage(circle[:200], np.zeros(200, int), others, LOW, HIGH)
    # The median chord between two random points of a circle of radius 1/2 is 1/sqrt(2).
    assert figures["gap"] / figures["relative_gap"] == pytest.approx(0.5**0.5, abs=0.06)


def test_even_actions_are_as_many_as_there_are():
    states, others = np.random.default_rng(0).standard_normal((2, 8, 3))
    even = coverage(states, np.arange(8), others, LOW, HIGH)
    assert (even["num_actions"], even["even_actions"]) == (8, pytest.approx(8))
    uneven = coverage(states, np.array([0] * 7 + [5]), others, LOW, HIGH)
    assert uneven["num_actions"] == 2
    assert 1 < uneven["even_actions"] < 2
