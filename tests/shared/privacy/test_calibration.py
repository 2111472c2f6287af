from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from sfumato.shared.errors import PrivacyError
from sfumato.shared.privacy import MECHANISMS, FourierShape, PrivacyTarget, calibrate_mechanism
from sfumato.shared.privacy.mechanisms.cube import DiscreteCube
from sfumato.shared.system import SystemSource

MASKED = FourierShape(n_frequencies=200, measurements_per_record=50)
TARGET = PrivacyTarget(
    mechanism="discrete-knorm",
    shape=FourierShape(n_frequencies=200, measurements_per_record=200),
    epsilon=Fraction(1),
    delta=Fraction(0),
    neighbouring="replace-one",
)


def target(mechanism: str, neighbouring: str = "replace-one") -> PrivacyTarget:
    delta = Fraction(1, 10**6) if mechanism == "discrete-gaussian" else Fraction(0)
    return replace(TARGET, mechanism=mechanism, delta=delta, neighbouring=neighbouring)


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_every_mechanism_keeps_the_promise_and_not_much_more(mechanism: str) -> None:
    guarantee = calibrate_mechanism(target(mechanism)).guarantee
    assert Fraction(999, 1000) < guarantee.epsilon <= 1
    assert guarantee.delta <= target(mechanism).delta
    assert guarantee.neighbouring == "replace-one"


@pytest.mark.parametrize("mechanism", [*MECHANISMS, "cube"])
def test_sums_are_not_changed_in_place_and_noise_is_fresh_and_within_its_bound(
    mechanism: str,
) -> None:
    cube = DiscreteCube(
        n_coordinates=4, norm_sensitivity=65534, rate=1 << 36, neighbouring="replace-one"
    )
    noise = cube if mechanism == "cube" else calibrate_mechanism(target(mechanism))
    sums = np.zeros((100, 4) if mechanism == "cube" else 400, dtype=np.int64)
    first, second = (noise.add_noise(sums, SystemSource()) for _ in range(2))
    assert not sums.any()
    # Equal, or beyond the bound, by chance with probability below 1e-15.
    assert not np.array_equal(first, second)
    assert np.abs(first).max() < noise.noise_bound


def test_variances_stand_in_the_order_that_the_mathematics_gives() -> None:
    variance = {name: calibrate_mechanism(target(name)).variance for name in MECHANISMS}
    assert variance["discrete-knorm"] / variance["discrete-laplace"] == pytest.approx(0.255, 0.01)
    assert variance["discrete-gaussian"] < variance["discrete-knorm"]


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_hiding_presence_needs_about_a_quarter_of_the_variance_of_hiding_values(
    mechanism: str,
) -> None:
    # Half the sensitivity per feature, and a count that is one coordinate among 401.
    values = calibrate_mechanism(target(mechanism)).variance
    presence = calibrate_mechanism(target(mechanism, "add-remove-one")).variance
    assert 0.249 < presence / values < 0.256


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"shape": MASKED}, "measurements_per_record"),
        ({"mechanism": "discrete-laplace", "delta": Fraction(1, 10)}, "delta"),
        ({"mechanism": "discrete-gaussian"}, "delta"),
        ({"mechanism": "exponential"}, "mechanism"),
        ({"neighbouring": "bounded"}, "neighbouring"),
        (
            {
                "mechanism": "discrete-laplace",
                "shape": MASKED,
                "neighbouring": "add-remove-one",
            },
            "measurements_per_record",
        ),
    ],
)
def test_wrong_combinations_are_refused_with_the_reason(
    change: dict[str, object], field: str
) -> None:
    with pytest.raises(PrivacyError) as caught:
        calibrate_mechanism(replace(TARGET, **change))  # type: ignore[arg-type]
    assert caught.value.field == field


def test_importing_the_privacy_core_pulls_in_no_large_library() -> None:
    import subprocess
    import sys

    script = (
        "import sys, sfumato.shared.privacy, sfumato.shared.plan, sfumato.shared.wire; "
        "print(*{name.partition('.')[0] for name in sys.modules})"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    loaded = set(done.stdout.split())
    assert "numpy" in loaded
    assert not loaded & {"scipy", "fastapi", "pydantic", "sqlalchemy", "httpx", "opendp", "pandas"}
