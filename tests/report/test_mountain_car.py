"""The table of mountain car: every number under the title it belongs to."""

from __future__ import annotations

from traceclass.experiments.mountain_car.report import main_table


def estimate(value: float) -> dict:
    return {"mean": value, "error": None, "each": [value]}


RESULTS = {
    "num_episodes": 100,
    "num_data_sets": 1,
    "rows": [
        {
            "prior": "tcnn", "kernel": "pcn", "num_converged": 1, "rhat": 1.013,
            "failures": {
                "noisy_argmax": estimate(26.0), "argmax": estimate(3.0), "thompson": estimate(7.0)
            },
            "median_steps": estimate(146.0), "paper_failures": 23,
        }
    ],
    "alternatives": [
        {"name": "expert", "failures": estimate(5.0), "median_steps": estimate(104.0)}
    ],
}  # fmt: skip


def test_each_column_is_its_own_policy():
    found = main_table(RESULTS)
    ours, expert = (dict(zip(found.titles, row, strict=True)) for row in found.rows)
    shown = {title: ours[title] for title in ("noisy", "argmax", "Thompson", "steps", "paper")}
    assert {title: text.split()[0] for title, text in shown.items()} == {
        "noisy": "26.0", "argmax": "3.0", "Thompson": "7.0", "steps": "146", "paper": "23",
    }  # fmt: skip
    assert (expert["argmax"], expert["Thompson"], expert["noisy"]) == ("5.0", "-", "-")
    assert expert["steps"].startswith("104")
    assert ours["R-hat"] == "1.013"
    assert ours["good"] == "1 of 1"
