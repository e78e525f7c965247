"""Draws the recorded run of ``rheostat demo`` that README and tutorial show.

To record another run, use ``rheostat demo --json``, and copy its ``recording`` to tests/traces/demo/rescue.json.
"""

from __future__ import annotations

import json

from docs_build.page import ROOT
from rheostat.demo.chart import draw_rescue
from rheostat.demo.film import draw_film
from rheostat.demo.recording import Event, Recording

RECORDING = ROOT / "tests" / "traces" / "demo" / "rescue.json"


def draw_rescue_plot() -> str:
    """Returns the plot as SVG text."""
    return draw_rescue(read_recording())


def draw_rescue_film() -> str:
    """Returns the film of the same run as SVG text."""
    return draw_film(read_recording())


def read_recording() -> Recording:
    values = json.loads(RECORDING.read_text(encoding="utf-8"))
    return Recording(**{**values, "events": [Event(**event) for event in values["events"]]})
