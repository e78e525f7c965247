"""How a tenant of a storm paces itself."""

from __future__ import annotations

import pytest

from rheostat.lab.storm import back_off_s


@pytest.mark.parametrize(("tries", "waits_s"), [(1, 0.1), (2, 0.2), (4, 0.8), (5, 1.0), (5_000, 1.0)])
def test_who_does_not_heed_a_refusal_waits_as_after_any_other_error(tries: int, waits_s: float) -> None:
    assert back_off_s(tries) == pytest.approx(waits_s)
